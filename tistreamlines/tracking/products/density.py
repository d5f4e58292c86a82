"""The density of streamlines: how many pass through each voxel of a grid, counted on the host as batches pass.

A streamline counts once in each voxel that holds one of its points or a point of the segments between them.  A point on
the border of two voxels belongs to the one with the higher index.  Coordinates are rounded down to 2^-20 of a voxel
first; after that everything is done in whole numbers, so the map depends neither on the order of the streamlines nor on
the number of threads.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from ...backends.numba.cache import Function, text_of
from ...devices import usable_cores
from ...devices.threads import thread_pool
from ...errors import ParameterError
from ...space.batch import Batch, Space

Array = npt.NDArray[Any]
LONGEST = 1 << 10  # voxels that a step may be long: products of two lengths in 2^-20 voxels then fit 64 bits
MOST_VOXELS, MOST_SIDE = 1 << 30, 32767  # of a grid, and along one axis, which NIfTI bounds
MOST_THREADS, MOST_BYTES = 4, 1 << 30  # more threads share the work only as long as their grids have room
STREAMLINES = 1 << 30  # after which a thread's counts are summed up: they and the numbers of streamlines have 32 bits
WAITING = 2  # batches for each thread, besides the one that it counts
_count = Function(text_of(Path(__file__).with_name("density_kernels.py")), "count")


class Density:
    """Counts the streamlines in each voxel.

    Parameters
    ----------
    space : the grid of the map, of any affine that can be inverted.
    step_mm : the longest distance between two points of a streamline, mm.
    threads : how many threads count; None for as many as help.

    Attributes
    ----------
    bytes : memory of the counts while they are made.

    Raises
    ------
    ParameterError
        If the grid has too many voxels, or if a step is too long for them.
    """

    def __init__(self, space: Space, step_mm: float, threads: int | None = None) -> None:
        self.space, voxels = space, check_size(space)
        to_voxel = np.linalg.inv(space.affine)[:3]
        if not step_mm * np.linalg.norm(to_voxel[:, :3], 2) < LONGEST:
            raise ParameterError(f"a step of {step_mm:g} mm is longer than {LONGEST} voxels of the density map: give "
                                 "--density-voxel, or a --density-grid, with larger voxels")  # fmt: skip
        to_voxel[:, 3] += 0.5  # a voxel begins half a side before its centre
        self._to_voxel = np.ascontiguousarray(to_voxel)
        self._shape = np.array(space.shape, np.int64)
        self._threads = max(1, min(threads or usable_cores(), MOST_THREADS, MOST_BYTES // (8 * voxels)))
        self.bytes = 8 * voxels * (self._threads + 1)
        # each thread's (voxels, 2) int32, the count and the last streamline that was there, and its next streamline
        self._free: SimpleQueue[tuple[Array, int]] = SimpleQueue()
        for _ in range(self._threads):
            self._free.put((np.zeros((voxels, 2), np.int32), 1))
        self._total, self._summing = np.zeros(voxels, np.int64), Lock()
        self._waiting: deque[Future[None]] = deque()

    def add(self, batch: Batch) -> None:
        """Count the streamlines of a batch, in another thread; wait if several batches are not counted yet."""
        while len(self._waiting) > WAITING * self._threads:
            self._waiting.popleft().result()
        for first in range(0, len(batch), STREAMLINES):
            self._waiting.append(thread_pool("density", MOST_THREADS).submit(self._add, batch, first))

    def _add(self, batch: Batch, first: int) -> None:
        cells, number = self._free.get()
        if number > STREAMLINES:
            number = self._sum_up(cells)
        offsets = batch.offsets[first : first + STREAMLINES + 1]
        try:
            _count(batch.points, offsets, self._to_voxel, self._shape, number, cells)
        finally:
            self._free.put((cells, number + len(offsets) - 1))

    def counts(self) -> Array:
        """Wait for all batches; return the number of streamlines in each voxel, (x, y, z) int32 (int64 beyond that)."""
        self._settle()
        kind = np.int32 if self._total.max(initial=0) <= np.iinfo(np.int32).max else np.int64
        return self._total.astype(kind).reshape(self.space.shape)

    def _settle(self) -> None:
        """Wait for the threads, and move what they have counted to the total."""
        while self._waiting:
            self._waiting.popleft().result()
        for cells, _ in [self._free.get() for _ in range(self._threads)]:
            self._free.put((cells, self._sum_up(cells)))

    def _sum_up(self, cells: Array) -> int:
        """Move a thread's counts to the total; return the number of its next streamline."""
        with self._summing:
            self._total += cells[:, 0]
        cells[:] = 0
        return 1


def check_size(space: Space) -> int:
    """Return the number of voxels of a grid; raise a ParameterError if a map cannot have so many."""
    voxels = int(np.prod([int(side) for side in space.shape], dtype=object))
    if voxels > MOST_VOXELS or max(space.shape) > MOST_SIDE:
        shape = " x ".join(map(str, space.shape))
        raise ParameterError(f"a density map of {shape} voxels is too large, beyond {MOST_VOXELS:,} or {MOST_SIDE:,} "
                             "along an axis: give a --density-voxel or --density-grid of larger voxels")  # fmt: skip
    return voxels


def finer(space: Space, voxel_mm: float) -> Space:
    """Return the grid of cubes of ``voxel_mm`` mm that begins at the corner of another grid, and covers it."""
    sides = space.voxel_sizes
    # a side that is a multiple of the voxels' up to rounding gets no further voxel
    shape = np.maximum(np.ceil(np.array(space.shape) * sides / voxel_mm - 1e-6), 1)
    affine = np.eye(4)
    affine[:3, :3] = space.axes * voxel_mm
    corner = space.to_ras([-0.5, -0.5, -0.5])
    affine[:3, 3] = corner + affine[:3, :3] @ [0.5, 0.5, 0.5]
    return Space(affine, (int(shape[0]), int(shape[1]), int(shape[2])))
