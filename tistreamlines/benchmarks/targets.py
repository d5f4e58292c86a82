"""Who tracks: the archs of this package and its peers, all called alike.  The parity tests use the same table."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..backends.devices import ARCHS, choose
from ..errors import DeviceError
from . import cuslines, mrtrix
from .cases import COMMON, METHODS, SWEEPS
from .problem import Problem

Array = npt.NDArray[Any]
SINGLE = "of one thread, all that it uses"


@dataclass
class Tracked:
    """Streamlines of a run.

    Parameters
    ----------
    points, offsets : RASmm, end to end, and where each streamline begins and the last one ends; points may have been
        let go.
    seconds : from seeds to points in the host's memory.
    stages : seconds of its parts, where known.
    compile : seconds that were spent compiling before, where known.
    work : bytes read and operations done for a point, where counted.
    copied_bytes : from the device to the host, where counted.
    """

    points: Array
    offsets: Array
    seconds: float
    stages: dict[str, float] = field(default_factory=dict)
    compile: float | None = None
    work: tuple[float, float] | None = None
    copied_bytes: int | None = None

    def save(self, path: Path) -> None:
        """Write points and offsets."""
        np.savez(path, points=self.points, offsets=self.offsets)

    @classmethod
    def load(cls, path: Path) -> Tracked:
        """Read what :meth:`save` wrote; its seconds are 0."""
        with np.load(path) as stored:
            return cls(stored["points"], stored["offsets"], 0.0)


class Session(Protocol):
    """Tracks the first so many seeds of a problem; keeps the points, or may let them go as who writes them does."""

    def __call__(self, count: int, keep: bool = True) -> Tracked: ...


@dataclass(frozen=True)
class Target:
    """A tracker.

    Parameters
    ----------
    name, title : as on the command line, and what it is.
    kind : arch or peer.
    methods : names of the methods that it has.
    missing : says why it cannot run here, "" if it can.
    open : prepares a problem, compiles, and returns what tracks; that may be called again.
    varies : names of the sweeps that it can make.
    warm_up : seeds of a first call that is not timed, which compiles or makes room; 0 for none.
    """

    name: str
    title: str
    kind: str
    methods: tuple[str, ...]
    missing: Callable[[], str]
    open: Callable[[Problem], Session]
    varies: tuple[str, ...]
    warm_up: int = 0


def joined(lines: Iterable[Any], seconds: float, **others: Any) -> Tracked:
    """Streamlines in one array; those of a single point left out, as ours are."""
    kept = [line for line in lines if len(line) > 1]
    offsets = np.concatenate([[0], np.cumsum([len(line) for line in kept])]).astype(np.int64)
    points = np.concatenate(kept).astype(np.float32) if kept else np.zeros((0, 3), np.float32)
    return Tracked(points, offsets, seconds, **others)


# --------------------------------------------------------------------------------------------------------- our own
def prepared_for(problem: Problem) -> Any:
    """Tables of this package for a problem."""
    from ..fit.models import BASIS
    from ..methods.given import OrientationFunctions, Signals
    from ..methods.registry import METHODS as REGISTRY
    from ..run.from_arrays import prepare_arrays

    method = problem.method
    options = COMMON | {"max_angle": method.max_angle, "model": method.model} | dict(method.options)
    if REGISTRY[method.dg].follows == "signals":
        follows = Signals(problem.data, problem.gtab)
        options["sh_order"] = method.order
    else:
        follows = OrientationFunctions("sh", problem.csd, BASIS)
    return prepare_arrays(
        method.dg, follows, problem.fa, problem.stop, problem.seeds, sphere=method.sphere, step_mm=problem.step_mm,
        voxel_sizes=tuple(map(float, problem.space.voxel_sizes)), **options,
    )  # fmt: skip


def open_arch(arch: str, problem: Problem) -> Session:
    """Track with this package."""
    from ..engine.engine import Engine
    from ..engine.settings import Settings
    from ..methods.registry import METHODS as REGISTRY

    prepared = prepared_for(problem)
    settings = Settings(
        problem.step_mm, max_steps=problem.method.max_steps, threads=problem.threads, chunk_size=problem.chunk_size
    )
    engine = Engine(prepared, problem.space, choose(arch), settings)
    work = REGISTRY[problem.method.dg].count_step(prepared.fill)

    def track(count: int, keep: bool = True) -> Tracked:
        tally = engine.tally
        tally.copied_bytes = 0
        tally.seconds.update(dict.fromkeys(("start", "grow", "pack", "unpack"), 0.0))
        points, lengths = [np.zeros((0, 3), np.float32)], []
        for batch in engine.track(problem.seeds[:count]):
            lengths.append(batch.lengths)
            if keep:
                points.append(batch.points)
        stages = {name: tally.seconds[name] for name in ("start", "grow", "pack", "unpack")}
        offsets = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
        return Tracked(
            np.concatenate(points), offsets, tally.seconds["track"], stages, tally.seconds["compile"],
            work, None if arch == "cpu" else tally.copied_bytes,
        )  # fmt: skip

    return track


def _no_arch(arch: str) -> str:
    try:
        choose(arch)
    except DeviceError as error:
        return str(error)
    return ""


# ------------------------------------------------------------------------------------------------------------ DIPY
def dipy_getter(problem: Problem) -> Any:
    """DIPY's direction getter for a problem."""
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
    }[method.dg]  # fmt: skip
    return kind.from_shcoeff(problem.csd.astype(float), **common, **method.options)


def local_lines(problem: Problem, getter: Any, random_seed: int, count: int | None = None, **others: Any) -> Any:
    """Iterable over the streamlines of DIPY's LocalTracking from the first so many seeds."""
    from dipy.tracking.local_tracking import LocalTracking

    return LocalTracking(
        getter, _criterion(problem), problem.space.to_ras(problem.seeds[:count]), problem.space.affine,
        problem.step_mm, maxlen=problem.method.max_steps, random_seed=random_seed, **others,
    )  # fmt: skip


def initial_directions(problem: Problem, getter: Any) -> tuple[Array, Array]:
    """Number of each initial direction's seed, and the direction: a DIPY getter's peaks at the seeds."""
    found = [getter.initial_direction(np.ascontiguousarray(seed)) for seed in problem.seeds]
    return np.repeat(np.arange(len(found)), [len(directions) for directions in found]), np.concatenate(found)


def threaded_lines(problem: Problem, number: Array, directions: Array, random_seed: int, **others: Any) -> Any:
    """Iterable over the streamlines of DIPY's threaded trackers, which find no initial directions themselves."""
    from dipy.data import default_sphere
    from dipy.tracking import tracker

    method = problem.method
    run = getattr(tracker, {"prob": "probabilistic", "det": "deterministic", "ptt": "ptt"}[method.dg] + "_tracking")
    return run(
        problem.space.to_ras(problem.seeds)[number], _criterion(problem), problem.space.affine,
        seed_directions=directions, sh=problem.csd.astype(float), sphere=default_sphere, step_size=problem.step_mm,
        voxel_size=problem.space.voxel_sizes, max_angle=method.max_angle, min_len=0,
        max_len=(method.max_steps + 1.5) * problem.step_mm, random_seed=random_seed,
        nbr_threads=problem.threads or 0, **others,
    )  # fmt: skip


def _criterion(problem: Problem) -> Any:
    from dipy.tracking.stopping_criterion import ThresholdStoppingCriterion

    return ThresholdStoppingCriterion(problem.fa.astype(float), problem.stop)


def open_local(problem: Problem) -> Session:
    """Track with DIPY's LocalTracking; each call draws anew."""
    getter, random_seeds = dipy_getter(problem), itertools.count(1)

    def track(count: int, keep: bool = True) -> Tracked:
        begun = time.perf_counter()
        lines = list(local_lines(problem, getter, next(random_seeds), count))
        return joined(lines, time.perf_counter() - begun)

    return track


def open_threaded(problem: Problem) -> Session:
    """Track with DIPY's threaded trackers from its own peaks; each call draws anew."""
    number, directions = initial_directions(problem, dipy_getter(problem))
    random_seeds = itertools.count(1)

    def track(count: int, keep: bool = True) -> Tracked:
        begun, some = time.perf_counter(), number < count
        lines = list(threaded_lines(problem, number[some], directions[some], next(random_seeds)))
        return joined(lines, time.perf_counter() - begun)

    return track


def _always() -> str:
    return ""


ALL, EVERY = tuple(METHODS), tuple(name for name in SWEEPS if name != "threads")
TARGETS = {
    target.name: target
    for target in (
        *(
            Target(arch, f"tistreamlines, {arch}", "arch", ALL, partial(_no_arch, arch), partial(open_arch, arch),
                   (*EVERY, "threads") if arch == "cpu" else EVERY)
            for arch in reversed(ARCHS)
        ),
        Target("dipy", f"DIPY's LocalTracking, {SINGLE}", "peer", ALL, _always, open_local,
               ("seeds", "order", "voxels")),
        Target("dipy-threads", "DIPY's threaded trackers", "peer", ("prob", "det", "ptt"), _always, open_threaded,
               ("seeds", "threads", "order", "voxels")),
        *(
            Target(f"cuslines-{name}", f"cuslines, {name}", "peer", methods, partial(cuslines.missing, name),
                   partial(cuslines.open_tracker, name), ("seeds", "voxels"), warm_up=cuslines.CHUNK)
            for name, methods in cuslines.BACKENDS.items()
        ),
        Target("tckgen", "MRtrix3's tckgen", "peer", ("prob", "det"), mrtrix.missing, mrtrix.open_tckgen,
               ("seeds", "threads", "voxels")),
    )
}  # fmt: skip
