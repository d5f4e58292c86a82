"""Programs for the CPU, compiled by Numba."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress

import numpy as np
import numpy.typing as npt

from ...devices import usable_cores
from ...devices.threads import thread_pool
from ...linker.host_arrays import HostArrays
from ...linker.link import link_once
from ...linker.records import INTS, REALS
from ...linker.source import Source
from ..faults import point
from .cache import Held, Kind, function
from .dialect import dialect, inlined_once, spread_name

TOGETHER = 8  # items that a thread takes in a row: their neighbours in space, which share caches
LINE = 32  # elements that fill one or two cache lines


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
        self._scalars = {"real": self.real.type, "int": np.int64, "word": np.uint32}
        self.threads = threads or min(_threads_of_numba(), usable_cores())
        linked = link_once(source.roots, dialect(bits, fast), source.filling)
        patterns = sorted({value for value in source.filling.values() if isinstance(value, tuple)})
        spreads = {spread_name(repr(p)): f"\n{spread_name(repr(p))} = simd.make_spread({p!r})\n" for p in patterns}
        self.signatures = {r.__name__: linked.signatures[r.__name__] for r in source.roots}
        self.scratch = source.scratch
        self._teams: dict[str, deque[dict[str, Held]]] = {name: deque() for name in self.signatures}  # not in use
        texts = {}
        for name, signature in self.signatures.items():
            # a module for each kernel, since options that change one of them leave the others' compiled code as it is
            text = linked.text_for(name)
            text += "".join(made for spread, made in spreads.items() if spread in text)
            text += f"\n\n{entry_text(name, signature)}"
            texts[name] = inlined_once(text) if source.load and not source.load.carries else text
        self._functions = {name: function(text, f"run_{name}") for name, text in texts.items()}
        for name in sorted(texts, key=lambda name: -len(texts[name])):  # so that the processes that compile end together
            if (kinds := self._kinds(self.signatures[name])) is not None:
                self._functions[name].prepare(kinds)

    def run(self, name: str, count: int, values: Mapping[str, object]) -> None:
        """Run a kernel for items 0 to ``count`` - 1, with arguments by flat name; several threads may call this at once."""
        point(name)
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
        # converted once: threads need Python's lock for what they convert, and would wait for each other
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
        """Types of what :meth:`run` gives a kernel; None for a function that only kernels can call."""
        known: dict[str, Kind] = {kind: (np.dtype(scalar).name, "number", 1) for kind, scalar in self._scalars.items()}
        known |= {REALS: (self.real.name, "array", 1), INTS: ("int32", "array", 1)}
        kinds = [kind for name, kind in signature if name != "item"]
        if not known.keys() >= set(kinds):
            return None
        return (known["int"], ("int64", "array", 1), *(known[kind] for kind in kinds))  # first the number, and the queue

    def _team(self, names: list[str]) -> dict[str, Held]:
        """Return team memory that shares no cache line with another thread's."""
        used = {n: self.scratch[n] for n in names if n in self.scratch}
        return {n: Held(self.empty(size + LINE, kind)[:size]) for n, (kind, size) in used.items()}


def _threads_of_numba() -> int:
    """Number of threads that the caller has given Numba, which need not be imported for that."""
    if numba := sys.modules.get("numba"):
        with suppress(ValueError):  # it cannot start its threads, which no kernel of this package needs
            return numba.get_num_threads()
    setting = os.environ.get("NUMBA_NUM_THREADS", "")
    return int(setting) if setting.isdigit() and int(setting) else sys.maxsize
