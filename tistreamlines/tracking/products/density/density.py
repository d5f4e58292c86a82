"""The density of streamlines: how many pass through each voxel of a grid, or end there, counted as batches pass.

:class:`Density` counts the points of batches on the host, :class:`DeviceDensity` the streamlines that are still on the
device, and no point comes back.  Both run the same kernel functions (:mod:`....kernels.products.density`).
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import ClassVar

import numpy as np

from ....aliases import Array
from ....backends.program import Program, on_device
from ....devices import host_memory
from ....errors import ParameterError
from ....kernels.products.density import count_end_points, count_ends, count_points, count_steps
from ....linker.lang import Func
from ....linker.records import INTS, Arguments, spread
from ....space.batch import Batch, Space
from ...growth.chunk import Chunk, exclusive_sum
from ...growth.growth import Growth
from ...growth.memory import PART_WORDS, WORD, memory_for
from ..batch_work import COUNTING, MOST_THREADS, Backlog, launch, program_of, thread_count
from ..collector import Collector
from ..grid import LISTED, MapGrid, affine_of, check_size, in_parts, narrowest

STREAMLINES = 1 << 30  # after which counts are summed up, since they have 32 bits
WAITING = 2  # batches for each thread, besides the one that it counts
MOST_BYTES = 1 << 30  # that a map may take on a device, if that has no limit
Delta = tuple[Array, Array]  # voxels in which streamlines were counted, and how many in each


class Density:
    """Counts the streamlines in each voxel; classes of other maps replace what becomes of some streamlines (``_add``).

    Parameters
    ----------
    space : the grid of the map, of any affine that can be inverted.
    step_mm : the longest distance between two points of a streamline, mm.
    threads : how many threads count; None for as many as help.

    Raises
    ------
    ParameterError
        If the grid has too many voxels, or if a step is too long for them.
    """

    kernel = count_points
    each = 1  # the most that a streamline adds to the count of a voxel
    voxel_bytes: ClassVar[int] = 16  # that the host takes for a voxel until the map is written

    def __init__(self, space: Space, step_mm: float, threads: int | None = None) -> None:
        self.space, self._grid = space, MapGrid(space, step_mm)
        threads = thread_count(threads)
        self._backlog = Backlog[None]("density", MOST_THREADS, WAITING * threads)
        self._program: Program | None = None  # None: threads of the host count
        self._arrays: Arguments = {"counts": np.zeros(self._grid.voxels, np.int32)}
        self._total: Array | None = None
        self._streamlines, self._before, self._summing = 0, 0, Lock()

    def move_to(self, program: Program) -> None:
        """Count with this program; the host counts if the map is too large for it.

        The counts are there twice, since compilers need memory for the host's copy, and a streamline
        may be listed in all voxels.
        """
        if 4 * (3 * self._grid.voxels + LISTED) <= MOST_BYTES:
            self._program, self._backlog = program, Backlog[None]("device", 1, WAITING)
            self._arrays = on_device(program, self._arrays)

    def add(self, batch: Batch) -> None:
        """Count the streamlines of a batch, in another thread; wait if several batches are not counted yet."""
        most = STREAMLINES // self.each
        for first in range(0, len(batch), most):
            count = min(most, len(batch) - first)
            if self._streamlines + count > most:
                self._settle()
            self._streamlines += count
            self._backlog.submit(self._add, batch, slice(first, first + count), self._before)
            self._before += count

    def _add(self, batch: Batch, chosen: slice, before: int) -> None:
        """Count some streamlines of a batch, which so many come before; the additions of threads are atomic."""
        program = self._program or program_of(self.kernel, part=COUNTING)
        for values, most in self._grid.lists(batch, chosen):
            arguments = self._grid.values | values | self._arrays
            launch(program, self.kernel, len(values["slot"]), arguments, {"visited": most})

    def take_weights(self, weights: Array) -> None:
        """Weigh streamlines, if a map of this kind can; see :meth:`..files.ProductFile.take_weights`."""

    def add_counts(self, counts: Array) -> None:
        """Add streamlines that were counted elsewhere; the array may be kept, and added to."""
        with self._summing:
            self._total = counts.astype(np.int64, copy=False) if self._total is None else self._total + counts

    def values(self) -> Array:
        """Wait for all batches; return what the map has in each voxel."""
        return self.counts()

    def counts(self) -> Array:
        """Wait for all batches; return the number of streamlines in each voxel, (x, y, z) int32 (int64 beyond that)."""
        self._settle()
        assert self._total is not None
        return narrowest(self._total).reshape(self.space.shape)

    def _settle(self) -> None:
        """Wait for the threads, and move what they have counted to the total."""
        self._backlog.wait()
        if not self._streamlines and self._total is not None:
            return
        counts, none = self._arrays["counts"], np.zeros(self._grid.voxels, np.int32)
        if self._program is not None:
            self.add_counts(self._program.host(counts, len(none)))
            self._arrays["counts"] = self._program.upload(counts, none)
        elif isinstance(counts, np.ndarray):
            self.add_counts(counts)
            self._arrays["counts"] = none
        self._streamlines = 0


class Ends(Density):
    """Counts the ends of streamlines in each voxel; see :class:`Density`."""

    kernel = count_end_points
    each = 2


def check_memory(space: Space, voxel_bytes: int, limit: int | None) -> None:
    """Raise a ParameterError if a map with so many bytes a voxel exceeds a limit, or the memory that is free."""
    needed, free = check_size(space) * voxel_bytes, host_memory()[1]
    for most, reason in ((limit, "--memory-limit allows {}"), (free, "{} of memory are free")):
        if most is not None and needed > most:
            shape, has = " x ".join(map(str, space.shape)), reason.format(f"{most / 1e9:.3g} GB")
            raise ParameterError(f"a map of {shape} voxels takes {needed / 1e9:.3g} GB, but {has}: give larger voxels")


class DeviceDensity(Collector):
    """Counts the accepted streamlines in each voxel of a grid.

    The counts stay on the device until they are taken. The counts of a chunk can be taken back, since integers are
    exact.

    Parameters
    ----------
    space : of the image that is tracked.
    grid : the grid of the map.
    step_mm : step size, mm.
    most_steps : greatest number of steps of a streamline.

    Attributes
    ----------
    total : (voxels,) int64, what was merged so far.
    """

    roots: Sequence[Func] = (count_steps,)
    parts = (COUNTING,)
    waits = False
    each = 1  # the most that a streamline adds to the count of a voxel
    most_listed = 1 << 25  # voxels that are listed at once: each launch waits for its longest streamline

    def __init__(self, space: Space, grid: Space, step_mm: float, most_steps: int) -> None:
        self._grid = MapGrid(grid, step_mm)
        self._by_steps = self._sizes(np.arange(most_steps + 1))  # voxels that are listed of a streamline
        self._longest = int(self._by_steps[-1])
        self._spaces = spread("affine", affine_of(space.affine)) | self._grid.values
        self._listed = min(PART_WORDS, self.most_listed)
        # lists, and counts twice, since compilers need a copy for the host
        self.bytes = WORD * (2 * self._grid.voxels + self._longest + self._listed)
        self._arrays: Arguments = {}
        self.total: Array = np.zeros(0, np.int64)
        self._launched: list[slice] = []
        self._streamlines = 0

    def _sizes(self, steps: Array) -> Array:
        """Return how many voxels are listed of streamlines of so many steps."""
        return self._grid.each(steps)

    def compile(self, growth: Growth) -> None:
        """Count a streamline without steps, and take it back."""
        with memory_for(f"the counts of {self._grid.voxels:,} voxels"):
            counts = growth.program.empty(self._grid.voxels, INTS)
            growth.program.upload(counts, np.zeros(self._grid.voxels, np.int32))
            visited = growth.program.empty(self._listed + self._longest, INTS)
        self._arrays = {"counts": counts, "visited": visited}
        self.collect(growth, growth.made_up(0))
        self.undo(growth)

    def collect(self, growth: Growth, accepted: Chunk) -> None:
        """Count the streamlines of a chunk, as many at a time as their voxels can be listed."""
        self._launched.clear()
        if not (count := len(accepted.number)):
            return
        if self._streamlines + count > STREAMLINES // self.each:
            self.merge(self.take(growth))
        self._streamlines += count
        with growth.statistics.stage("pack"):
            begins = exclusive_sum(self._by_steps[accepted.steps])
            parts = in_parts(begins, self._listed)
            slot = np.concatenate([begins[part] - begins[part.start] for part in parts]).astype(np.int32)
            growth.program.upload(growth.memory.accepted.hold("words_slot", count), slot)
            for part in parts:
                self._launch(growth, part, 1)
                self._launched.append(part)

    def _launch(self, growth: Growth, part: slice, by: int) -> None:
        values = growth.values | self._spaces | self._arrays | {"slot": growth.memory.accepted.hold("words_slot", 1)}
        count = part.stop - part.start
        growth.program.run(self.roots[0].__name__, count, values | {"earlier": part.start, "by": by})

    def undo(self, growth: Growth) -> None:
        """Take the streamlines of the last chunk back."""
        for part in self._launched:
            self._launch(growth, part, -1)
        self._launched.clear()

    def take(self, growth: Growth) -> Delta:
        """Return what was counted since the last call, and begin anew."""
        self._streamlines = 0
        self._launched.clear()
        counts = growth.fetch(self._arrays["counts"], self._grid.voxels)
        growth.program.upload(self._arrays["counts"], np.zeros(self._grid.voxels, np.int32))
        passed = np.flatnonzero(counts).astype(np.int32)
        return passed, counts[passed]

    def merge(self, delta: Delta) -> None:
        """Add what was counted on some device."""
        if not len(self.total):
            self.total = np.zeros(self._grid.voxels, np.int64)
        voxels, counts = delta
        self.total[voxels] += counts

    def fit(self, limit: int | None) -> bool:
        """Return whether the counts are small beside what the device may use; else the host counts.

        The lists take what the counts leave, up to those of a whole chunk.
        """
        left = (MOST_BYTES if limit is None else min(MOST_BYTES, limit // 4)) - self.bytes
        if left < 0:
            return False
        more = min(left // WORD, self.most_listed - self._listed)
        self._listed, self.bytes = self._listed + more, self.bytes + WORD * more
        return True


class DeviceEnds(DeviceDensity):
    """Counts the ends of the accepted streamlines in each voxel of a grid, so that no voxel is listed."""

    roots = (count_ends,)
    each, most_listed = 2, 1

    def _sizes(self, steps: Array) -> Array:
        return np.zeros(len(steps), np.int64)
