"""The room that chunks have on a device: their arrays, and how many seeds to begin together."""

from __future__ import annotations

from dataclasses import replace

from ...backends.program import Program
from ...devices import Device, free_memory, usable_cores
from ...linker.records import Arguments
from ...space.sphere import padded
from ..parts import Layout
from . import memory
from .memory import ACCEPTED, HALF_SETS, SEED_SETS, Buffers, Capacity, capacity_for
from .settings import Settings


class Room:
    """The arrays of chunks on a device.

    Parameters
    ----------
    program : allocates the arrays.
    device, settings : where and how streamlines are grown.
    layout : how halves lie in memory.
    tables : bytes of the tables, and of what products hold; the device is asked for its memory before it holds these.

    Attributes
    ----------
    capacity : the greatest sizes of a chunk.
    accepted : arrays of the accepted streamlines.
    density, points : of a seed in the last chunk: its streamlines, at least one, and their points; see :meth:`forget`.
    """

    def __init__(self, program: Program, device: Device, settings: Settings, layout: Layout, tables: int) -> None:
        self.tables, self._together = tables, layout.together
        self._large = settings.chunk_size is None and not layout.load.recovers
        self.capacity = _fit(device, settings, layout, tables)
        self.forget()
        kinds = (layout.of_seed(), layout.of_streamline(settings.max_steps), ACCEPTED)
        self._names = [[name for name, (_, size) in arrays.items() if size] for arrays in kinds]
        sets = (1, SEED_SETS, HALF_SETS)
        (self.accepted,), self._seeds, self._halves = (
            [Buffers(program, self.capacity, device.on_host) for _ in range(count)] for count in sets
        )

    def forget(self) -> None:
        """Expect of the next chunk's seeds what can be expected of any."""
        self.density, self.points = float(memory.DIRECTIONS), float("inf")

    def for_seeds(self, count: int) -> Arguments:
        """Return arrays for the next chunk's seeds, by flat name."""
        return _next(self._seeds).hold_all(self._names[0], count)

    def for_halves(self, count: int) -> Arguments:
        """Return arrays for the halves of the next chunk's streamlines, by flat name."""
        return _next(self._halves).hold_all(self._names[1], padded(count, self._together))

    def ready(self, streamlines: int, ahead: int = 0) -> int:
        """Return how many seeds to begin together, if each has as many streamlines and points as in the last chunk.

        If it is known how many are ``ahead``, a chunk takes at most half of them, so that the last ones, whose points
        the host lays out while the device has nothing to do, are small.

        Parameters
        ----------
        streamlines : how many may grow together.
        ahead : how many seeds are left; 0 if that is not known.
        """
        seeds = min(self.capacity.seeds, int(0.9 * streamlines / self.density))
        if self._large:
            seeds = min(seeds, max(memory.USUAL_SEEDS, int(memory.CHUNK_POINTS / self.points)))
            least = max(memory.LAST_SEEDS, int(memory.LAST_POINTS / self.points))
            if ahead > 1.5 * least:
                seeds = min(seeds, max(ahead // 2, least))
        return max(1, seeds)

    def halve(self, seeds: int) -> int:
        """Give the memory of a chunk of so many seeds back; return how many the next ones may have, 0 if no fewer."""
        for buffers in (self.accepted, *self._seeds, *self._halves):
            buffers.release()
        if seeds <= memory.FEWEST_SEEDS:
            return 0
        self.capacity = replace(self.capacity, seeds=max(seeds // 2, memory.FEWEST_SEEDS))
        return self.capacity.seeds

    def bytes_for(self, times: float, chunks: int) -> int:
        """Return the bytes of tables and arrays for so many chunks, ``times`` as large as the largest one so far."""
        kinds = ([self.accepted], self._seeds, self._halves)
        return self.tables + sum(min(len(sets), chunks) * max(held.bytes_for(times) for held in sets) for sets in kinds)


def _next(sets: list[Buffers]) -> Buffers:
    """Return the set of arrays that was taken before all others."""
    sets.append(sets.pop(0))
    return sets[-1]


def _fit(device: Device, settings: Settings, layout: Layout, tables: int) -> Capacity:
    """Ask the device for its free memory before it holds the tables, and before the clock of a run starts."""
    free = None
    if device.on_host:
        most = min(memory.CPU_SEEDS * (settings.threads or usable_cores()), memory.CPU_MOST_SEEDS)
        free = tables + 2 * memory.CPU_BYTES
    else:
        most = memory.SOFTWARE_SEEDS if device.software else memory.MOST_SEEDS
        if settings.memory_limit is None:
            free = free_memory(device) or 2**30
    return capacity_for(
        layout, settings.max_steps, tables, asked=settings.chunk_size, limit=settings.memory_limit, free=free,
        most_seeds=most, packs=not device.on_host,
    )
