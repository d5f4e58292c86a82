"""Tasks in threads, and pools of threads: each process has its own, since a fork has none of its parent's threads."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from typing import Any, TypeVar

from . import usable_cores

Item = TypeVar("Item")
Result = TypeVar("Result")
_here = threading.local()
_readers: set[str] = set()  # threads that read files
_limit_holds = threading.Event()  # whether the environment limited OpenBLAS to one thread before it was loaded


class _BlasLimit:
    """Limits BLAS to one thread while at least one thread asks for that."""

    def __init__(self) -> None:
        self._lock, self._count = threading.Lock(), 0
        self._limiter: Any = None

    def enter(self) -> None:
        """Begin the limit."""
        with self._lock:
            if not self._count:
                self._limiter = _blas(len(sys.modules)).limit(limits=1)
            self._count += 1

    def leave(self) -> None:
        """End the limit, unless another thread needs it."""
        with self._lock:
            self._count -= 1
            if not self._count:
                self._limiter.restore_original_limits()


_limit = _BlasLimit()


def note_single_blas() -> None:
    """Note that the environment limits OpenBLAS to one thread in this process, if NumPy has not loaded it before."""
    if "numpy" not in sys.modules:
        _limit_holds.set()


@cache
def _is_openblas() -> bool:
    """Whether NumPy has OpenBLAS. To count its threads takes 20 to 60 ms, with Python's lock."""
    import numpy as np

    try:
        return "openblas" in np.show_config("dicts")["Build Dependencies"]["blas"]["name"]  # type: ignore[index]
    except (KeyError, TypeError):  # a build that does not say what it has
        return False


@lru_cache(maxsize=1)
def _blas(modules: int) -> Any:
    """Return the libraries of BLAS, which come with modules: to look for them takes 20 ms, with Python's lock."""
    from threadpoolctl import ThreadpoolController

    del modules
    return ThreadpoolController().select(user_api="blas")


@cache
def _pool(process: int, name: str, count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, name)


def thread_pool(name: str, count: int) -> ThreadPoolExecutor:
    """Return this process's pool of ``count`` threads of that name."""
    return _pool(os.getpid(), name, count)


def reader(name: str) -> ThreadPoolExecutor:
    """Return this process's thread of that name, which reads files, and for which :func:`readers_awaited` waits."""
    _readers.add(name)
    return thread_pool(name, 1)


@contextmanager
def readers_awaited() -> Generator[None, None, None]:
    """After an error, wait until no thread reads a file: the caller may write to one that is mapped into memory."""
    try:
        yield
    except Exception:
        for name in tuple(_readers):
            with suppress(RuntimeError):  # the system starts no more threads, or Python ends and waits by itself
                thread_pool(name, 1).submit(int).result()  # which waits for its earlier tasks
        raise


def begin_threads(name: str, count: int) -> None:
    """Start the threads of a pool, unless that was done: some systems take long for it."""
    _begin_threads(os.getpid(), name, count)


@cache
def _begin_threads(process: int, name: str, count: int) -> None:
    pool = _pool(process, name, count)
    for _ in range(count):
        pool.submit(time.sleep, 0.01)  # for so long, no thread is idle, and each task starts another one


def submit_once(pool: ThreadPoolExecutor, function: Callable[[], Result]) -> Future[Result]:
    """Have a thread call a function. When its result is there, the pool no longer holds what the function refers to."""
    held = [function]
    return pool.submit(lambda: held.pop()())


def in_threads(task: Callable[[Item], Result], items: Iterable[Item], threads: int | None) -> list[Result]:
    """Return the results of a task in order; after an error, tasks that have not started are cancelled.

    The threads stay for the next call, since each takes milliseconds to start while others hold Python's lock. All
    calls share them: hold no lock meanwhile that a task needs. A task that calls this itself computes alone.

    Parameters
    ----------
    task : callable
        Its long calls should release the GIL.
    items : iterable
        The arguments of the task.
    threads : int or None
        Number of threads; None is one per core. Meanwhile, BLAS uses no further threads.
    """
    if getattr(_here, "in_task", False):
        return list(map(task, items))

    def work(item: Item) -> Result:
        _here.in_task = True
        return task(item)

    pool = thread_pool("tasks", threads or usable_cores())
    futures: list[Future[Result]] = []
    with single_blas():
        try:
            for item in items:
                futures.append(pool.submit(work, item))  # not in one go, so that an error finds those before
            return [future.result() for future in futures]
        finally:
            end_tasks(futures)


def ahead(task: Callable[[Item], Result], items: Iterable[Item], count: int = 1) -> Generator[Result, None, None]:
    """Yield the results of a task in order, while as many threads compute the next ``count`` ones."""
    pool = thread_pool("ahead", count)
    futures: list[Future[Result]] = []
    try:
        for item in items:
            futures.append(pool.submit(task, item))
            if len(futures) > count:
                yield futures.pop(0).result()
        while futures:
            yield futures.pop(0).result()
    finally:
        end_tasks(futures)


def end_tasks(futures: list[Future[Result]]) -> None:
    """Cancel tasks that have not started, and wait for the others."""
    for future in futures:
        future.cancel()
    wait(futures)


@contextmanager
def single_blas() -> Generator[None, None, None]:
    """Keep BLAS from using further threads, which wait for work and hold up others for a while after each call.

    Nested uses, and those of several threads at a time, cost nothing.
    """
    if _limit_holds.is_set() and _is_openblas():
        yield
        return
    _limit.enter()
    try:
        yield
    finally:
        _limit.leave()
