"""Parts that the tables of several methods share."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...kernels.getters import shared
from ...kernels.orientation.peaks import PeakRule
from ...linker.lang import Func, Record, Stage
from ...linker.parts import Part, host
from ...space.sphere import Ball
from ..parts import Getter, Rule
from .options import VertexOptions

WITH_RECOVERY = 30  # bits of a code, one to a word


@dataclass(frozen=True, kw_only=True, eq=False)
class VertexGetter(Getter):
    """A getter whose directions are vertices of a sphere; see ``kernels/getters/shared.py``.

    Parameters
    ----------
    ball : constants of the sphere.
    half_order : half the order of spherical harmonics; 0 without any.
    candidates, most_peaks, negative_peak : see ``kernels/orientation/peaks.py``.
    initial_directions, next_direction, read_all : what it does in place of those of other getters.
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


@dataclass(frozen=True, kw_only=True, eq=False)
class CarriesHeading(Part):
    """What getters have in common that carry a direction from step to step."""

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
