"""Standard output, which may be full or closed: an error where what is printed was asked for, else a warning."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import TYPE_CHECKING, Any

import click

from ..errors import OutputError

if TYPE_CHECKING:
    from rich.table import Table

PIPE_WIDTH = 400  # a pipe has no width to wrap at


@contextmanager
def guarded() -> Generator[None, None, None]:
    """Raise OutputError where standard output takes no more, whoever prints."""
    stream: Any = _Guarded(sys.stdout)
    with redirect_stdout(stream):
        yield


def tell(text: str) -> None:
    """Print what was done; it is done although it cannot be printed."""
    try:
        click.echo(text)
    except OutputError as error:
        click.echo(f"Warning: {error.on_command_line}", err=True)


def print_table(table: Table) -> None:
    """Print a table, as wide as the terminal or, in a pipe, as it has to be."""
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=PIPE_WIDTH)
    console.print(table)


class _Guarded:
    """A stream with errors of ours: of the system's own, click and rich would make a silent end of the process."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._lost = OSError(errno.EBADF, os.strerror(errno.EBADF)) if stream is None else None  # closed by the caller

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with self._explained():
            return self._stream.write(text)

    def flush(self) -> None:
        if self._lost is None:  # else it was told of
            with self._explained():
                self._stream.flush()

    @contextmanager
    def _explained(self) -> Generator[None, None, None]:
        try:
            if self._lost is not None:
                raise self._lost
            yield
        except OSError as error:
            self._lost = error  # for good, though what follows would be taken
            with suppress(OSError, AttributeError):  # Python tries again at its end, which is to succeed
                os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
            raise OutputError(f"standard output: cannot be written ({error.strerror}); send it elsewhere") from error
