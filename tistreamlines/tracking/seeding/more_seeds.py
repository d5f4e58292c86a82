"""Seeds in each voxel of a mask, in proportion to a map, or in balls; each is computed from its number alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ...aliases import Array
from ...errors import ParameterError
from ...option import flag
from ...space.batch import Space
from .place_seeds import draw_share, place_in_ball, place_in_voxel
from .seeds import MOST, Draw, DrawnSeeds, NumberedSeeds, Seeds, SeedsInVoxels, corners_of

Voxels = npt.NDArray[np.int32]
Ball = tuple[float, float, float, float]
FINE = 2.0**-24  # spacing of the reals that a kernel draws
WIDE = 3  # cells along an axis; wider boxes are filled one by one


@dataclass(frozen=True, eq=False)
class SeedsPerVoxel(DrawnSeeds, NumberedSeeds, SeedsInVoxels):
    """The same number of random seeds in each voxel.

    Seed k lies in voxel k modulo the number of voxels, so that each round visits all of them, as in DIPY's
    ``random_seeds_from_mask``, and more seeds a voxel add to those of fewer.

    Parameters
    ----------
    voxels : (m, 3) int32
    each : seeds in a voxel.
    draw : their random numbers; the voxels tell how many there are.

    Raises
    ------
    ParameterError
        If there are more seeds than numbers.
    """

    voxels: Voxels
    each: int
    draw: Draw

    def __post_init__(self) -> None:
        count = count_seeds("--seeds-per-voxel", self.each, len(self.voxels), self.each)
        object.__setattr__(self, "draw", replace(self.draw, count=count))

    def sample(self, numbers: npt.NDArray[np.int64]) -> tuple[Array, None]:
        """Return a seed in the voxel of each number."""
        first = int(numbers[0]) if len(numbers) else 0
        return in_voxels(self.voxels, numbers % len(self.voxels), first, self.draw), None


@dataclass(frozen=True, eq=False)
class GridSeeds(NumberedSeeds, SeedsInVoxels):
    """A regular grid of seeds in each voxel, those of DIPY's ``seeds_from_mask`` in its order.

    Parameters
    ----------
    voxels : (m, 3) int32
    density : seeds along each side of a voxel.

    Raises
    ------
    ParameterError
        If there are more seeds than numbers.
    """

    voxels: Voxels
    density: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", count_seeds("--seed-grid", self.density, len(self.voxels), self.density**3))

    def sample(self, numbers: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.float64], None]:
        """Return the seeds of these numbers."""
        voxel, place = np.divmod(numbers, self.density**3)
        # the first axis varies fastest
        steps = np.stack([place // self.density**axis % self.density for axis in range(3)], axis=1)
        return self.voxels[voxel] + (steps / self.density + (0.5 / self.density - 0.5)), None


@dataclass(frozen=True, eq=False)
class WeightedSeeds(DrawnSeeds, SeedsInVoxels):
    """Random seeds, each in a voxel with a probability proportional to the voxel's weight, and anywhere in it.

    Parameters
    ----------
    voxels : (m, 3) int32
    weights : (m,) above 0.
    draw : how many there are, and their random numbers.
    """

    voxels: Voxels
    weights: npt.NDArray[np.floating]
    draw: Draw

    @cached_property
    def _sums(self) -> npt.NDArray[np.float64]:
        return np.cumsum(self.weights, dtype=np.float64)

    def points(self, first: int, count: int) -> npt.NDArray[np.float32]:
        """Return the seeds from number ``first`` on."""
        chosen = choose(self._sums, first, self.within(first, count), self.draw)
        return in_voxels(self.voxels, chosen, first, self.draw)


@dataclass(frozen=True, eq=False)
class BallSeeds(DrawnSeeds):
    """Random seeds in balls: each in a ball with a probability proportional to its volume, and anywhere in it.

    Where balls overlap, seeds are as many times as dense.

    Parameters
    ----------
    balls : centre and radius (x, y, z, r) of each, RASmm.
    space : grid of the image.
    draw : how many there are, and their random numbers.

    Raises
    ------
    ParameterError
        If a ball does not touch the image.
    """

    balls: Sequence[Ball]
    space: Space
    draw: Draw

    @cached_property
    def _array(self) -> npt.NDArray[np.float64]:
        return np.array(self.balls, np.float64).reshape(-1, 4)

    def points(self, first: int, count: int) -> npt.NDArray[np.float64]:
        """Return the seeds from number ``first`` on."""
        count = self.within(first, count)
        chosen = self._array
        if len(chosen) > 1:
            chosen = chosen[choose(np.cumsum(chosen[:, 3] ** 3), first, count, self.draw)]
        offsets = self.draw.reals(place_in_ball, 3, first, count)
        return self.space.to_voxel(chosen[:, :3] + chosen[:, 3:] * offsets)

    def reach(self) -> npt.NDArray[np.float64]:
        """Return eight points in each voxel that may lie in a ball."""
        return corners_of(np.unique(np.concatenate([self._voxels(ball) for ball in self._array]), axis=0))

    def _voxels(self, ball: npt.NDArray[np.float64]) -> Voxels:
        """Return the voxels (m, 3) that a ball may touch."""
        middle, shape = self.space.to_voxel(ball[:3]), np.array(self.space.shape)
        half = ball[3] * np.linalg.norm(np.linalg.inv(self.space.affine[:3, :3]), axis=1)
        low = np.clip(np.floor(middle - half), 0, shape).astype(int)
        high = np.clip(np.ceil(middle + half) + 1, 0, shape).astype(int)
        voxels = np.stack(np.meshgrid(*map(np.arange, low, high), indexing="ij"), axis=-1).reshape(-1, 3)
        diagonal = np.linalg.norm(np.abs(self.space.affine[:3, :3]).sum(axis=1))
        away = np.linalg.norm(self.space.to_ras(voxels) - ball[:3], axis=1)
        voxels = voxels[away <= ball[3] + diagonal / 2]
        if not len(voxels):
            text = ",".join(f"{value:g}" for value in ball)
            raise ParameterError(f"--seed-sphere {text} lies outside the image: give x,y,z,r in RASmm of this image")
        return voxels.astype(np.int32)


@dataclass(frozen=True, eq=False)
class SeedsElsewhere(Seeds):
    """Seeds in voxels of another grid, at the same places in RASmm.

    Parameters
    ----------
    seeds : Seeds
        On the other grid.
    affine : (4, 4) float64
        From the other grid to RASmm.
    space : Space
        Grid of the image.

    Raises
    ------
    ParameterError
        If none of the voxels touches the image.
    """

    seeds: Seeds
    affine: npt.NDArray[np.float64]
    space: Space

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", self.seeds.count)
        if not len(self._cells):
            raise ParameterError(f"{flag('seed_mask')} lies outside the image: check its affine")

    def _move(self, points: Array) -> npt.NDArray[np.float64]:
        """Return points of the other grid in voxel coordinates of the image."""
        return self.space.to_voxel(Space(self.affine, self.space.shape).to_ras(points))

    def points(self, first: int, count: int) -> npt.NDArray[np.float64]:
        """Return the seeds from number ``first`` on."""
        return self._move(self.seeds.points(first, count))

    def sample(self, numbers: npt.NDArray[np.int64]) -> tuple[Array, None]:
        """Return seeds that stand for those of these numbers."""
        return self._move(self.seeds.sample(numbers)[0]), None

    def reach(self) -> npt.NDArray[np.float64]:
        """Return a point between each eight voxels of the image among which a seed may lie."""
        return self._cells

    @cached_property
    def _cells(self) -> npt.NDArray[np.float64]:
        return cells_around(self._move(self.seeds.reach()), self.space)


def cells_around(points: npt.NDArray[np.float64], space: Space) -> npt.NDArray[np.float64]:
    """Return a point between each eight voxels of an image among which a point of other voxels may lie.

    Parameters
    ----------
    points : (8 m, 3), voxel
        The points of :func:`.seeds.corners_of` of m voxels of another grid, in voxel coordinates of the image.
    space : grid of the image.
    """
    # a voxel of the other grid lies within half its diagonal around its eight points, which are a quarter inside
    eight = points.reshape(-1, 8, 3)
    middle, half = eight.mean(axis=1), np.abs(eight - eight.mean(axis=1, keepdims=True)).max(axis=1) * 2
    low, high = np.floor(middle - half).astype(int), np.floor(middle + half).astype(int)
    return cells_between(low, high, space)


def cells_between(low: npt.NDArray[np.int_], high: npt.NDArray[np.int_], space: Space) -> npt.NDArray[np.float64]:
    """Return a point in each cell of an image from ``low`` to ``high``, (m, 3), which are their least voxels."""
    low, high = np.maximum(low, -1) + 1, np.minimum(high, np.array(space.shape) - 1) + 1
    cells, extent = np.zeros(np.array(space.shape) + 1, bool), (high - low).max(axis=1, initial=0)
    for first, last in zip(low[extent > WIDE], high[extent > WIDE] + 1, strict=True):
        cells[tuple(map(slice, first, np.maximum(last, 0)))] = True
    low, high = low[extent <= WIDE], high[extent <= WIDE]
    for offset in np.ndindex(*(np.maximum((high - low).max(axis=0, initial=-1), -1) + 1)):
        cell = low + offset
        cells[tuple(cell[(cell <= high).all(axis=1)].T)] = True
    return np.clip(np.argwhere(cells).astype(np.float64) - 0.5, -0.5, np.array(space.shape) - 0.51)


def count_seeds(name: str, value: int, places: int, each: int, what: str = "voxels") -> int:
    """Return the number of seeds in all voxels; refuse more than there are numbers, naming the option."""
    if places * each > MOST:
        raise ParameterError(f"{name} is {value}: {places} {what} would have more than {MOST} seeds; give fewer")
    return places * each


def choose(sums: npt.NDArray[np.float64], first: int, count: int, draw: Draw) -> npt.NDArray[np.intp]:
    """Choose one of m for each seed, (count,), with probabilities whose running sums are proportional to ``sums``.

    A draw has 48 random bits. The sums are added in turn, in float64, so all machines choose alike.
    """
    return voxels_by_share(sums, draw.reals(draw_share, 2, first, count))


def voxels_by_share(sums: npt.NDArray[np.float64], shares: npt.NDArray[np.float32]) -> npt.NDArray[np.intp]:
    """Choose one of m by each two reals in [0, 1), (n, 2), of which the second adds bits to the first."""
    share = shares[:, 0] + shares[:, 1].astype(np.float64) * FINE
    return np.minimum(np.searchsorted(sums, share * sums[-1], "right"), len(sums) - 1)


def in_voxels(
    voxels: Voxels, chosen: npt.NDArray[np.integer], first: int, draw: Draw
) -> npt.NDArray[np.float32]:
    """Place seeds from number ``first`` on, each anywhere in its voxel ``chosen`` (n,) of ``voxels`` (m, 3)."""
    flat = np.ascontiguousarray(voxels[chosen].ravel(), np.int32)
    return draw.reals(place_in_voxel, 3, first, len(chosen), voxels=flat)
