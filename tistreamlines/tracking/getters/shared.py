"""Parts that the tables of several methods share."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...fit.models import FitOptions
from ...kernels.getters import shared
from ...kernels.orientation.peaks import PeakRule
from ...linker.lang import Func, Record, Stage
from ...linker.parts import Part, host
from ...option import GROWTH, MODEL, option
from ...space.sphere import Ball
from ..parts import Getter, Rule


# Options that several direction getters have: angle, number of directions, sphere and peaks.
@dataclass(frozen=True, repr=False, eq=False)
class SphereOptions:
    """The option of methods whose directions are vertices of a sphere."""

    sphere: str = option(
        "default", MODEL, "Vertices: DIPY's hemisphere of 362, whole sphere of 724, or hemisphere of 181 directions.",
        choices=("default", "full", "small"),
    )


@dataclass(frozen=True, repr=False, eq=False)
class PeakOptions:
    """Options of which directions of an orientation function are peaks. Defaults depend on the method."""

    relative_peak_threshold: float = option(
        None, MODEL, "Peaks below this share of the range of the ODF are ignored.", unit="share", low=0, high=1,
    )
    min_separation_angle: float = option(
        None, MODEL, "Peaks closer than this to a higher peak are ignored.", unit="degrees", low=0, high=90,
    )


@dataclass(frozen=True, repr=False, eq=False)
class DirectionOptions:
    """The option of methods that find several initial directions at a seed."""

    max_directions: int | None = option(
        None, MODEL, "Greatest number of streamlines from a seed. They follow the highest peaks.", unit="directions",
        low=1, high=1000, absent="one for each peak",
    )


@dataclass(frozen=True, repr=False, eq=False)
class AngleOptions:
    """The option of every method. Its default depends on the method."""

    max_angle: float = option(
        None, GROWTH, "Greatest angle between two steps. With ptt a step turns by at most this angle times the mean "
        "voxel side in mm, as in DIPY. With prob it is 30 where few directions give a "
        "model a lower order than its own.", unit="degrees", low=0, high=90, above=True, common=True,
    )


@dataclass(frozen=True, repr=False, eq=False)
class VertexOptions(AngleOptions, DirectionOptions, PeakOptions, SphereOptions, FitOptions):
    """Options of methods that follow a model or a series, whose directions are vertices of a sphere."""


WITH_RECOVERY = 30  # bits of a code, one to a word


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class VertexGetter(Getter):
    """A getter whose directions are vertices of a sphere; see ``kernels/getters/shared.py``.

    Parameters
    ----------
    ball : constants of the sphere.
    half_order : half the order of spherical harmonics; 0 without any.
    candidates, most_peaks, negative_peak : see ``kernels/orientation/peaks.py``.
    initial_directions, next_direction, read_all : what it does instead of those of other getters.
    """

    ball: Ball
    half_order: int
    candidates: int
    most_peaks: int = host()
    negative_peak: int = 0
    state: type[Record] = shared.Vertex
    begin: Func = shared.begin_by_row
    read: Func = shared.read_row
    read_all: Func = shared.read_whole_row
    set_out: Stage = shared.set_out_along
    initial_directions: Func
    next_direction: Func | None = None
    choose: Func = shared.choose_direction
    move: Stage = shared.move_along


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class CarriesHeading(Part):
    """Common parts of getters that carry a direction from step to step."""

    scratch: type[Record] = shared.HeadingScratch
    state: type[Record] = shared.Heading
    load_state: Stage = shared.load_heading
    store_state: Stage = shared.store_heading
    carried: int = 3


def peak_rule(options: VertexOptions) -> PeakRule:
    """Return the kernels' record of the peak thresholds, with cosines of the angles."""
    return PeakRule(
        relative_threshold=options.relative_peak_threshold,
        cos_separation=math.cos(math.radians(options.min_separation_angle)),
        cos_angle=math.cos(math.radians(options.max_angle)),
    )


def most_directions(peaks: int, options: VertexOptions) -> int:
    """Return the greatest number of initial directions of a seed that can have so many peaks."""
    return min(peaks, options.max_directions or peaks)


def try_bits(rule: Rule, bits: int) -> int:
    """Return the bits of a step's code: the number of a try, of so many bits, and what a recovery drew it with."""
    return WITH_RECOVERY if rule.recovery.for_recovery else bits


def harmonic_operations(half_order: int) -> int:
    """Return the operations that evaluate an ODF in one direction: two per coefficient, including padding."""
    return 2 * (half_order + 1) * (2 * half_order + 1)
