"""Seeds, and random points that depend only on the number of the seed and on the RNG seed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ...aliases import Array
from ...errors import InputError
from ...linker.lang import Func
from ...space.batch import Batch
from .place_seeds import draw_attempt, place_seed

Numbers = npt.NDArray[np.int32]
Coding = Callable[[Array, int, Array], Array]  # of float32 seeds, the number of the first, and directions
ATTEMPTS = 1000  # at one seed
TOGETHER = 1 << 12  # attempts before a check whether they are needed
MOST = 2**32 - 1  # seeds of a run, whose numbers are counted with 32 bits
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

    def among(self, first: int, items: Numbers) -> Array:
        """Return (m, 3) voxel coordinates of the seeds of numbers ``first + items``, which ascend."""
        return np.asarray(self.points(first, int(items[-1]) + 1))[items]

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

    def whole_rounds(self, first: int, count: int) -> int:
        """Return how many seeds from number ``first`` on are at least ``count`` and do not end within a round."""
        del first
        return count

    def follow(self, followed: object) -> None:
        """Take what streamlines follow, if seeds depend on that; called before all else."""
        del followed

    def code_with(self, codes: Coding) -> None:
        """Take a function that finds the codes of directions.

        From then on, seeds that are drawn ahead have codes instead of directions, so that no device waits for them.
        """
        del codes

    def prepare(self, progress: Callable[[float], object]) -> None:
        """Make what takes long before the first seed is drawn; ``progress`` receives the share that is done, 0 to 1."""
        del progress

    def advance(self, first: int, seeds: int) -> bool:
        """Begin rounds when all streamlines of the first ``seeds`` seeds have come.

        Return whether the one from number ``first`` on has begun; others wait for further streamlines.
        """
        del first, seeds
        return True

    def is_drawn(self, first: int) -> bool:
        """Whether seeds from number ``first`` on are there, or need not be waited for."""
        del first
        return True

    def heed(self, batch: Batch, seeds: int) -> None:
        """Take accepted streamlines into account, where seeds of later rounds depend on them.

        With this batch, all streamlines of the first ``seeds`` seeds have come.
        """
        del batch, seeds

    def restore(self, batches: Iterable[Batch], first: int, count: int) -> None:
        """Take streamlines of an earlier process into account, those of ``count`` seeds from number ``first`` on.

        The seeds are whole rounds, and the next ones.
        """
        del batches, first, count


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
        from ...linker.parts import Source

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


class _WithDraw(Protocol):
    """Seeds with a draw, which may be read-only, as in a frozen dataclass."""

    @property
    def draw(self) -> Draw: ...


class DrawnSeeds(Seeds):
    """Seeds at random places, of which each seed's depend on its number and on the RNG seed alone: ``draw``."""

    @property
    def count(self: _WithDraw) -> int:  # type: ignore[override]
        """Number of seeds."""
        return self.draw.count


class NumberedSeeds(Seeds):
    """Seeds whose places follow from their numbers."""

    def points(self, first: int, count: int) -> Array:
        """Return the seeds from number ``first`` on."""
        return self.sample(np.arange(first, first + self.within(first, count)))[0]


class _WithVoxels(Protocol):
    """Seeds with voxels, which may be read-only."""

    @property
    def voxels(self) -> npt.NDArray[np.int32]: ...


class SeedsInVoxels(Seeds):
    """Seeds in ``voxels``, (m, 3) int32."""

    def reach(self: _WithVoxels) -> npt.NDArray[np.float64]:
        """Return eight points in each voxel."""
        return corners_of(self.voxels)


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


def first_success(
    first: int, items: Numbers, width: int,
    attempt: Callable[[int, Numbers, Numbers], tuple[npt.NDArray[np.floating], npt.NDArray[np.bool_]]],
    whose: str, reason: str,
) -> npt.NDArray[np.float64]:
    """Return what the first attempt that succeeds finds at each of m seeds, (m, width) float64.

    Parameters
    ----------
    first, items, width : the seeds ``first + items``, (m,), and the number of the reals at each.
    attempt : receives ``first``, items and the numbers of their attempts, (n,) each; returns (n, width), and which
        succeed.
    whose, reason : what a message begins with, and why no attempt at a seed may succeed.

    Raises
    ------
    InputError
        If there is a seed at which none of ATTEMPTS succeeds.
    """
    values, left, done = np.empty((len(items), width)), np.arange(len(items)), 0
    while len(left) and done < ATTEMPTS:
        several = min(max(TOGETHER // len(left), 1), ATTEMPTS - done)
        attempts = np.arange(done, done + several, dtype=np.int32)
        rows, reached = attempt(first, np.repeat(items[left], several), np.tile(attempts, len(left)))
        reached = reached.reshape(-1, several)
        values[left] = rows.reshape(-1, several, width)[np.arange(len(left)), reached.argmax(axis=1)]
        left, done = left[~reached.any(axis=1)], done + several
    if len(left):
        raise InputError(f"{whose}: seed {first + items[left[0]]} was not found in {ATTEMPTS} attempts: {reason}")
    return values
