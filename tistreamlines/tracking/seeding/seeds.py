"""Seeds: given points, or random points that depend only on the number of the seed and on the RNG seed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ...aliases import Array
from ...errors import InputError
from ...linker.lang import Func
from ...space.batch import Batch, Space
from .place_seeds import draw_attempt, place_seed

OUTSIDE = 0.1  # fraction of the seeds that may lie outside the image
MOST = 2**32 - 1  # seeds of a run, whose numbers are counted with 32 bits
SPACES = {"voxel": "voxel coordinates", "rasmm": "RASmm"}
# offsets in a voxel: the voxels around these eight points are all that interpolation at any seed in the voxel can read
_CORNERS = np.array(list(np.ndindex(2, 2, 2)), np.float64) * 0.5 - 0.25


class Seeds(ABC):
    """Numbered seeds; a seed does not depend on how many are requested at a time.

    Attributes
    ----------
    count : number of seeds.
    either_sense : whether a direction of a seed stands for its opposite, too.
    doubts : what looks wrong, once the first seed is there.
    """

    count: int
    either_sense: bool = False
    doubts: Sequence[str] = ()

    @abstractmethod
    def points(self, first: int, count: int) -> Array:
        """Return (count, 3) voxel coordinates (centre of a voxel = integer) of the seeds from number ``first`` on."""

    @abstractmethod
    def reach(self) -> npt.NDArray[np.float64]:
        """Return (m, 3) voxel coordinates whose interpolation reads every voxel that any seed's does."""

    def within(self, first: int, count: int) -> int:
        """Return how many of ``count`` seeds from number ``first`` on there are."""
        return max(min(count, self.count - first), 0)

    def sample(self, numbers: npt.NDArray[np.int64]) -> tuple[Array, npt.NDArray[np.float64] | None]:
        """Return points and directions that are distributed as those of the seeds of ascending numbers (m,).

        Seeds at random places stand for each other; where the place depends on the number, these very ones are taken.
        """
        return self.points(int(numbers[0]), len(numbers)), None

    def directions(self, first: int, count: int) -> npt.NDArray[np.float64] | None:
        """Return the initial directions of seeds, (count, 3) unit vectors along the voxel axes; None for the peaks."""
        return None

    @property
    def directed(self) -> bool:
        """Whether each seed has an initial direction."""
        return self.directions(0, 1) is not None

    def round_from(self, first: int) -> int | None:
        """Return how many seeds from number ``first`` on can be tracked together; None if any number can.

        Others depend on their streamlines.
        """
        del first

    def follow(self, followed: object) -> None:
        """Take what streamlines follow, if seeds depend on that; called before all else."""
        del followed

    def prepare(self, told: Callable[[float], object]) -> None:
        """Make what takes long before the first seed is drawn; ``told`` receives the share that is done, 0 to 1."""
        del told

    def heed(self, batch: Batch) -> None:
        """Take accepted streamlines into account, where the seeds of later rounds depend on them."""
        del batch


def corners_of(voxels: npt.NDArray[np.int32]) -> npt.NDArray[np.float64]:
    """Return eight points in each voxel (m, 3), around which lie all voxels that seeds anywhere in it read."""
    return (voxels[:, None] + _CORNERS).reshape(-1, 3)


@dataclass(frozen=True)
class Draw:
    """How random seeds are drawn.

    Parameters
    ----------
    count : number of seeds.
    key : RNG seed, 64 bits.
    threads : CPU threads; None for all cores.
    """

    count: int
    key: int
    threads: int | None = None

    def reals(
        self, kernel: Func, width: int, first: int, count: int, **values: int | Array
    ) -> npt.NDArray[np.float32]:
        """Run a kernel of :mod:`.place_seeds` on the host.

        Parameters
        ----------
        kernel : writes ``width`` reals for each seed to ``out``.
        first, count : number of the first seed, and how many.
        values : further arguments of the kernel; arrays are int32.

        Returns
        -------
        (count, width) float32
        """
        from ...backends.numba.program import NumbaProgram
        from ...linker.source import Source

        out = np.empty(width * max(count, 1), np.float32)
        rules = {
            "rules_step_x": 0.0, "rules_step_y": 0.0, "rules_step_z": 0.0, "rules_max_steps": 0,
            "rules_key": np.array([self.key], np.uint64).view(np.int32), "rules_first_seed": first,
        }
        program = NumbaProgram(Source([kernel]), threads=self.threads)
        program.run(kernel.__name__, count, {**rules, **values, "out": out})
        return out[: width * count].reshape(-1, width)

    def attempts(self, first: int, items: Array, attempts: Array) -> npt.NDArray[np.float32]:
        """Return seven reals (n, 7) of attempts at seeds ``first + items``; see :func:`.place_seeds.draw_attempt`."""
        return self.reals(draw_attempt, 7, first, len(items), items=items, attempts=attempts)


class DrawnSeeds(Seeds):
    """Seeds at random places, of which each seed's depend on its number and on the RNG seed alone."""

    draw: Draw

    @property
    def count(self) -> int:  # type: ignore[override]
        """Number of seeds."""
        return self.draw.count


class SeedsInVoxels(Seeds):
    """Seeds in voxels, (m, 3) int32."""

    voxels: npt.NDArray[np.int32]

    def reach(self) -> npt.NDArray[np.float64]:
        """Return eight points in each voxel."""
        return corners_of(self.voxels)


@dataclass(frozen=True, eq=False)
class GivenSeeds(Seeds):
    """Seeds at given points.

    Parameters
    ----------
    voxel_points : (n, 3) float64, voxel
    along : (n, 3) float64, optional
        The one initial direction of each seed, a unit vector along the voxel axes.
    """

    voxel_points: npt.NDArray[np.float64]
    along: npt.NDArray[np.float64] | None = None

    @property
    def count(self) -> int:  # type: ignore[override]
        """Number of seeds."""
        return len(self.voxel_points)

    def directions(self, first: int, count: int) -> npt.NDArray[np.float64] | None:
        """Return the directions from number ``first`` on, if there are any."""
        return None if self.along is None else self.along[first : first + count]

    def points(self, first: int, count: int) -> npt.NDArray[np.float64]:
        """Return seeds from number ``first`` on."""
        return self.voxel_points[first : first + count]

    def sample(self, numbers: npt.NDArray[np.int64]) -> tuple[Array, npt.NDArray[np.float64] | None]:
        """Return the seeds of these numbers, and their directions."""
        return self.voxel_points[numbers], None if self.along is None else self.along[numbers]

    def reach(self) -> npt.NDArray[np.float64]:
        """Return all seeds."""
        return self.voxel_points


@dataclass(frozen=True, eq=False)
class RandomSeeds(DrawnSeeds, SeedsInVoxels):
    """Seeds drawn uniformly from voxels, with the same random number generator as tracking.

    Parameters
    ----------
    voxels : (m, 3) int32
        Each seed lies anywhere in one of these.
    draw : how many there are, and their random numbers.
    """

    voxels: npt.NDArray[np.int32]
    draw: Draw

    def points(self, first: int, count: int) -> npt.NDArray[np.float32]:
        """Return the seeds from number ``first`` on, computed by the kernel ``place_seed``."""
        count, voxels = self.within(first, count), np.ascontiguousarray(self.voxels.ravel(), np.int32)
        return self.draw.reals(place_seed, 3, first, count, voxels=voxels, voxel_count=len(self.voxels))


def check_inside(points: Array, space: Space, given: Literal["voxel", "rasmm"], name: str) -> None:
    """Check that at least nine of ten seeds lie in the image, and suggest other coordinates if not.

    Parameters
    ----------
    points : (n, 3), in the coordinates of ``given``.
    space : grid of the image.
    given : 'voxel' or 'rasmm'.
    name : argument or file, for the message.

    Raises
    ------
    InputError
        If more than a tenth of the seeds lies outside.
    """
    inside = {"voxel": count_inside(points, space), "rasmm": count_inside(space.to_voxel(points), space)}
    count, other = len(points), "rasmm" if given == "voxel" else "voxel"
    most = (1 - OUTSIDE) * count
    if inside[given] >= most:
        return
    if inside[other] >= most:
        turn = "np.linalg.inv(affine)" if given == "voxel" else "affine"
        advice = (
            f"as {SPACES[other]} {inside[other]} lie inside: turn them into {SPACES[given]} with "
            f"nibabel.affines.apply_affine({turn}, seeds)"
        )
    else:
        advice = f"as {SPACES[other]} {count - inside[other]} do: give seeds of this image in {SPACES[given]}"
    outside = count - inside[given]
    raise InputError(f"{name}: as {SPACES[given]} {outside} of {count} seeds lie outside the image, {advice}")


def count_inside(points: Array, space: Space) -> int:
    """Count the points (n, 3), voxel, in the image."""
    return int(((points >= -0.5) & (points < np.array(space.shape) - 0.5)).all(axis=1).sum())


def seeds_in_file(rows: npt.NDArray[np.float64], space: Space, name: str) -> GivenSeeds:
    """Return seeds at points in RASmm, of which at least nine in ten must lie in the image.

    Parameters
    ----------
    rows : (n, 3) or (n, 6) float64
        Points x y z, or points and directions dx dy dz of any length above 0, along the axes of RASmm.
    space, name : grid of the image, and argument or file, for messages.
    """
    points = rows[:, :3]
    check_inside(points, space, "rasmm", name)
    along = along_voxel_axes(rows[:, 3:], space) if rows.shape[1] == 6 else None
    return GivenSeeds(space.to_voxel(points), along)


def along_voxel_axes(directions: npt.NDArray[np.float64], space: Space) -> npt.NDArray[np.float64]:
    """Return unit vectors along the voxel axes (n, 3), of directions (n, 3) of any length in RAS.

    A step along such a vector, in mm, leads along the direction in RASmm, also on a grid that is not rectangular.
    """
    directions = directions / np.abs(directions).max(axis=1, keepdims=True)  # their squares cannot overflow
    turned = directions @ np.linalg.inv(space.affine[:3, :3]).T * space.voxel_sizes
    return turned / np.linalg.norm(turned, axis=1, keepdims=True)
