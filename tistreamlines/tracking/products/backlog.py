"""Work of other threads on batches, of which some may wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, ParamSpec, TypeVar

from ...devices.threads import thread_pool

Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")

MOST_THREADS = 4  # that help


class Backlog(Generic[Result]):
    """Work that other threads do, in the order in which it came.

    Parameters
    ----------
    pool : name of the threads.
    threads : how many there are.
    most : how much work may wait before more is taken.
    done : receives each result, if it is given, in the same order, in the thread that hands the work on.
    """

    def __init__(
        self, pool: str, threads: int, most: int, done: Callable[[Result], object] | None = None
    ) -> None:
        self._pool, self._threads, self._most, self._done = pool, threads, most, done
        self._waiting: deque[Future[Result]] = deque()

    def submit(
        self, work: Callable[Arguments, Result], *arguments: Arguments.args, **options: Arguments.kwargs
    ) -> None:
        """Have a thread do some work; wait if too much waits already."""
        self._wait(self._most)
        self._waiting.append(thread_pool(self._pool, self._threads).submit(work, *arguments, **options))

    def wait(self) -> None:
        """Wait until all work is done."""
        self._wait(0)

    def _wait(self, most: int) -> None:
        while len(self._waiting) > most:
            result = self._waiting.popleft().result()
            if self._done is not None:
                self._done(result)
