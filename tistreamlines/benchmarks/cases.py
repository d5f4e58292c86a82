"""The images and the tracking methods of the benchmark, as data."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..aliases import Json

STOP = 0.1  # FA
SEED_FA = 0.25
COMMON = {"relative_peak_threshold": 0.25, "min_separation_angle": 45.0}


@dataclass(frozen=True)
class Case:
    """An image to track: a phantom, or a series of files.

    Parameters
    ----------
    name : str
        Name on the command line.
    title : str
        Description.
    phantom : dict, optional
        Arguments of :func:`tistreamlines.phantom.phantom.make_phantom` if the image is a phantom.
    paths : tuple of str
        dwi, bvals and bvecs of a series.
    mask : str, optional
        Brain mask of a series; by default DIPY's median_otsu.
    """

    name: str
    title: str = ""
    phantom: Json | None = None
    paths: tuple[str, ...] = ()
    mask: str | None = None


CASES = {
    case.name: case
    for case in (
        Case("demo", "small phantom, 30 x 36 x 28 voxels of 5 mm, 48 directions",
             {"shape": (30, 36, 28), "voxel_mm": 5.0, "n_b0": 2, "n_dirs": 48}),
        Case("phantom", "phantom of Stanford's shape, 81 x 106 x 76 voxels of 2 mm, 150 directions",
             {"shape": (81, 106, 76), "voxel_mm": 2.0, "n_b0": 10, "n_dirs": 150, "bval": 2000.0}),
    )
}


@dataclass(frozen=True)
class TimedMethod:
    """A tracking method, identical for all targets.

    Parameters
    ----------
    dg, model : str
        Direction getter, and the model that is fitted; 'asymmetric' is CSD with a made-up asymmetry.
    max_angle : float, degrees
        Maximum angle between steps.
    max_steps : int
        Maximum number of steps of a half-streamline.
    order : int
        Order of the fitted harmonics; CSD uses a lower one if there are too few directions.
    sphere : str
        One of :data:`tistreamlines.space.sphere.SPHERES`.
    options : dict
        Other options of the getter.
    """

    dg: str
    model: str
    max_angle: float
    max_steps: int = 500
    order: int = 8
    sphere: str = "default"
    options: Json = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name on the command line: boot, boot-csa, prob, ..."""
        return self.dg if self.model in ("opdt", "csd") else f"{self.dg}-{self.model}"

    @property
    def needs_csd(self) -> bool:
        """Whether CSD is fitted."""
        return self.model in ("csd", "asymmetric")


FIT = {"sm_lambda": 0.006, "min_signal": 1.0}
PROBE = {"pmf_threshold": 0.1, "probe_length": 1.5, "probe_quality": 7}
METHODS = {
    method.name: method
    for method in (
        TimedMethod("boot", "opdt", 60.0, order=4, options=FIT),
        TimedMethod("boot", "csa", 60.0, order=4, options=FIT),
        # DIPY's threaded trackers discard streamlines with more points in total
        TimedMethod("prob", "csd", 20.0, max_steps=1000),
        # pyAFQ's default: the PMF has other values in opposite directions
        TimedMethod("prob", "asymmetric", 30.0, max_steps=1000, sphere="full"),
        TimedMethod("det", "csd", 60.0, max_steps=1000),
        TimedMethod("ptt", "csd", 10.0, options=PROBE),
    )
}
