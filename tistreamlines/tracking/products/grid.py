"""Grids of voxels, for the kernels and around points, and the voxels of a grid that streamlines pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ...aliases import Array
from ...errors import ParameterError
from ...kernels.products.density import Grid, count_points
from ...kernels.products.points import Affine
from ...linker.lang import LANES, fields_of
from ...linker.records import spread
from ...space.batch import Batch, Space
from ..growth.chunk import exclusive_sum
from .batch_work import VoxelList, program_of

LONGEST = 1 << 10  # voxels that a step may be long: its length in 2^-20 voxels then fits 32 bits
MOST_VOXELS, MOST_SIDE = 1 << 30, 32767  # of a grid, and along one axis, which NIfTI bounds
OF_A_MAP = "the density map: give --density-voxel, or a --density-grid, with larger voxels"
VOXEL_MM, MOST_CELLS = 2.0, 1 << 24  # of an image's stand-in: the side of voxels, and how many before they are larger
LISTED = 1 << 22  # voxels that are listed at once, for some streamlines: 16 MB


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

    def lists(self, batch: Batch, chosen: slice) -> Iterator[tuple[dict[str, Array], int]]:
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


def affine_of(matrix: Array) -> Affine:
    """Return the kernels' record of an affine matrix, (3, 4) or (4, 4)."""
    return Affine(**dict(zip(fields_of(Affine), matrix[:3].ravel().tolist(), strict=True)))


def grid_of(to_voxel: Array, shape: tuple[int, int, int]) -> Grid:
    """Return the kernels' record of a grid."""
    return Grid(**vars(affine_of(to_voxel)), across=shape[0], deep=shape[1], high=shape[2])


def in_parts(begins: Array, most: int) -> list[slice]:
    """Cut streamlines into parts that list about ``most`` voxels, and a part at most those of one streamline more.

    ``begins`` has the number of voxels that are listed before each streamline.
    """
    ends = np.searchsorted(begins, np.arange(most, begins[-1] + 1 if len(begins) else 0, most))
    cuts = [0, *map(int, ends), len(begins)]
    return [slice(a, b) for a, b in pairwise(cuts) if b > a]


def narrowest(counts: Array) -> Array:
    """Return counts as int32, or int64 where one is beyond that."""
    return counts.astype(np.int32 if counts.max(initial=0) <= np.iinfo(np.int32).max else np.int64)


def excess(space: Space) -> str:
    """Return what is too large about a grid, in words; nothing if a map or a mask can have it."""
    if math.prod(space.shape) <= MOST_VOXELS and max(space.shape) <= MOST_SIDE:
        return ""
    shape = " x ".join(map(str, space.shape))
    return f"of {shape} voxels is too large, beyond {MOST_VOXELS:,} or {MOST_SIDE:,} along an axis"


def check_size(space: Space) -> int:
    """Return the number of voxels of a grid; raise a ParameterError if a map cannot have so many."""
    if text := excess(space):
        raise ParameterError(f"a density map {text}: give a --density-voxel or --density-grid of larger voxels")
    return math.prod(space.shape)


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
    with np.errstate(all="ignore"):  # a warning names values that are not finite
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


@dataclass(frozen=True)
class Passage:
    """The voxels of streamlines in a batch: a row for each voxel of each streamline.

    Parameters
    ----------
    voxel : (v,) number of the voxel.
    streamline : (v,) number of the streamline among those of the batch.
    amounts : (v, shares) what of the amounts of its segments lies in the voxel.
    """

    voxel: Array
    streamline: Array
    amounts: Array


def passages(
    grid: MapGrid, batch: Batch, shares: int = 0, spans: Callable[[Array, Array], Array] | None = None
) -> Iterator[Passage]:
    """Yield the voxels that the streamlines of a batch pass, for as many at a time as can be listed.

    Parameters
    ----------
    grid : its voxels.
    batch : streamlines, in RASmm.
    shares : amounts of a segment that are shared among its voxels.
    spans : returns these amounts, (p, shares) int32, from points and offsets.
    """
    program, first = program_of(count_points, part=VoxelList(lists=1, shares=shares)), 0
    for values, most in grid.lists(batch, slice(0, len(batch))):
        count, visited, slot = len(values["slot"]), np.empty(most, np.int32), values["slot"]
        listed, amounts = np.zeros(count, np.int32), np.empty((most, shares), np.int32)
        passage = {
            "listed": listed, "here": np.empty(count, np.int32), "shared": np.zeros(count * shares, np.int32),
            "spans": np.zeros(0, np.int32), "amounts": amounts.ravel(),
        }
        if spans is not None:
            passage["spans"] = spans(values["points"].reshape(-1, 3), values["offsets"]).ravel()
        arrays = {"visited": visited} | {f"passage_{name}": array for name, array in passage.items()}
        program.run("count_points", count, grid.values | values | arrays)
        streamline = np.repeat(np.arange(count), listed)
        row = np.arange(len(streamline)) + np.repeat(slot - exclusive_sum(listed), listed)
        yield Passage(visited[row], first + streamline, amounts[row])
        first += count


class Extent:
    """The box around all points, and the longest distance between two points of a streamline.

    Attributes
    ----------
    low, high : (3,) corners of the box, mm; infinite without points.
    step_mm : the distance, mm.
    """

    def __init__(self) -> None:
        self.low, self.high = np.full(3, np.inf), np.full(3, -np.inf)
        self.step_mm = 0.0

    def add(self, batch: Batch) -> None:
        """Take the points of a batch into account."""
        columns = [*batch.points.T]  # NumPy takes fifty times as long for the least of all three at once
        self.low = np.minimum(self.low, [column.min(initial=np.inf) for column in columns])
        self.high = np.maximum(self.high, [column.max(initial=-np.inf) for column in columns])
        self.step_mm = max(self.step_mm, batch.longest_step)

    @property
    def longest(self) -> float:
        """A distance, mm, that no two points exceed, though files round them."""
        return max(self.step_mm * (1 + 1e-6), 1e-3)

    def grid(self) -> Space:
        """Return cubes that cover the box, of 2 mm unless they were too many; one if there is no point."""
        if not np.isfinite(self.low).all():
            return Space(np.eye(4), (1, 1, 1))
        size = self.high - self.low
        side = max(VOXEL_MM, float(np.cbrt(np.prod(size + VOXEL_MM) / MOST_CELLS)), float(size.max()) / (MOST_SIDE / 2))
        affine = np.diag([side, side, side, 1.0])
        affine[:3, 3] = self.low
        return Space(affine, tuple(int(n) for n in np.ceil(size / side) + 1))  # type: ignore[arg-type]
