"""Options of every method: the sphere, the peaks and the greatest angle."""

from __future__ import annotations

from dataclasses import dataclass

from ...fit.models import FitOptions
from ...option import GROWTH, MODEL, option


@dataclass(frozen=True)
class MethodOptions(FitOptions):
    """Options of every method, a part of :class:`tistreamlines.Parameters`. Defaults may depend on the method."""

    sphere: str = option(
        "default", MODEL, "Vertices: DIPY's hemisphere of 362, whole sphere of 724, or hemisphere of 181 directions.",
        choices=("default", "full", "small"),
    )  # fmt: skip
    relative_peak_threshold: float = option(
        None, MODEL, "Peaks below this share of the range of the ODF are ignored.", unit="share", low=0, high=1,
    )  # fmt: skip
    min_separation_angle: float = option(
        None, MODEL, "Peaks closer than this to a higher peak are ignored.", unit="degrees", low=0, high=90,
    )  # fmt: skip
    max_directions: int | None = option(
        None, MODEL, "Greatest number of streamlines from a seed. They follow the highest peaks.", unit="directions",
        low=1, high=1000, absent="one for each peak",
    )  # fmt: skip
    max_angle: float = option(
        None, GROWTH, "Greatest angle between two steps. With ptt it sets the greatest curvature: a step turns by at "
        "most this angle times the mean voxel side in mm, as in DIPY. With prob it is 30 where few directions give a "
        "model a lower order than its own.", unit="degrees", low=0, high=90, above=True, common=True,
    )  # fmt: skip
