"""Gradient files that are pipes, as the shell creates for ``<(command)``; a pipe can be read only once."""

from __future__ import annotations

import os
import select
import stat
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from ..errors import InputError
from .images import AnyPath, mode_of
from .in_memory import InMemory

MOST = 1 << 26  # bytes read from a pipe
PATIENCE = 10.0  # seconds to wait for the first byte


@dataclass(frozen=True)
class Drained:
    """The content of a pipe, with the name of the pipe."""

    path: str
    content: bytes

    def __fspath__(self) -> str:
        """Return the name of the pipe."""
        return self.path

    __str__ = __fspath__


def drained(path: AnyPath) -> AnyPath:
    """Read a pipe to its end; the path of any other file is returned as it is.

    Raises
    ------
    InputError
        If nothing is written to the pipe, or more than gradient files contain.
    """
    if isinstance(path, Drained | InMemory) or not stat.S_ISFIFO(mode_of(path)):
        return path
    try:
        # a blocking open would wait for a writer for ever
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as pipe:
            if not select.select([pipe], [], [], PATIENCE)[0]:
                raise InputError(f"{path}: nobody writes to this pipe; check the command, or give a file")
            os.set_blocking(descriptor, True)
            content = pipe.read(MOST + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    if len(content) > MOST:
        raise InputError(f"{path}: more than {MOST} bytes come from this pipe; give b-values or b-vectors")
    return Drained(os.fspath(path), content)


@contextmanager
def as_file(path: Path | Drained) -> Generator[Path, None, None]:
    """Provide a regular file: the path itself, or a temporary copy of a pipe's content."""
    if not isinstance(path, Drained):
        yield path
        return
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "content"
        copy.write_bytes(path.content)
        yield copy
