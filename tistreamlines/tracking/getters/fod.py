"""iFOD1 and iFOD2: makes the tables of the kernels from orientation functions, as MRtrix3's tckgen follows them.

SD_STREAM shares the cutoff, the order and the tables of the FODs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...aliases import Array
from ...errors import InputError, ParameterError
from ...fit.models import FitOptions
from ...kernels.getters import fod, ifod2
from ...kernels.getters.shared import read_row, read_stop
from ...linker.lang import Func, Record, Stage
from ...linker.parts import host
from ...option import MODEL, option
from ...space.batch import mean_side
from ...space.cones import cone_grid
from ...space.harmonics import basis_of, from_harmonics, order_of, to_descoteaux
from ...space.sphere import round_up
from ..parts import Getter, Row, Rule
from ..recovery.recoveries import ParticleFiltering
from ..tables.inputs import Scheme
from ..tables.rows import Rows, front
from .shared import AngleOptions, CarriesHeading, harmonic_operations, try_bits

CUTOFF, ACT_FACTOR = 0.1, 0.5  # FOD amplitude, and what is left of it where the anatomy ends streamlines
FARTHEST = 15  # voxels from a point to the end of an arc
ARC_OPERATIONS = 120  # operations for a point of an arc, its weights and its logarithm


@dataclass(frozen=True, repr=False, eq=False)
class CutoffOptions(AngleOptions):
    """The option of each method that ends where what it follows is too low, as tckgen's do."""

    cutoff: float | None = option(
        None, MODEL, "FOD amplitude, or length of a peak, below which a direction is not taken.", unit="amplitude",
        low=0, above=True,
        absent="0.1; 0.05 with --act",
    )

    def least(self, rule: Rule) -> float:
        """Return the amplitude below which no direction is taken; it is half where five tissues end streamlines.

        Parameters
        ----------
        rule : Rule
            The stopping rule.

        Returns
        -------
        float
            Amplitude, in the unit of the FODs.
        """
        return self.cutoff or CUTOFF * (ACT_FACTOR if rule.shuns_fluid else 1.0)


@dataclass(frozen=True, repr=False, eq=False)
class FodOptions(CutoffOptions, FitOptions):
    """Options of each method that follows FODs as tckgen does, with its defaults."""


@dataclass(frozen=True, repr=False, eq=False)
class Ifod1Options(FodOptions):
    """Options of iFOD1, a part of :class:`tistreamlines.Parameters`, with tckgen's defaults."""

    power: float | None = option(
        None, MODEL, "The probability of a step is that of the FOD to this power.", unit="power", low=0, high=100,
        above=True, absent="1 for ifod1, 1 / samples for ifod2",
    )
    trials: int = option(
        1000, MODEL, "Random directions that are tried for a step; a streamline ends if none is accepted.",
        unit="directions", low=1, high=1000,
    )


@dataclass(frozen=True, repr=False, eq=False)
class Ifod2Options(Ifod1Options):
    """Options of iFOD2, a part of :class:`tistreamlines.Parameters`, with tckgen's defaults."""

    samples: int = option(
        4, MODEL, "FOD amplitudes that make the probability of an arc, those at both of its ends among them. An "
        "arc has one point fewer; the last one is written, see --downsample.", unit="samples", low=2, high=30,
        foreign={"": "FSL's --samples is --bedpostx FOLDER"},
    )


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class FodGetter(Getter):
    """A getter that follows FODs as tckgen does, from a given initial direction or one that it seeks anywhere."""

    half_order: int
    begin: Func = fod.begin_anywhere
    along: Func = fod.amplitude_along
    aimed: bool = host(default=True)
    laid_out_abreast: bool = host(default=True)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Ifod1Getter(CarriesHeading, FodGetter):
    """iFOD1; see the constants of ``kernels/getters/fod.py``."""

    read: Func = read_row
    set_out: Stage = fod.set_out_on_course
    choose: Func = fod.choose_course
    move: Stage = fod.move_on_course
    at_once: int
    grid: int
    grid_chunks: int
    powered: int
    often_read: tuple[str, ...] = host(default=("method_grid",))

    def count_step(self) -> tuple[int, int]:
        """Return a lower bound of the bytes read and the operations done for a step.

        Lanes that the grid leaves free try the first directions or arcs. iFOD1 interpolates one row; iFOD2 evaluates
        the FODs of eight voxels in each lane.
        """
        tried, channels = 32 * self.grid_chunks, 32 * self.row.row_chunks
        harmonic = harmonic_operations(self.half_order)
        if self.arc == 1:
            return 32 * channels, 16 * channels + tried * harmonic
        return 32 * channels, tried * (8 * harmonic + ARC_OPERATIONS)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Ifod2Getter(Ifod1Getter):
    """iFOD2."""

    scratch: type[Record] = ifod2.ArcScratch
    state: type[Record] = ifod2.Arc
    read: Func = read_stop
    set_out: Stage = ifod2.set_out_on_arc
    load_state: Stage = ifod2.load_arc
    store_state: Stage = ifod2.store_arc
    choose: Stage = ifod2.choose_arc
    move: Stage = ifod2.move_along_arc
    move_as_chosen: Stage = ifod2.move_to_part_end
    carried: int = 13


def describe_first(scheme: Scheme, options: Ifod1Options) -> tuple[Ifod1Getter, Rows]:
    """Return the getter of iFOD1 and its rows; see :func:`_describe`."""
    order = order_of_fods(scheme)
    amplitude = _lobe(order)
    power = options.power or 1.0
    cone = cone_grid(math.radians(options.max_angle), lambda angle: max(amplitude(angle), 0.0) ** power)
    return _describe(scheme, options, order, cone, power, Ifod1Getter, 1)


def describe_second(scheme: Scheme, options: Ifod2Options) -> tuple[Ifod1Getter, Rows]:
    """Return the getter of iFOD2 and its rows; see :func:`_describe`."""
    order, parts = order_of_fods(scheme), options.samples - 1
    power = options.power or 1 / options.samples
    if parts * scheme.step_mm > FARTHEST * min(scheme.voxel_sizes):
        raise ParameterError(f"--step-size is more than {FARTHEST} voxels: give a shorter one")
    probability = _arc_probability(_lobe(order), parts, parts * scheme.step_mm / mean_side(scheme.voxel_sizes), power)
    cone = cone_grid(math.radians(options.max_angle), probability)
    return _describe(scheme, options, order, cone, power, Ifod2Getter, parts)


def order_of_fods(scheme: Scheme) -> int:
    """Return the order of the coefficients.

    Parameters
    ----------
    scheme : Scheme
        The headers of the inputs, which are coefficients of orientation functions.

    Raises
    ------
    InputError
        If the coefficients fit no order, or have a full basis or no direction.
    """
    function = scheme.form
    if basis_of(function.basis).full:
        raise InputError("values have a full basis, and FODs of tckgen's algorithms a symmetric one: prob follows them")
    try:
        order = order_of(function.count)
    except ValueError as error:
        raise InputError(f"values: {error}") from error
    if order < 2:
        raise InputError("values: a single coefficient per voxel has no direction")
    return order


def _lobe(order: int) -> Callable[[float], float]:
    """Return the amplitude of a fibre's FOD at an angle from its direction: a delta function of this order."""
    def amplitude(angle: float) -> float:
        x = math.cos(angle)
        total, before, legendre = 1.0, 1.0, x
        for degree in range(2, order + 1):
            before, legendre = legendre, ((2 * degree - 1) * x * legendre - (degree - 1) * before) / degree
            total += (2 * degree + 1) * legendre * (degree % 2 == 0)
        return total

    return amplitude


def _arc_probability(
    amplitude: Callable[[float], float], parts: int, step: float, power: float
) -> Callable[[float], float]:
    """Return the probability of an arc by its angle; a fibre's FOD fades with the distance from it, in voxels."""
    def probability(angle: float) -> float:
        total = 0.5 * math.log(amplitude(0.0))
        for part in range(1, parts + 1):
            turned = angle * part / parts
            aside = step / angle * (1 - math.cos(turned)) if angle else 0.0
            value = amplitude(turned) * (1 - aside)
            if value <= 0:
                return 0.0
            total += (0.5 if part == parts else 1.0) * math.log(value)
        return math.exp(power * total)

    return probability


def _describe(
    scheme: Scheme, options: Ifod1Options, order: int, cone: tuple[Array, float], power: float,
    kind: type[Ifod1Getter], arc: int,
) -> tuple[Ifod1Getter, Rows]:
    """Return a getter that draws directions from a cone, and its rows.

    Parameters
    ----------
    scheme : Scheme
        The headers of the inputs, which are coefficients of orientation functions.
    options : Ifod1Options
        Options of the method.
    order : int
        Order of the coefficients.
    cone : tuple
        The result of :func:`tistreamlines.space.cones.cone_grid`.
    power : float
        Power of a step's probability.
    kind : type
        The getter.
    arc : int
        Parts of a step.

    Returns
    -------
    getter, rows : Ifod1Getter, Rows
        See :func:`fod_rows`.
    """
    grid, ratio = cone
    at_once = 32 // arc
    chunks = -(-len(grid) // at_once)
    lanes_of = np.minimum(np.arange(32) // arc, at_once - 1)
    place = np.arange(chunks)[:, None] * at_once + lanes_of
    angles = grid[np.where(place < len(grid), place, 0)]
    columns = np.stack([np.sin(angles[..., 0] / 2), np.cos(angles[..., 1]), np.sin(angles[..., 1])], axis=1)
    least = options.least(scheme.rule)
    method = fod.Fod(
        threshold=least, sine=math.sin(math.radians(options.max_angle) / 2), tries=options.trials, ratio=ratio,
        power=power, grid=columns.ravel(),
    )
    row, rows = fod_rows(scheme, order)
    getter = kind(
        method=method, row=row, half_order=order // 2, sharpness=1.0 / least, arc=arc, at_once=at_once, grid=len(grid),
        grid_chunks=chunks, powered=int(power != 1), code_bits=try_bits(scheme.rule, fod.NUMBER_BITS),
    )
    return getter, rows


def fod_rows(scheme: Scheme, order: int) -> tuple[Row, Rows]:
    """Return the layout of a row of an FOD, and how rows are made.

    Parameters
    ----------
    scheme : Scheme
        The headers of the inputs, which are coefficients of orientation functions.
    order : int
        Order of the coefficients.

    Returns
    -------
    row, rows : Row, Rows
        The layout of a row, and how rows are made.

    Raises
    ------
    ParameterError
        If options say particle filtering.
    """
    if isinstance(scheme.rule.recovery, ParticleFiltering):
        raise ParameterError("ifod1, ifod2 and sd_stream have no particles: leave --pft out, or give another --dg")
    function, change = scheme.form, from_harmonics(order).T
    # a voxel without a row has no FOD, which ends streamlines, so each that has one needs its row
    row = Row.of(round_up(function.count + scheme.maps), scheme.maps)
    return row, Rows(front(lambda values: to_descoteaux(values, function.basis) @ change), all_values=True)
