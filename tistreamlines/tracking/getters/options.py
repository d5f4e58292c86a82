"""Options that several direction getters have: angle, number of directions, sphere and peaks."""

from __future__ import annotations

from dataclasses import dataclass

from ...fit.models import FitOptions
from ...option import GROWTH, MODEL, option


@dataclass(frozen=True)
class SphereOptions:
    """The option of methods whose directions are vertices of a sphere."""

    sphere: str = option(
        "default", MODEL, "Vertices: DIPY's hemisphere of 362, whole sphere of 724, or hemisphere of 181 directions.",
        choices=("default", "full", "small"),
    )


@dataclass(frozen=True)
class PeakOptions:
    """Options of which directions of an orientation function are peaks. Defaults depend on the method."""

    relative_peak_threshold: float = option(
        None, MODEL, "Peaks below this share of the range of the ODF are ignored.", unit="share", low=0, high=1,
    )
    min_separation_angle: float = option(
        None, MODEL, "Peaks closer than this to a higher peak are ignored.", unit="degrees", low=0, high=90,
    )


@dataclass(frozen=True)
class DirectionOptions:
    """The option of methods that find several initial directions at a seed."""

    max_directions: int | None = option(
        None, MODEL, "Greatest number of streamlines from a seed. They follow the highest peaks.", unit="directions",
        low=1, high=1000, absent="one for each peak",
    )


@dataclass(frozen=True)
class AngleOptions:
    """The option of every method. Its default depends on the method."""

    max_angle: float = option(
        None, GROWTH, "Greatest angle between two steps. With ptt a step turns by at most this angle times the mean "
        "voxel side in mm, as in DIPY. With prob it is 30 where few directions give a "
        "model a lower order than its own.", unit="degrees", low=0, high=90, above=True, common=True,
    )


@dataclass(frozen=True)
class VertexOptions(AngleOptions, DirectionOptions, PeakOptions, SphereOptions, FitOptions):
    """Options of methods that follow a model or a series, whose directions are vertices of a sphere."""
