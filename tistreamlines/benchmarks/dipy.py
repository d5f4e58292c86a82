"""DIPY as a peer: LocalTracking, and the threaded trackers of :mod:`dipy.tracking.tracker`."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from ..aliases import Array
from .cases import COMMON, STOP
from .problem import Problem
from .tracked import Track, timed

if TYPE_CHECKING:
    from dipy.tracking.direction_getter import DirectionGetter
    from dipy.tracking.local_tracking import LocalTracking
    from dipy.tracking.stopping_criterion import StoppingCriterion

# DIPY's trackers draw for a seed at x, y, z (voxels) from stream int((2 x + 3 y + 5 z) random_seed): with a small
# random_seed, many seeds share a stream
MANY_STREAMS = 1_000_000


def dipy_getter(problem: Problem) -> DirectionGetter:
    """Return DIPY's direction getter for a problem."""
    from dipy.data import default_sphere
    from dipy.direction import (
        BootDirectionGetter,
        DeterministicMaximumDirectionGetter,
        ProbabilisticDirectionGetter,
        PTTDirectionGetter,
    )
    from dipy.reconst.shm import CsaOdfModel, OpdtModel

    method = problem.method
    common = COMMON | {"max_angle": method.max_angle, "sphere": default_sphere}
    if method.dg == "boot":
        fit = {"smooth": method.options["sm_lambda"], "min_signal": method.options["min_signal"]}
        model = {"opdt": OpdtModel, "csa": CsaOdfModel}[method.model](problem.gtab, sh_order_max=method.order, **fit)
        return BootDirectionGetter.from_data(problem.data.astype(float), model, sh_order=method.order, **common)
    kind = {
        "prob": ProbabilisticDirectionGetter, "det": DeterministicMaximumDirectionGetter, "ptt": PTTDirectionGetter,
    }[method.dg]
    return kind.from_shcoeff(problem.csd.astype(float), **common, **method.options)


def local_lines(
    problem: Problem, getter: DirectionGetter, random_seed: int, count: int | None = None, **others: bool
) -> LocalTracking:
    """Return an iterable over the streamlines of DIPY's LocalTracking from the first ``count`` seeds."""
    from dipy.tracking.local_tracking import LocalTracking

    return LocalTracking(
        getter, _criterion(problem), problem.space.to_ras(problem.seeds[:count]), problem.space.affine,
        problem.step_mm, maxlen=problem.method.max_steps, random_seed=random_seed, **others,
    )


def initial_directions(problem: Problem, getter: DirectionGetter) -> tuple[Array, Array]:
    """Return the peaks of a DIPY getter at the seeds.

    Returns
    -------
    number : (n,) int64
        Index of the seed of each peak.
    directions : (n, 3) float64
    """
    peaks = [getter.initial_direction(np.ascontiguousarray(seed)) for seed in problem.seeds]
    return np.repeat(np.arange(len(peaks)), list(map(len, peaks))), np.concatenate(peaks)


def threaded_lines(
    problem: Problem, number: Array, directions: Array, random_seed: int,
    criterion: StoppingCriterion | None = None, **others: object,
) -> Iterable[Array]:
    """Return an iterable over the streamlines of DIPY's threaded trackers, which need initial directions."""
    from dipy.data import default_sphere
    from dipy.tracking import tracker

    method = problem.method
    run = getattr(tracker, {"prob": "probabilistic", "det": "deterministic", "ptt": "ptt"}[method.dg] + "_tracking")
    return run(
        problem.space.to_ras(problem.seeds)[number], criterion or _criterion(problem), problem.space.affine,
        seed_directions=directions, sh=problem.csd.astype(float), sphere=default_sphere, step_size=problem.step_mm,
        voxel_size=problem.space.voxel_sizes, max_angle=method.max_angle, min_len=0,
        max_len=(method.max_steps + 1.5) * problem.step_mm, random_seed=MANY_STREAMS + random_seed,
        nbr_threads=problem.threads or 0, **others,
    )


def _criterion(problem: Problem) -> StoppingCriterion:
    from dipy.tracking.stopping_criterion import ThresholdStoppingCriterion

    return ThresholdStoppingCriterion(problem.fa.astype(float), STOP)


def open_local(problem: Problem) -> Track:
    """Prepare tracking with DIPY's LocalTracking; each call uses another RNG seed."""
    getter, random_seeds = dipy_getter(problem), itertools.count(1)
    return timed(lambda count: list(local_lines(problem, getter, next(random_seeds), count)))


def open_threaded(problem: Problem) -> Track:
    """Prepare tracking with DIPY's threaded trackers from its peaks; each call uses another RNG seed."""
    number, directions = initial_directions(problem, dipy_getter(problem))
    random_seeds = itertools.count(1)

    def run(count: int) -> list[Array]:
        tracked = number < count
        return list(threaded_lines(problem, number[tracked], directions[tracked], next(random_seeds)))

    return timed(run)
