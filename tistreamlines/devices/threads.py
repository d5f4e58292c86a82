"""Thread pools; each process has its own, since a forked child has none of its parent's threads."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache


@cache
def _pool(process: int, name: str, count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, name)


def thread_pool(name: str, count: int) -> ThreadPoolExecutor:
    """Return this process's pool of ``count`` threads of that name."""
    return _pool(os.getpid(), name, count)
