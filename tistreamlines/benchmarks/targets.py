"""The table of targets: the archs of tistreamlines and its peers, with a common interface, also for parity tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ..devices import ARCHS, NUMBERED, Device, choose, choose_several
from ..errors import DeviceError
from . import dipy
from .cases import COMMON, METHODS, STOP
from .problem import Problem
from .tracked import Track, Tracked

if TYPE_CHECKING:
    from ..tracking.tables.given import Prepared


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


def prepared_for(problem: Problem) -> Prepared:
    """Tables of this package for a problem."""
    from ..fit.models import BASIS
    from ..run.from_arrays import prepare_arrays
    from ..tracking.registry import METHODS as REGISTRY
    from ..tracking.tables.given import OrientationFunctions, Signals

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

    prepared = prepared_for(problem)
    settings = Settings(
        problem.step_mm, max_steps=problem.method.max_steps, threads=problem.threads, chunk_size=problem.chunk_size
    )
    devices = devices_of(arch, problem)
    several = len(devices) > 1
    engine = Session(devices).open(prepared, problem.space, settings)
    # the stages and the copied bytes of several devices are not known here, and the measured limits are those of one
    work = None if several else prepared.getter.count_step()
    parts = () if several else ("start", "grow", "pack", "unpack")

    def track(count: int, keep: bool = True) -> Tracked:
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
        return Tracked(
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


ALL = tuple(METHODS)
SYMMETRIC = tuple(name for name, method in METHODS.items() if method.model != "asymmetric")
TARGETS = {
    target.name: target
    for target in (
        *(
            Target(arch, f"tistreamlines, {arch}", "arch", ALL, partial(_no_arch, arch), partial(open_arch, arch))
            for arch in reversed(ARCHS)
        ),
        Target("dipy", "DIPY's LocalTracking, single-threaded", "peer", SYMMETRIC, str, dipy.open_local),
        Target("dipy-threads", "DIPY's threaded trackers", "peer", ("prob", "det", "ptt"), str, dipy.open_threaded),
    )
}
