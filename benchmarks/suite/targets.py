"""The table of targets of the suite: those of the benchmark, cuslines and MRtrix3."""

from __future__ import annotations

from functools import partial

from tistreamlines.benchmarks.targets import TARGETS as BUILT_IN
from tistreamlines.benchmarks.targets import Target
from tistreamlines.devices import ON_HOST

from . import cuslines, mrtrix
from .schedule import SWEEPS

TARGETS = BUILT_IN | {
    target.name: target
    for target in (
        *(
            Target(f"cuslines-{name}", f"cuslines, {name}", "peer", methods, partial(cuslines.missing, name),
                   partial(cuslines.open_tracker, name))
            for name, methods in cuslines.BACKENDS.items()
        ),
        *(
            Target(name, f"MRtrix3's {name}", "peer", tuple(algorithms), mrtrix.missing,
                   partial(mrtrix.open_tckgen, name))
            for name, algorithms in mrtrix.ALGORITHMS.items()
        ),
    )
}


def sweeps_of(target: Target) -> set[str]:
    """Return the names of the sweeps that a target supports."""
    if target.kind == "arch":
        return set(SWEEPS) - (set() if target.name in ON_HOST else {"threads"})
    varied = {"dipy": {"order"}, "dipy-threads": {"threads", "order"}}
    threads = {"threads"} if target.name in mrtrix.ALGORITHMS else set()
    return {"seeds", "voxels"} | varied.get(target.name, threads)
