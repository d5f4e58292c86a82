"""The table of targets: the archs of tistreamlines and DIPY as a peer, with a common interface, also for parity tests.

DIPY's are LocalTracking, and the threaded trackers of :mod:`dipy.tracking.tracker`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ..aliases import Array
from ..devices import ARCHS, NUMBERED, Device, choose, choose_several
from ..errors import DeviceError
from .cases import COMMON, METHODS, STOP
from .problem import Problem
from .streamlines import RunStreamlines, Track, timer_of

if TYPE_CHECKING:
    from dipy.tracking.direction_getter import DirectionGetter
    from dipy.tracking.local_tracking import LocalTracking
    from dipy.tracking.stopping_criterion import StoppingCriterion

    from ..tracking.tables.inputs import KernelTables


@dataclass(frozen=True)
class Target:
    """A program that tracks.

    Parameters
    ----------
    name, title : str
        Name on the command line, and description.
    kind : 'arch' or 'peer'
    methods : tuple of str
        Names of the methods that it supports.
    missing : callable
        Returns why it cannot run here, or "" if it can.
    open : callable
        Prepares a problem, compiles, and returns the function that tracks, which can be called repeatedly.
    """

    name: str
    title: str
    kind: str
    methods: tuple[str, ...]
    missing: Callable[[], str]
    open: Callable[[Problem], Track]


def tables_for(problem: Problem) -> KernelTables:
    """Tables of this package for a problem."""
    from ..fit.models import BASIS
    from ..run.from_arrays import prepare_arrays
    from ..tracking.registry import METHODS as REGISTRY
    from ..tracking.tables.inputs import OrientationFunctions, Signals

    method = problem.method
    options = COMMON | {"max_angle": method.max_angle} | method.options
    if method.model == "asymmetric":
        follows = OrientationFunctions("pmf", problem.pmf, symmetric=False)
    elif "signals" in REGISTRY[method.dg].follows:
        follows = Signals(problem.data, problem.gtab)
        options |= {"model": method.model, "sh_order": method.order}
    else:
        follows = OrientationFunctions("sh", problem.csd, BASIS)
        options["model"] = method.model
    return prepare_arrays(
        method.dg, follows, problem.fa, STOP, problem.seeds, sphere=method.sphere, step_mm=problem.step_mm,
        voxel_sizes=tuple(map(float, problem.space.voxel_sizes)), **options,
    )


def devices_of(arch: str, problem: Problem) -> list[Device]:
    """Return where an arch tracks a problem."""
    shared = problem.devices is not None and arch in NUMBERED
    return choose_several(arch, str(problem.devices)) if shared else [choose(arch)]


def open_arch(arch: str, problem: Problem) -> Track:
    """Prepare tracking with an arch of tistreamlines."""
    from ..tracking.growth.settings import Settings
    from ..workers.session import Session

    prepared = tables_for(problem)
    settings = Settings(
        problem.step_mm, max_steps=problem.method.max_steps, threads=problem.threads, chunk_size=problem.chunk_size
    )
    devices = devices_of(arch, problem)
    several = len(devices) > 1
    engine = Session(devices).open(prepared, problem.space, settings)
    # the stages and the copied bytes of several devices are not known here, and the measured limits are those of one
    work = None if several else prepared.getter.count_step()
    parts = () if several else ("start", "grow", "pack", "unpack")

    def track(count: int, keep: bool = True) -> RunStreamlines:
        statistics = engine.statistics
        statistics.copied_bytes = 0
        statistics.seconds.update(dict.fromkeys(parts, 0.0))
        points, lengths = [np.zeros((0, 3), np.float32)], []
        for batch in engine.track(problem.seeds[:count]):
            lengths.append(batch.lengths)
            if keep:
                points.append(batch.points)
        stages = {name: statistics.seconds[name] for name in parts}
        offsets = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
        return RunStreamlines(
            np.concatenate(points), offsets, statistics.seconds["track"], stages, statistics.seconds["compile"],
            work, statistics.copied_bytes or None,
        )

    return track


def _no_arch(arch: str) -> str:
    try:
        choose(arch)
    except DeviceError as error:
        return error.on_command_line
    return ""


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
    return timer_of(lambda count: list(local_lines(problem, getter, next(random_seeds), count)))


def open_threaded(problem: Problem) -> Track:
    """Prepare tracking with DIPY's threaded trackers from its peaks; each call uses another RNG seed."""
    number, directions = initial_directions(problem, dipy_getter(problem))
    random_seeds = itertools.count(1)

    def run(count: int) -> list[Array]:
        tracked = number < count
        return list(threaded_lines(problem, number[tracked], directions[tracked], next(random_seeds)))

    return timer_of(run)


ALL = tuple(METHODS)
SYMMETRIC = tuple(name for name, method in METHODS.items() if method.model != "asymmetric")
TARGETS = {
    target.name: target
    for target in (
        *(
            Target(arch, f"tistreamlines, {arch}", "arch", ALL, partial(_no_arch, arch), partial(open_arch, arch))
            for arch in reversed(ARCHS)
        ),
        Target("dipy", "DIPY's LocalTracking, single-threaded", "peer", SYMMETRIC, str, open_local),
        Target("dipy-threads", "DIPY's threaded trackers", "peer", ("prob", "det", "ptt"), str, open_threaded),
    )
}
