"""Tasks in threads of the host."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from threadpoolctl import threadpool_limits

from ..devices import usable_cores

_here = threading.local()
Item = TypeVar("Item")
Result = TypeVar("Result")


def in_threads(
    task: Callable[[Item], Result], items: Iterable[Item], threads: int | None
) -> Generator[Result, None, None]:
    """Yield the results of a task in order; if the caller stops, tasks that have not started are cancelled.

    Parameters
    ----------
    task : callable
        Its long calls should release the GIL.
    items : iterable
        What the task is called with.
    threads : int or None
        Number of threads; None is one per core. Meanwhile, BLAS uses no threads of its own.
    """
    pool = ThreadPoolExecutor(threads or usable_cores())
    try:
        with single_blas():
            yield from pool.map(task, items)
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def single_blas() -> Generator[None, None, None]:
    """Keep BLAS from using threads of its own, which wait for work and hold up others for a while after each call.

    Nested uses cost nothing, while to look for the BLAS libraries takes 20 ms.
    """
    if getattr(_here, "single", False):
        yield
        return
    with threadpool_limits(1, "blas"):
        _here.single = True
        try:
            yield
        finally:
            _here.single = False
