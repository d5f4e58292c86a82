"""The keywords of DIPY's functions, with their types and defaults, and those that this package has beside them."""

from __future__ import annotations

from functools import partial
from typing import Final, Literal, TypeAlias, TypedDict

from dipy.core.sphere import Sphere
from dipy.direction.peaks import PeaksAndMetrics
from dipy.reconst.shm import CsaOdfModel, OpdtModel

from ..aliases import Array
from ..errors import listed
from ..option import ImageLike, OneOrMore
from ..options.definitions import defaults
from ..options.objects import Region
from ..options.signatures import with_keywords

AnyRegion: TypeAlias = "ImageLike | Region"
RegionLike = OneOrMore[AnyRegion]
Model = OpdtModel | CsaOdfModel


class More(TypedDict, total=False):
    """Options of :class:`tistreamlines.Parameters`. Arrays of regions are on the grid of the data."""

    arch: Literal["auto", "metal", "cuda", "amdgpu", "vulkan", "cpu"]
    devices: str | None
    include: RegionLike | None
    include_ordered: RegionLike | None
    exclude: RegionLike | None
    limit_mask: RegionLike | None
    ends_in: RegionLike | None
    stop_when_included: bool


class Shared(More, total=False):
    """Keywords of all functions and of ``LocalTracking``."""

    nbr_threads: int
    random_seed: int | None
    return_all: bool
    save_seeds: bool


class Tracking(Shared, total=False):
    """Keywords of all functions."""

    seed_directions: Array | None
    sh: Array | None
    sf: Array | None
    min_len: float
    max_len: float
    step_size: float
    voxel_size: Array | None
    max_angle: float
    pmf_threshold: float
    sphere: Sphere | None
    basis_type: str | None
    legacy: bool
    seed_buffer_fraction: float


class OfPeaks(Tracking, total=False):
    """Keywords of functions that may follow peaks."""

    pam: PeaksAndMetrics | None


class Probes(TypedDict, total=False):
    """The probes of parallel transport tractography."""

    probe_length: float
    probe_radius: float
    probe_quality: int
    probe_count: int
    data_support_exponent: float


class PttTracking(OfPeaks, Probes, total=False):
    """Keywords of ``ptt_tracking``."""


class GetterOptions(Probes, total=False):
    """Keywords of direction getters."""

    relative_peak_threshold: float
    min_separation_angle: float


class Bootstrap(Tracking, total=False):
    """Keywords of ``bootstrap_tracking``."""

    data: Array | None
    model: Model | None


class Eudx(OfPeaks, total=False):
    """Keywords of ``eudx_tracking``."""

    max_cross: int | None


class Sides(TypedDict, total=False):
    """On which sides of a seed a streamline grows."""

    unidirectional: bool
    randomize_forward_direction: bool


class Pft(Eudx, Sides, total=False):
    """Keywords of ``pft_tracking``."""

    pft_back_tracking_dist: float
    pft_front_tracking_dist: float
    pft_max_trial: int
    particle_count: int
    min_wm_pve_before_stopping: float


class Local(Shared, Sides, total=False):
    """Keywords of ``LocalTracking``."""

    max_cross: int | None
    maxlen: int
    minlen: int
    fixedstep: bool
    initial_directions: Array | None


REGIONS: Final = ("include", "include_ordered", "exclude", "limit_mask", "ends_in")
MORE_NAMES: Final = ("arch", "devices", *REGIONS, "stop_when_included")
MORE = {name: defaults()[name] for name in MORE_NAMES}
# DIPY's defaults, in the order of its signatures
STEPS = {
    "min_len": 2, "max_len": 500, "step_size": 0.5, "voxel_size": None, "max_angle": 60, "pmf_threshold": 0.1,
}
FINE = {"step_size": 0.2, "max_angle": 20}
PROBE_NAMES: Final = ("probe_length", "probe_radius", "probe_quality", "probe_count", "data_support_exponent")
PROBES = dict(zip(PROBE_NAMES, (1.5, 0, 7, 1, 1), strict=True))
RUNNING = {
    "sphere": None, "basis_type": None, "legacy": True, "nbr_threads": 0, "random_seed": 0, "seed_buffer_fraction": 1.0,
    "return_all": True,
}
SAVED = {"save_seeds": False}
PARTICLES = {"pft_back_tracking_dist": 2, "pft_front_tracking_dist": 1, "pft_max_trial": 20, "particle_count": 15}
SIDES = {"unidirectional": False, "randomize_forward_direction": False}
OF_PEAKS, OF_FUNCTIONS, OF_SERIES, CROSSING = (
    dict.fromkeys(("seed_directions", *names.split()))
    for names in ("sh pam sf", "sh sf", "data model sh sf", "sh sf pam max_cross")
)

with_dipys = partial(with_keywords, advice=f"; besides DIPY's, there are {listed(MORE)}")
like_tracker = with_dipys(OfPeaks, OF_PEAKS | STEPS | RUNNING | SAVED | FINE | MORE)
like_ptt = with_dipys(PttTracking, OF_PEAKS | STEPS | PROBES | RUNNING | SAVED | {"max_angle": 10} | MORE)
like_closestpeak = with_dipys(Tracking, OF_FUNCTIONS | STEPS | RUNNING | SAVED | MORE)
like_bootstrap = with_dipys(Bootstrap, OF_SERIES | STEPS | RUNNING | SAVED | MORE)
like_eudx = with_dipys(Eudx, CROSSING | STEPS | RUNNING | SAVED | {"pmf_threshold": 0.0239} | MORE)
like_pft = with_dipys(
    Pft, CROSSING | STEPS | RUNNING | PARTICLES | SAVED | {"min_wm_pve_before_stopping": 0} | SIDES | FINE | MORE
)
like_local = with_dipys(Local, {
    "max_cross": None, "maxlen": 500, "minlen": 2, "fixedstep": True, "return_all": True, "random_seed": None,
    "save_seeds": False, **SIDES, "initial_directions": None, "nbr_threads": 0, **MORE,
})
