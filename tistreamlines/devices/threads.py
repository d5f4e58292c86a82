"""Thread pools; each process has its own, since a forked child has none of its parent's threads."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TypeVar

Made = TypeVar("Made")


@cache
def _pool(process: int, name: str, count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, name)


def thread_pool(name: str, count: int) -> ThreadPoolExecutor:
    """Return this process's pool of ``count`` threads of that name."""
    return _pool(os.getpid(), name, count)


def submit_once(pool: ThreadPoolExecutor, function: Callable[[], Made]) -> Future[Made]:
    """Have a thread call a function. When its result is there, the pool no longer holds what the function refers to."""
    held = [function]
    return pool.submit(lambda: held.pop()())
