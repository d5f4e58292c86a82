"""Programs for the CPU, compiled by Numba, also those whose kernels run while the caller goes on, as on other devices."""

from __future__ import annotations

import mmap
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ...aliases import Array
from ...devices import usable_cores
from ...devices.threads import submit_once, thread_pool
from ...linker.host_arrays import HostArrays, align
from ...linker.lang import Func
from ...linker.link import link_once
from ...linker.parts import Source
from ...linker.records import INTS, REALS
from ...linker.transfer import Transfer
from .cache import Held, function, text_of
from .dialect import dialect, inlined_once, spread_name
from .kinds import Kind

TOGETHER = 8  # items that a thread takes in a row: their neighbours in space, which share caches
LINE = 32  # elements that fill two cache lines or more
Users = tuple["Future[None]", ...]  # a kernel's shares, one for each thread, and what else uses an array
NONE_LEFT = 2**62  # number of an item that no kernel has
LARGE = 2**22  # bytes of an array for which NumPy asks for pages of 2 MB


def entry_text(name: str, signature: list[tuple[str, str]]) -> str:
    """Text of a thread's loop over the items: it takes TOGETHER of them in a row from a queue until none is left.

    Neighbouring items are close in space and share caches.
    """
    names = [n for n, _ in signature]
    lines = [
        "@compiled",
        f"def run_{name}({', '.join(['_count', '_queue', *(n for n in names if n != 'item')])}):",
        f"    _first = claim(_queue, {TOGETHER})",
        "    while _first < _count:",
        f"        for item in range(_first, min(_first + {TOGETHER}, _count)):",
        f"            {name}({', '.join(names)})",
        f"        _first = claim(_queue, {TOGETHER})",
    ]
    return "\n".join(lines) + "\n"


def text_with(functions: Sequence[Func], *paths: Path) -> str:
    """Return the text of files of kernels, with functions in the kernel language that they call."""
    source = Source(functions)
    return "\n\n".join([link_once(source.roots, dialect(), source.filling).text, *map(text_of, paths)])


class NumbaProgram(HostArrays):
    """Kernels linked for the CPU.

    The threads are Python's, since kernels release its lock: Numba's own parallel loops take longer to compile and to start.

    Parameters
    ----------
    source : what is linked.
    bits : of a real: 32, or 64 for reference.
    fast : the compiler may reorder arithmetic.
    threads : CPU threads, None for as many as the caller has given Numba.
    """

    def __init__(self, source: Source, *, bits: int = 32, fast: bool = False, threads: int | None = None) -> None:
        super().__init__(bits)
        self._scalars: dict[str, type[np.generic]] = {"real": self.real.type, "int": np.int64, "word": np.uint32}
        self.threads = threads or min(_threads_of_numba(), usable_cores())
        linked = link_once(source.roots, dialect(bits, fast), source.filling)
        patterns = sorted({value for value in source.filling.values() if isinstance(value, tuple)})
        spreads = {spread_name(repr(p)): f"\n{spread_name(repr(p))} = make_spread({p!r})\n" for p in patterns}
        self.signatures = {r.__name__: linked.signatures[r.__name__] for r in source.roots}
        self.scratch = source.scratch
        self._teams: dict[str, deque[dict[str, Held]]] = {name: deque() for name in self.signatures}  # not in use
        texts = {}
        for name, signature in self.signatures.items():
            # a module for each kernel, since options that change one of them leave the others' compiled code as it is
            text = linked.text_for(name)
            text += "".join(line for spread, line in spreads.items() if spread in text)
            text += f"\n\n{entry_text(name, signature)}"
            texts[name] = inlined_once(text) if source.load and not source.load.carries else text
        self._functions = {name: function(text, f"run_{name}") for name, text in texts.items()}
        for name in sorted(texts, key=lambda name: -len(texts[name])):  # so that the processes that compile end together
            if (kinds := self._kinds(self.signatures[name])) is not None:
                self._functions[name].prepare(kinds)

    def run(self, name: str, count: int, values: Mapping[str, object]) -> None:
        """Run a kernel for items 0 to ``count`` - 1, with arguments by flat name; several threads may call this at once."""
        share, threads = self.share(name, count, values, np.zeros(1, np.int64))
        others = [thread_pool("kernels", self.threads - 1).submit(share) for _ in range(1, threads)]
        share()
        for other in others:
            other.result()

    def share(
        self, name: str, count: int, values: Mapping[str, object], following: npt.NDArray[np.int64]
    ) -> tuple[Callable[[], None], int]:
        """Return a function that takes items of a kernel until none is left, and how many threads are to call it.

        ``following`` is where they read and set the number of the next item, (1,).
        """
        call = self._functions[name]
        names = [n for n, _ in self.signatures[name] if n != "item"]
        # converted once: a conversion needs Python's lock, so threads would wait for each other
        arguments = [(n, values[n], self._scalars.get(k)) for n, k in self.signatures[name] if n in values]
        shared = {n: Held(value if scalar is None else scalar(value)) for n, value, scalar in arguments}
        first, teams = [Held(count), Held(following)], self._teams[name]

        def share() -> None:
            try:
                team = teams.pop()
            except IndexError:
                team = self._team(names)
            call.call_with([*first, *[team[n] if n in team else shared[n] for n in names]])
            teams.append(team)

        return share, max(1, min(self.threads, -(-count // TOGETHER)))

    def _kinds(self, signature: list[tuple[str, str]]) -> tuple[Kind, ...] | None:
        """Types of the arguments that :meth:`run` passes; None for a function that only kernels can call."""
        known: dict[str, Kind] = {kind: (np.dtype(scalar).name, "number", 1) for kind, scalar in self._scalars.items()}
        known |= {REALS: (self.real.name, "array", 1), INTS: ("int32", "array", 1)}
        kinds = [kind for name, kind in signature if name != "item"]
        if not known.keys() >= set(kinds):
            return None
        return (known["int"], ("int64", "array", 1), *(known[kind] for kind in kinds))  # first the number, and the queue

    def _team(self, names: list[str]) -> dict[str, Held]:
        """Return team memory that shares no cache line with another thread's."""
        used = {n: self.scratch[n] for n in names if n in self.scratch}
        return {n: Held(align(self.empty(size + LINE, kind))[:size]) for n, (kind, size) in used.items()}


def _threads_of_numba() -> int:
    """Number of threads that the caller has given Numba, which need not be imported for that."""
    if count := getattr(sys.modules.get("numba"), "get_num_threads", None):  # None while another thread imports it
        with suppress(ValueError):  # it cannot start its threads, which no kernel of this package needs
            return count()
    setting = os.environ.get("NUMBA_NUM_THREADS", "")
    return int(setting) if setting.isdigit() and int(setting) else sys.maxsize


class QueuedProgram(NumbaProgram):
    """Kernels some of which run in separate threads; ``backends.program.Program`` describes each method.

    A kernel waits for those launched before it that use one of its arrays, except arrays that :meth:`array` has made,
    to which no kernel writes. Kernels that share none may run together, so a thread whose share of one is done begins
    with the next one of its queue. The threads of a queue take shares in the order in which they were launched.

    Parameters
    ----------
    source, fast, threads : see :class:`NumbaProgram`.
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
        """Wait for the users of an array; copy values to its front."""
        self._settle([self._last.get(id(array), ())])
        return super().upload(array, values)

    def host(self, array: Array, count: int) -> Array:
        """Wait for the users of an array; return a copy of its first ``count`` elements."""
        self._settle([self._last.get(id(array), ())])
        return super().host(array, count)

    def later(self, array: Array, count: int) -> Transfer[Array]:
        """Let the first ``count`` elements be copied when the kernels launched so far have left them."""
        last = self._last.get(id(array), ())

        def finish() -> Array:
            self._settle([last])
            return super(QueuedProgram, self).host(array, count)

        return Transfer(finish, lambda: all(future.done() for future in last))

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
