"""Options that every method reads: the sphere, the peaks and the greatest angle."""

from __future__ import annotations

from dataclasses import dataclass

from ..fit.models import GROUP, FitOptions
from ..options.option import option


@dataclass(frozen=True)
class MethodOptions(FitOptions):
    """Options of all methods, a part of :class:`tistreamlines.Parameters`; defaults may depend on the method."""

    sphere: str = option(
        "default", GROUP, "Directions: DIPY's hemisphere of 362, the whole sphere of 724, or the hemisphere of 181.",
        choices=("default", "full", "small"),
    )  # fmt: skip
    relative_peak_threshold: float = option(
        None, GROUP, "Peaks lower than this share of the ODF's range are left out.", unit="share", low=0, high=1,
    )  # fmt: skip
    min_separation_angle: float = option(
        None, GROUP, "A peak closer than this to a higher one is left out.", unit="degrees", low=0, high=90,
    )  # fmt: skip
    max_angle: float = option(
        None, "Growth", "Greatest angle between two steps. With ptt it sets the greatest curvature: a step bends by at "
        "most this angle times the mean voxel side in mm, as in DIPY.", unit="degrees", low=0, high=90, above=True,
    )  # fmt: skip
