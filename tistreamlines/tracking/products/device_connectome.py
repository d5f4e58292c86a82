"""Connectomes of streamlines on a device: their ends and lengths come back to the host, and no other point."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np

from ...aliases import Array
from ...devices.threads import thread_pool
from ...kernels.products.lengths import measure_steps
from ...linker.records import INTS, Arguments, spread
from ...space.batch import Space
from ..growth.chunk import Chunk
from ..growth.growth import Growth
from ..growth.memory import WORD, memory_for
from .products import Collector
from .unpacking import affine_of

AT_ONCE = 1 << 18  # streamlines whose ends are held: 7 words each
ADDED = 1 << 15  # streamlines that a thread adds at once
WAITING = 4  # of these for each thread, at most


class DeviceConnectomes(Collector):
    """Brings the ends and lengths of accepted streamlines back, and adds them up in other threads.

    Parameters
    ----------
    space : of the image that is tracked.
    takers : the connectomes, each with its parcellation and its sums.
    threads : how many threads look for nodes.
    """

    roots = (measure_steps,)
    bytes = 2 * 7 * WORD * AT_ONCE

    def __init__(self, space: Space, takers: Sequence[Any], threads: int = 1) -> None:
        self._own, self._takers = spread("affine", affine_of(space)), tuple(takers)
        self._arrays: Arguments = {}
        self._threads = threads
        self._last: list[tuple[Array, Array]] = []  # parts of a chunk that may be taken back
        self._adding: deque[Future[None]] = deque()

    def compile(self, growth: Growth) -> None:
        """Measure a streamline without steps."""
        with memory_for(f"the ends of {AT_ONCE:,} streamlines"):
            self._arrays = {"found": growth.program.empty(7 * AT_ONCE, INTS)}
        self.collect(growth, growth.made_up(0))
        self.undo(growth)

    def collect(self, growth: Growth, accepted: Chunk) -> None:
        """Bring the ends of a chunk back, a part at a time; those of the chunk before are certain now."""
        self._settle()
        if not (count := len(accepted.number)):
            return
        numbers = accepted.first_seed + accepted.seed.astype(np.int64)
        with growth.statistics.stage("pack"):
            values = growth.values | self._own | self._arrays
            for first in range(0, count, AT_ONCE):
                many = min(AT_ONCE, count - first)
                growth.program.run("measure_steps", many, values | {"earlier": first})
                found = growth.fetch(self._arrays["found"], 7 * many).reshape(-1, 7)
                self._last.append((found, numbers[first : first + many]))

    def _settle(self) -> None:
        """Let other threads add the last chunk, whose streamlines are certain now."""
        for found, numbers in self._last:
            for first in range(0, len(found), ADDED):
                self._wait(WAITING * self._threads)
                some = slice(first, first + ADDED)
                adding = thread_pool("connectome", self._threads).submit(self._add, found[some], numbers[some])
                self._adding.append(adding)
        self._last = []

    def _wait(self, most: int = 0) -> None:
        """Wait until at most so many parts are not added."""
        while len(self._adding) > most:
            self._adding.popleft().result()

    def _add(self, found: Array, numbers: Array) -> None:
        for one in self._takers:
            one.add(one.parcellation.of_words(found), found[:, 6], numbers)

    def undo(self, growth: Growth) -> None:
        """Forget the last chunk."""
        self._last = []

    def take(self, growth: Growth) -> list[Any]:
        """Return the sums since the last call."""
        self._settle()
        self._wait()
        return [one.sums.take() for one in self._takers]

    def merge(self, delta: list[Any]) -> None:
        """Add the sums of another one."""
        for one, taken in zip(self._takers, delta, strict=True):
            one.sums.merge(taken)
