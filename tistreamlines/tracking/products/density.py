"""The density of streamlines: how many pass through each voxel of a grid, or end there, counted as batches pass.

:class:`Density` counts the points of batches on the host, :class:`DeviceDensity` the streamlines that are still on the
device, and no point comes back.  Both run the same kernel functions (:mod:`...kernels.products.density`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from threading import Lock
from typing import ClassVar

import numpy as np

from ...aliases import Array
from ...backends.program import Program, on_device
from ...devices import host_memory, usable_cores
from ...errors import ParameterError
from ...kernels.products.density import Grid, count_points
from ...kernels.products.ends import count_end_points
from ...linker.lang import LANES
from ...linker.records import Arguments, spread
from ...space.batch import Batch, Space
from ..growth.ordering import exclusive_sum
from .backlog import Backlog
from .point_kernels import COUNTING, launch, program_of
from .unpacking import affine_record

LONGEST = 1 << 10  # voxels that a step may be long: its length in 2^-20 voxels then fits 32 bits
MOST_VOXELS, MOST_SIDE = 1 << 30, 32767  # of a grid, and along one axis, which NIfTI bounds
MOST_THREADS = 4
STREAMLINES = 1 << 30  # after which counts are summed up, since they have 32 bits
WAITING = 2  # batches for each thread, besides the one that it counts
OF_A_MAP = "the density map: give --density-voxel, or a --density-grid, with larger voxels"
LISTED = 1 << 22  # voxels that are listed at once, for some streamlines: 16 MB
MOST_BYTES = 1 << 30  # that a map may take on a device, if that has no limit


class MapGrid:
    """A grid for the kernels, and how many of its voxels a streamline may pass.

    Parameters
    ----------
    space : the grid, of any affine that can be inverted.
    step_mm : the longest distance between two points of a streamline, mm.
    purpose : what the voxels are of, and what to do if they are too small.

    Raises
    ------
    ParameterError
        If the grid has too many voxels, or if a step is too long for them.
    """

    def __init__(self, space: Space, step_mm: float, purpose: str = OF_A_MAP) -> None:
        self.space, self.voxels = space, check_size(space)
        to_voxel = np.linalg.inv(space.affine)[:3]
        if not step_mm * np.linalg.norm(to_voxel[:, :3], 2) < LONGEST:
            raise ParameterError(f"a step of {step_mm:g} mm is longer than {LONGEST} voxels of {purpose}")
        # a step crosses at most as many borders of an axis as it is long along it; a line, one more
        self._borders = step_mm * float(np.linalg.norm(to_voxel[:, :3], axis=1).sum()) * (1 + 1e-3) + 1e-3
        to_voxel[:, 3] += 0.5  # a voxel begins half a side before its centre
        self.values = spread("grid", grid_of(to_voxel, space.shape))

    def each(self, steps: Array) -> Array:
        """Return how many voxels streamlines of so many steps may pass, in whole rows of lanes."""
        most = np.minimum(np.ceil(steps * self._borders) + 4, self.voxels).astype(np.int64)
        return -(-most // LANES) * LANES

    def listed(self, batch: Batch, chosen: slice) -> Iterator[tuple[dict[str, Array], int]]:
        """Yield arrays that ``count_points`` takes of some streamlines at a time, and how many voxels they may pass."""
        first, sizes = chosen.start, self.each(batch.lengths[chosen] - 1)
        begins = exclusive_sum(sizes)
        for part in in_parts(begins, LISTED):
            offsets = batch.offsets[first + part.start : first + part.stop + 1]
            yield {
                "points": batch.points[offsets[0] : offsets[-1]].ravel(),
                "offsets": (offsets - offsets[0]).astype(np.int32),
                "slot": (begins[part] - begins[part.start]).astype(np.int32),
            }, int(sizes[part].sum())


def grid_of(to_voxel: Array, shape: tuple[int, int, int]) -> Grid:
    """Return the kernels' record of a grid."""
    return Grid(**vars(affine_record(to_voxel)), across=shape[0], deep=shape[1], high=shape[2])


def in_parts(begins: Array, most: int) -> list[slice]:
    """Cut streamlines into parts that list about ``most`` voxels, and a part at most those of one streamline more.

    ``begins`` has the number of voxels that are listed before each streamline.
    """
    ends = np.searchsorted(begins, np.arange(most, begins[-1] + 1 if len(begins) else 0, most))
    cuts = [0, *ends.tolist(), len(begins)]
    return [slice(a, b) for a, b in pairwise(cuts) if b > a]


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
        """Weigh streamlines, if a map of this kind can; see :meth:`.files.ProductFile.take_weights`."""

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


def narrowest(counts: Array) -> Array:
    """Return counts as int32, or int64 where one is beyond that."""
    return counts.astype(np.int32 if counts.max(initial=0) <= np.iinfo(np.int32).max else np.int64)


def check_memory(space: Space, voxel_bytes: int, limit: int | None) -> None:
    """Raise a ParameterError if a map with so many bytes a voxel exceeds a limit, or the memory that is free."""
    needed, free = check_size(space) * voxel_bytes, host_memory()[1]
    for most, reason in ((limit, "--memory-limit allows {}"), (free, "{} of memory are free")):
        if most is not None and needed > most:
            shape, has = " x ".join(map(str, space.shape)), reason.format(f"{most / 1e9:.3g} GB")
            raise ParameterError(f"a map of {shape} voxels takes {needed / 1e9:.3g} GB, but {has}: give larger voxels")


def check_size(space: Space) -> int:
    """Return the number of voxels of a grid; raise a ParameterError if a map cannot have so many."""
    voxels = int(np.prod([int(side) for side in space.shape], dtype=object))
    if voxels > MOST_VOXELS or max(space.shape) > MOST_SIDE:
        shape = " x ".join(map(str, space.shape))
        raise ParameterError(f"a density map of {shape} voxels is too large, beyond {MOST_VOXELS:,} or {MOST_SIDE:,} "
                             "along an axis: give a --density-voxel or --density-grid of larger voxels")
    return voxels


def finer(space: Space, voxel_mm: float) -> Space:
    """Return the grid of cubes of ``voxel_mm`` mm that begins at the corner of another grid, and covers it."""
    sides = space.voxel_sizes
    # a side that is a multiple of the voxels' up to rounding gets no further voxel
    shape = _sides(np.array(space.shape) * sides, voxel_mm, -1e-6)
    affine = np.eye(4)
    affine[:3, :3] = space.axes * voxel_mm
    corner = space.to_ras([-0.5, -0.5, -0.5])
    affine[:3, 3] = corner + affine[:3, :3] @ [0.5, 0.5, 0.5]
    return Space(affine, shape)


def _sides(extent: Array, voxel_mm: float, more: float = 0.0) -> tuple[int, int, int]:
    """Return how many voxels cover an extent, (3,) mm; raise a ParameterError if a map cannot have so many."""
    with np.errstate(all="ignore"):  # what is not finite is told of
        shape = np.maximum(np.ceil(extent / voxel_mm + more), 1)
    if not (shape <= MOST_SIDE).all():
        raise ParameterError(f"--density-voxel is {voxel_mm:g} mm: {extent.max():.4g} mm would have more than "
                             f"{MOST_SIDE:,} voxels along an axis, give larger ones")
    return int(shape[0]), int(shape[1]), int(shape[2])


def around(low: Array, high: Array, voxel_mm: float) -> Space:
    """Return the grid of tckmap -vox for points between two corners, (3,) float32, and three voxels beyond them.

    Its axes are those of RASmm; the lower corner moved by the three voxels is the centre of the first voxel.
    """
    beside = np.float32(3 * voxel_mm)
    first, last = low - beside, high + beside
    affine = np.diag([voxel_mm, voxel_mm, voxel_mm, 1.0])
    affine[:3, 3] = first
    return Space(affine, _sides(last - first, voxel_mm))
