"""The density of streamlines: how many pass through each voxel of a grid, or end there, counted as batches pass.

:class:`Density` counts the points of batches on the host, :class:`.on_device.DeviceDensity` the streamlines that are
still on the device, and no point comes back.  Both run the same kernel functions (:mod:`....kernels.products.density`).
"""

from __future__ import annotations

from threading import Lock
from typing import ClassVar

import numpy as np

from ....aliases import Array
from ....backends.program import Program, on_device
from ....devices import host_memory, usable_cores
from ....errors import ParameterError
from ....kernels.products.density import count_points
from ....kernels.products.ends import count_end_points
from ....linker.records import Arguments
from ....space.batch import Batch, Space
from ..backlog import MOST_THREADS, Backlog
from ..grid import LISTED, MapGrid, check_size, narrowest
from ..point_kernels import COUNTING, launch, program_of

STREAMLINES = 1 << 30  # after which counts are summed up, since they have 32 bits
WAITING = 2  # batches for each thread, besides the one that it counts
MOST_BYTES = 1 << 30  # that a map may take on a device, if that has no limit








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
        threads = max(1, min(threads or usable_cores(), MOST_THREADS))
        self._backlog = Backlog[None]("density", MOST_THREADS, WAITING * threads)
        self._program: Program | None = None  # None: threads of the host count
        self._arrays: Arguments = {"counts": np.zeros(self._grid.voxels, np.int32)}
        self._total: Array | None = None
        self._streamlines, self._before, self._summing = 0, 0, Lock()

    def move_to(self, program: Program) -> None:
        """Count with this program; the host counts if the map is too large for it.

        The counts are there twice, since compilers need memory for a copy that is made for the host, and a streamline
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
        del before
        program = self._program or program_of(self.kernel, part=COUNTING)
        for values, most in self._grid.listed(batch, chosen):
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








