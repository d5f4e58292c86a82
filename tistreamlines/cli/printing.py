"""Printing to standard output, which may be full or closed: an error if output was requested, else a warning."""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Container, Generator, Iterable, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any, TextIO

import click

from ..errors import OutputError

PIPE_WIDTH = 400  # characters; a pipe has no width of its own


@contextmanager
def guard_output() -> Generator[None, None, None]:
    """Raise OutputError if standard output cannot be written, whichever library prints."""
    stream: Any = _GuardedStream(sys.stdout)
    with redirect_stdout(stream):
        yield


def tell(text: str) -> None:
    """Print a summary of finished work; if it cannot be printed, only warn."""
    try:
        click.echo(text)
    except OutputError as error:
        click.echo(f"Warning: {error.on_command_line}", err=True)


@contextmanager
def warnings_afterwards() -> Generator[None, None, None]:
    """Print the warnings of a block once it has ended."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for warning in caught:
        click.echo(f"Warning: {warning.message}", err=True)


def report_line(page: Path) -> str:
    """Name the page of a report, and the files beside it."""
    from ..report.content import files_of

    files = files_of(page)
    picture, numbers = (click.format_filename(files[name].name) for name in ("picture", "numbers"))
    return f"Report: {click.format_filename(page)}, with {picture} and {numbers}"


def print_table(headings: Iterable[str], rows: Iterable[Sequence[str]], right: Container[str]) -> None:
    """Print a table as wide as the terminal, or without wrapping into a pipe; ``right`` names right-aligned columns."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, justify="right" if heading in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))  # a bracket is no markup
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=PIPE_WIDTH)
    console.print(table)


class _GuardedStream:
    """A stream that raises OutputError: at an OSError, click and rich would end the process silently."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lost = OSError(errno.EBADF, os.strerror(errno.EBADF)) if stream is None else None  # closed by the caller

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with self._explain():
            return self._stream.write(text)

    def flush(self) -> None:
        if self._lost is None:  # otherwise the error was reported already
            with self._explain():
                self._stream.flush()

    @contextmanager
    def _explain(self) -> Generator[None, None, None]:
        try:
            if self._lost is not None:
                raise self._lost
            yield
        except OSError as error:
            self._lost = error  # nothing more is written, even if the stream recovers
            with suppress(OSError, AttributeError):  # Python flushes again at exit, which must not fail
                os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
            raise OutputError(f"standard output: cannot be written ({error.strerror}); redirect it") from error
