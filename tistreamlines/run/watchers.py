"""Who watches a run in Python: a bar, or a watcher of the user's own."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from ..errors import ParameterError
from .log import Watcher


@contextmanager
def bar_or(watcher: Watcher | None, *, progress: bool) -> Generator[Watcher, None, None]:
    """Show a bar during the block, if that is asked for, and return it, or else the watcher.

    Raises
    ------
    ParameterError
        If both are given.
    """
    if not progress:
        yield Watcher() if watcher is None else watcher
        return
    if watcher is not None:
        raise ParameterError("progress and watcher exclude each other: give one of them")
    from .progress import Bar  # which takes time to import

    with Bar() as bar:
        yield bar
