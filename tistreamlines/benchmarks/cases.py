"""What is benchmarked, as data: images and ways of tracking."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

STOP = 0.1  # FA
SEED_FA = 0.25
COMMON = {"relative_peak_threshold": 0.25, "min_separation_angle": 45.0}


@dataclass(frozen=True)
class Case:
    """An image to track.

    Parameters
    ----------
    name : as on the command line.
    title : what it is.
    phantom : arguments of :func:`tistreamlines.phantom.phantom.make_phantom`, if it is one.
    fetched : True for DIPY's Stanford HARDI, which is downloaded.
    """

    name: str
    title: str
    phantom: Mapping[str, Any] | None = None
    fetched: bool = False

    def scaled(self, factor: float) -> Case:
        """The same phantom with so many times the voxels along each axis."""
        made = dict(self.phantom or {})
        made["shape"] = tuple(round(factor * side) for side in made["shape"])
        made["voxel_mm"] /= factor
        return replace(self, phantom=made)


CASES = {
    case.name: case
    for case in (
        Case("demo", "small phantom, 30 x 36 x 28 voxels of 5 mm, 48 directions",
             {"shape": (30, 36, 28), "voxel_mm": 5.0, "n_b0": 2, "n_dirs": 48}),
        Case("phantom", "phantom of Stanford's shape, 81 x 106 x 76 voxels of 2 mm, 150 directions",
             {"shape": (81, 106, 76), "voxel_mm": 2.0, "n_b0": 10, "n_dirs": 150, "bval": 2000.0}),
        Case("stanford", "DIPY's Stanford HARDI, 81 x 106 x 76 voxels of 2 mm, 150 directions", fetched=True),
    )
}  # fmt: skip


@dataclass(frozen=True)
class Method:
    """A way of tracking, alike for all targets.

    Parameters
    ----------
    dg, model : direction getter, and what is fitted.
    max_angle : degrees a step.
    max_steps : of a half-streamline.
    order : of the harmonics that are fitted; of CSD at most what the directions can tell.
    sphere : one of :data:`tistreamlines.sphere.sphere.SPHERES`.
    options : others of the getter.
    """

    dg: str
    model: str
    max_angle: float
    max_steps: int = 500
    order: int = 8
    sphere: str = "default"
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """As on the command line: boot, boot-csa, prob, ..."""
        return self.dg if self.model in ("opdt", "csd") else f"{self.dg}-{self.model}"


FIT = {"sm_lambda": 0.006, "min_signal": 1.0}
PROBE = {"pmf_threshold": 0.1, "probe_length": 1.5, "probe_quality": 7}
METHODS = {
    method.name: method
    for method in (
        Method("boot", "opdt", 60.0, order=4, options=FIT),
        Method("boot", "csa", 60.0, order=4, options=FIT),
        # DIPY's threaded trackers drop what has more points in all
        Method("prob", "csd", 20.0, max_steps=1000),
        Method("det", "csd", 60.0, max_steps=1000),
        Method("ptt", "csd", 10.0, options=PROBE),
    )
}


@dataclass(frozen=True)
class Sweep:
    """One thing that is varied while all else stays; each value that a target knows is a run.

    Parameters
    ----------
    name, unit : as on the command line, and what the values are, or are told as.
    values : in rising order.
    """

    name: str
    unit: str
    values: tuple[Any, ...]


SWEEPS = {
    sweep.name: sweep
    for sweep in (
        Sweep("seeds", "seeds", (1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000)),
        Sweep("chunk", "seeds in a chunk", (64, 256, 1024, 4096, 16_384, 65_536)),
        Sweep("threads", "threads", (1, 2, 4, 8, 16, 32, 64)),
        Sweep("sphere", "vertices", ("small", "default", "full")),
        Sweep("order", "order of harmonics", (2, 4, 6, 8)),
        Sweep("voxels", "voxels of the image", (0.5, 0.7, 1.0, 1.4)),  # of phantoms: as many more along each axis
    )
}
