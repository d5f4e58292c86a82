"""Programs for the CPU whose kernels run while the caller goes on, as those of other devices do."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress

import numpy as np
import numpy.typing as npt

from ...aliases import Array
from ...devices.threads import submit_once, thread_pool
from ...linker.coming import Coming
from ...linker.source import Source
from ..faults import point
from .program import NumbaProgram

Users = tuple["Future[None]", ...]  # a kernel's shares, one for each thread, and what else uses an array
NONE_LEFT = 2**62  # number of an item that no kernel has
LARGE = 2**22  # bytes of an array for which NumPy asks for pages of 2 MB


class QueuedProgram(NumbaProgram):
    """Kernels some of which run in threads of their own; see ``backends.program.Program`` for what each method does.

    A kernel waits for those launched before it that use one of its arrays, except arrays that :meth:`array` has made,
    to which no kernel writes. Kernels that share none may run together, so a thread whose share of one is done begins
    with the next one of its queue. The threads of a queue take shares in the order in which they were launched.

    Parameters
    ----------
    source, fast, threads : see :class:`.program.NumbaProgram`.
    queued : names of the kernels for which the caller does not wait, and of the queues in which they run.
    """

    copies_beside = True

    def __init__(
        self, source: Source, *, fast: bool = False, threads: int | None = None, queued: Mapping[str, str]
    ) -> None:
        super().__init__(source, fast=fast, threads=threads)
        self._queued = queued
        self._last: dict[int, Users] = {}  # what uses an array last, by the array's id
        self._running: list[tuple[Users, npt.NDArray[np.int64]]] = []  # kernels, and the numbers of their next items

    def empty(self, size: int, kind: str) -> Array:
        """Return an array for kernels to fill."""
        dtype = self.dtype(kind)
        large = size * dtype.itemsize >= LARGE and hasattr(mmap, "MADV_NOHUGEPAGE")
        array = in_small_pages(size, dtype) if large else super().empty(size, kind)
        self._last[id(array)] = ()
        return array

    def run(self, name: str, count: int, values: Mapping[str, object]) -> None:
        """Run a kernel, or launch it if it is one of the queued ones."""
        used = [id(values[n]) for n, _ in self.signatures[name] if n in values and id(values[n]) in self._last]
        before = {self._last[array] for array in used}
        if name not in self._queued:
            self._settle(before)
            super().run(name, count, values)
        else:
            self._launch(name, count, values, used, before)

    def _launch(self, name: str, count: int, values: Mapping[str, object], used: list[int], before: set[Users]) -> None:
        """Let threads run a kernel when those before it are done."""
        point(name)
        following = np.zeros(1, np.int64)
        share, threads = self.share(name, count, values, following)

        def work() -> None:
            wait_for(before)
            share()

        pool = thread_pool(f"queue of {self._queued[name]}", self.threads)
        shares = tuple(submit_once(pool, work) for _ in range(threads))
        self._last.update(dict.fromkeys(used, shares))
        self._running = [kernel for kernel in self._running if not all(share.done() for share in kernel[0])]
        self._running.append((shares, following))

    def drop(self) -> None:
        """Let kernels that still run take no further items."""
        for _, following in self._running:
            following[0] = NONE_LEFT

    def also_read(self, array: Array, reader: Future) -> None:
        """Let kernels that are launched after this wait for another reader of an array, too, whatever comes of it."""
        done: Future[None] = Future()  # does not hold what has been read
        reader.add_done_callback(lambda _: done.set_result(None))
        self._last[id(array)] = (*self._last[id(array)], done)

    def upload(self, array: Array, values: Array, *, beside: bool = False) -> Array:
        """Wait for what uses an array; copy values to its front."""
        self._settle([self._last.get(id(array), ())])
        return super().upload(array, values)

    def host(self, array: Array, count: int) -> Array:
        """Wait for what uses an array; return a copy of its first ``count`` elements."""
        self._settle([self._last.get(id(array), ())])
        return super().host(array, count)

    def later(self, array: Array, count: int) -> Coming[Array]:
        """Let the first ``count`` elements be copied when the kernels launched so far have left them."""
        last = self._last.get(id(array), ())

        def finish() -> Array:
            self._settle([last])
            return super(QueuedProgram, self).host(array, count)

        return Coming(finish, lambda: all(future.done() for future in last))

    def sync(self) -> None:
        """Wait for all kernels."""
        self._settle(set(self._last.values()))

    def _settle(self, users: Iterable[Users]) -> None:
        """Wait; if something has failed, kernels that are launched after this need not wait for it."""
        try:
            wait_for(users)
        except Exception:
            self._last = dict.fromkeys(self._last, ())
            raise


def in_small_pages(size: int, dtype: np.dtype) -> Array:
    """Return an array of zeros of which the system provides small pages, when they are first touched."""
    try:
        memory = mmap.mmap(-1, size * dtype.itemsize, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError) as error:
        raise MemoryError(f"no memory for {size:,} numbers") from error
    with suppress(OSError):  # a system without large pages
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory, dtype)


def wait_for(users: Iterable[Users]) -> None:
    """Wait for all that uses some arrays; raise what one of them has raised."""
    for futures in users:
        for future in futures:
            future.result()
