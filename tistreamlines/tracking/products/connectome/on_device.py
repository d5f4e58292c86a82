"""Connectomes of streamlines on a device: their ends and lengths come back to the host, and no other point."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....aliases import Array
from ....kernels.products.lengths import measure_steps
from ....linker.records import INTS, Arguments, spread
from ....space.batch import Space
from ...growth.chunk import Chunk
from ...growth.growth import Growth
from ...growth.memory import WORD, memory_for
from ..batch_work import Backlog
from ..collector import Collector
from ..grid import affine_of
from ..keyed_sums import KeyedSums
from .matrix import Edges, amounts_of
from .node_lookup import Ends, NodeLookup

AT_ONCE = 1 << 18  # streamlines whose ends are held: 7 words each
ADDED = 1 << 15  # streamlines that a thread adds at once
WAITING = 4  # of these for each thread, at most
Delta = list[KeyedSums]


class DeviceConnectomes(Collector):
    """Brings the ends and lengths of accepted streamlines back, and adds them up in other threads.

    Parameters
    ----------
    space : of the image that is tracked.
    connectomes : what they are added to.
    lookup : finds the nodes of their parcellations.
    threads : how many threads look for nodes.
    """

    roots = (measure_steps,)
    bytes = 2 * 7 * WORD * AT_ONCE

    def __init__(self, space: Space, connectomes: Sequence[Edges], lookup: NodeLookup, threads: int = 1) -> None:
        self._affine, self._connectomes = spread("affine", affine_of(space.affine)), tuple(connectomes)
        self._lookup = lookup
        self._arrays: Arguments = {}
        self._last: list[tuple[Array, Array]] = []  # parts of a chunk that may be taken back
        self._backlog = Backlog[None]("connectome", threads, WAITING * threads)

    def compile(self, growth: Growth) -> None:
        """Measure a streamline without steps."""
        with memory_for(f"the ends of {AT_ONCE:,} streamlines"):
            self._arrays = {"ends": growth.program.empty(7 * AT_ONCE, INTS)}
        self.collect(growth, growth.made_up(0))
        self.undo(growth)

    def collect(self, growth: Growth, accepted: Chunk) -> None:
        """Bring the ends of a chunk back, a part at a time; those of the chunk before are certain now."""
        self._settle()
        if not (count := len(accepted.number)):
            return
        numbers = accepted.first_seed + accepted.seed.astype(np.int64)
        with growth.statistics.stage("pack"):
            values = growth.values | self._affine | self._arrays
            for first in range(0, count, AT_ONCE):
                many = min(AT_ONCE, count - first)
                growth.program.run("measure_steps", many, values | {"earlier": first})
                ends = growth.fetch(self._arrays["ends"], 7 * many).reshape(-1, 7)
                self._last.append((ends, numbers[first : first + many]))

    def _settle(self) -> None:
        """Let other threads add the last chunk, whose streamlines are certain now."""
        for ends, numbers in self._last:
            for first in range(0, len(ends), ADDED):
                part = slice(first, first + ADDED)
                self._backlog.submit(self._add, ends[part], numbers[part])
        self._last = []

    def _add(self, ends: Array, numbers: Array) -> None:
        amounts = amounts_of(self._connectomes, ends[:, 6])
        for edges, nodes in zip(self._connectomes, self._lookup.all_nodes(Ends(ends)), strict=True):
            edges.sums.add(nodes, numbers, amounts[edges.sums.whole])

    def undo(self, growth: Growth) -> None:
        """Forget the last chunk."""
        self._last = []

    def take(self, growth: Growth) -> Delta:
        """Return the sums since the last call."""
        self._settle()
        self._backlog.wait()
        return [edges.sums.keyed.take() for edges in self._connectomes]

    def merge(self, delta: Delta) -> None:
        """Add the sums of another one."""
        for edges, taken in zip(self._connectomes, delta, strict=True):
            edges.sums.keyed.merge(taken)
