"""Pipes in place of small files, as a shell makes them of ``<(command)``: they can be read once."""

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

MOST = 1 << 26  # bytes of a pipe
PATIENCE = 10.0  # seconds in which somebody has to begin to write


@dataclass(frozen=True)
class Drained:
    """What came through a pipe, under the pipe's name."""

    path: str
    content: bytes

    def __fspath__(self) -> str:
        """Name the pipe."""
        return self.path

    __str__ = __fspath__


def drained(path: AnyPath) -> AnyPath:
    """Read a pipe to its end; what is none is handed back.

    Raises
    ------
    InputError
        Where more comes than numbers of gradients take, or nobody writes.
    """
    if isinstance(path, Drained | InMemory) or not stat.S_ISFIFO(mode_of(path)):
        return path
    try:
        # an open that waits for somebody to write might wait for ever
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as pipe:
            if not select.select([pipe], [], [], PATIENCE)[0]:
                raise InputError(f"{path}: nobody writes to this pipe; give a file, or begin to write first")
            os.set_blocking(descriptor, True)
            content = pipe.read(MOST + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    if len(content) > MOST:
        raise InputError(f"{path}: more than {MOST} bytes come through this pipe; give the gradients of the series")
    return Drained(os.fspath(path), content)


@contextmanager
def as_file(path: Path | Drained) -> Generator[Path, None, None]:
    """A file that can be read by its name: the path itself, or a copy of what came through a pipe."""
    if not isinstance(path, Drained):
        yield path
        return
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "drained"
        copy.write_bytes(path.content)
        yield copy
