"""A pilot: some seeds that stand for all seeds of a run, which tell how many streamlines it will have, and when."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..aliases import Array
from ..tracking.engine.engine import Engine
from ..tracking.seeding.seeds import Seeds

FEWEST, MOST = 2000, 1 << 20  # seeds of a pilot
WARM_UP = 32  # seeds that are tracked before, so that no pilot meets a cold device
MORE = 4  # ratio of the seeds of a pilot to those of the one before
ENOUGH_SECONDS = 1.0  # a shorter pilot says little of the pace, above all on a GPU, where few seeds leave teams idle
ENOUGH, PATIENCE = 100, 10.0  # with fewer streamlines, more seeds are tried while a pilot takes less time, s
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Pilot:
    """What was tracked.

    Parameters
    ----------
    seconds : duration.
    streamlines, points : (n,) int64, of each seed of the pilot.
    """

    seconds: float
    streamlines: Numbers
    points: Numbers

    @property
    def seeds(self) -> int:
        """Number of seeds of the pilot."""
        return len(self.streamlines)

    @property
    def rate(self) -> float:
        """Seeds per second."""
        return self.seeds / max(self.seconds, 1e-9)

    def spread(self, counts: Array, run: float) -> float:
        """Return two standard errors of the sum over the ``run`` seeds, relative to it, given that of each seed here.

        The seeds of the pilot are a random sample of those of the run, or the other way round.
        """
        n, mean = len(counts), float(counts.mean())
        error = np.sqrt(counts.var() * abs(1 / n - 1 / run))
        return 2 * float(error) / mean if mean else 0.0

    def spread_per_streamline(self) -> float:
        """Return two standard errors of the mean number of points per streamline, relative to it."""
        mean = self.points.mean()
        rest = self.points - mean / max(self.streamlines.mean(), 1e-9) * self.streamlines
        return 2 * float(rest.std() / np.sqrt(self.seeds) / mean) if mean else 0.0


def track_pilot(engine: Engine, seeds: Seeds, numbers: range, told: Callable[[int, int, int], None]) -> Pilot:
    """Track pilots of more and more seeds, until one takes long enough or has all of them; return the last one.

    Parameters
    ----------
    engine : grows the streamlines.
    seeds, numbers : the seeds, and which numbers are those of the run.
    told : receives the seeds that are finished, those of the pilot and the streamlines.
    """
    _track(engine, seeds, _spread_over(numbers, WARM_UP), told)
    count = FEWEST
    while True:
        made = _track(engine, seeds, _spread_over(numbers, count), told)
        enough = ENOUGH_SECONDS if made.streamlines.sum() >= ENOUGH else PATIENCE
        if made.seeds in (len(numbers), MOST) or made.seconds >= enough:
            return made
        count = min(MORE * count, MOST)


def _spread_over(numbers: range, count: int) -> Numbers:
    """Choose numbers at random, one in each of ``count`` equal ranges; all of them if there are no more."""
    if count >= len(numbers):
        return np.arange(numbers.start, numbers.stop)
    # at equal distances, they might all lie in the same corner of their voxels
    places = np.arange(count) + np.random.default_rng(0).random(count)
    return numbers.start + (places * (len(numbers) / count)).astype(np.int64)


def _track(engine: Engine, seeds: Seeds, numbers: Numbers, told: Callable[[int, int, int], None]) -> Pilot:
    """Track the seeds of some numbers, and count."""
    points, directions = seeds.sample(numbers)
    first, n = int(numbers[0]), len(numbers)
    counts, begun = np.zeros((2, n), np.int64), time.perf_counter()
    for batch in engine.track(np.asarray(points), first, directions):
        seed = batch.seed_number.astype(np.int64) - first
        counts += [np.bincount(seed, minlength=n), np.bincount(seed, batch.lengths, n).astype(np.int64)]
        told(int(seed[-1]) + 1 if len(seed) else 0, n, int(counts[0].sum()))
    return Pilot(time.perf_counter() - begun, *counts)
