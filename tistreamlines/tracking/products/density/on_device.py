"""The density of streamlines as a product: the device that has grown them counts them, and no point comes back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....aliases import Array
from ....kernels.products.density import count_steps
from ....kernels.products.ends import count_ends
from ....linker.lang import Func
from ....linker.parts import Part
from ....linker.records import INTS, Arguments, spread
from ....space.batch import Space
from ...growth.chunk import Chunk, exclusive_sum
from ...growth.growth import Growth
from ...growth.memory import PART_WORDS, WORD, memory_for
from ..collector import Collector
from ..grid import MapGrid, affine_of, in_parts
from ..point_kernels import Listing
from .density import MOST_BYTES, STREAMLINES

Delta = tuple[Array, Array]  # voxels in which streamlines were counted, and how many in each


class DeviceDensity(Collector):
    """Counts the accepted streamlines in each voxel of a grid.

    The counts stay on the device until they are taken. What a chunk adds can be taken back, since integers are exact.

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
    parts: Sequence[Part] = (Listing(),)
    waits = False
    each = 1  # the most that a streamline adds to the count of a voxel
    most_listed = 1 << 25  # voxels that are listed at once: each launch waits for its longest streamline

    def __init__(self, space: Space, grid: Space, step_mm: float, most_steps: int) -> None:
        self._grid = MapGrid(grid, step_mm)
        self._by_steps = self._sizes(np.arange(most_steps + 1))  # voxels that are listed of a streamline
        self._longest = int(self._by_steps[-1])
        self._spaces = spread("affine", affine_of(space)) | self._grid.values
        self._listed = min(PART_WORDS, self.most_listed)
        # lists, and counts twice, since compilers need a copy that is made for the host
        self.bytes = WORD * (2 * self._grid.voxels + self._longest + self._listed)
        self._arrays: Arguments = {}
        self.total: Array = np.zeros(0, np.int64)
        self._launched: list[tuple[int, int]] = []
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
            growth.program.upload(growth.room.accepted.hold("words_slot", count), slot)
            for part in parts:
                self._launch(growth, part.start, part.stop - part.start, 1)
                self._launched.append((part.start, part.stop - part.start))

    def _launch(self, growth: Growth, earlier: int, count: int, by: int) -> None:
        values = growth.values | self._spaces | self._arrays | {"slot": growth.room.accepted.hold("words_slot", 1)}
        growth.program.run(self.roots[0].__name__, count, values | {"earlier": earlier, "by": by})

    def undo(self, growth: Growth) -> None:
        """Take the streamlines of the last chunk back."""
        for earlier, count in self._launched:
            self._launch(growth, earlier, count, -1)
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
