"""Probabilistic and deterministic tracking: from orientation functions to the tables of the kernels.

A row holds samples on the sphere, or harmonics that are evaluated in each step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError, ParameterError
from ..fit.models import GROUP
from ..kernels import pmf
from ..kernels.methods import det, prob
from ..kernels.peaks import PeakScratch
from ..kernels.vertex_steps import ALONG_VERTICES
from ..options.option import option
from ..sphere.harmonics import basis_of, order_of, sampling_matrix, to_descoteaux
from ..sphere.polynomials import from_harmonics
from ..sphere.sphere import SPHERES, most_peaks, padded, sphere_tables
from .given import Given, OrientationFunctions, Prepared
from .options import MethodOptions
from .rows import build_volume, touched
from .shared import harmonic_operations, peak_rule, stop_fill

Array = npt.NDArray[Any]
OFTEN_READ = ("method_sphere_vertices", "method_sphere_neighbours")
SCAN = 64  # reals of a team's scan: 32 zeros, then a sum a lane
HOLES = ALONG_VERTICES | {
    "Method": pmf.Pmf, "Scratch": pmf.PmfScratch, "initial_directions": pmf.initial_directions,
}  # fmt: skip


@dataclass(frozen=True)
class PmfOptions(MethodOptions):
    """Options of methods that follow orientation functions, a part of :class:`tistreamlines.Parameters`."""

    pmf_threshold: float = option(
        0.1, GROUP, "Directions whose value is below this share of the greatest value are never taken. In "
        "the probes of ptt it is absolute: values that are not above it count as 0.", unit="share", low=0, high=1,
    )  # fmt: skip
    pmf_rows: str = option(
        None, GROUP, "What is stored for a voxel: harmonics, evaluated on the sphere in each step (sh), or samples on "
        "the sphere, negative ones as 0 (sampled): DIPY's SHCoeffPmfGen or SimplePmfGen. ptt stores samples with "
        "both; sh leaves negative ones as they are.", choices=("sh", "sampled"),
        absent="sh; sampled for a full basis", only={"source": ("model", "sh")},
    )  # fmt: skip
    max_directions: int | None = option(
        None, GROUP, "Begin at most this many streamlines at a seed, toward the highest peaks.", unit="directions",
        low=1, high=1000, absent="one for each peak",
    )  # fmt: skip


@dataclass(frozen=True)
class DetOptions(PmfOptions):
    """Options of deterministic tracking, a part of :class:`tistreamlines.Parameters`."""

    det_rule: str = option(
        "max", GROUP, "Follow the greatest value within the angle (max), or the closest peak (closest).",
        choices=("max", "closest"),
    )  # fmt: skip


@dataclass(frozen=True)
class Rows:
    """How a voxel's row is made: whether it holds samples, its width, and its first numbers from the voxel's values."""

    sampled: bool
    half_order: int
    width: int
    fill: Callable[[Array], Array]


def prepare_prob(given: Given, options: PmfOptions) -> Prepared:
    """Tables of probabilistic tracking; see :func:`prepare_pmf`."""
    return prepare_pmf(given, options, {"next_direction": prob.next_direction, "OPEN_CONE": 0})


def prepare_det(given: Given, options: DetOptions) -> Prepared:
    """Tables of deterministic tracking; see :func:`prepare_pmf`."""
    greatest = int(options.det_rule == "max")
    return prepare_pmf(given, options, {"next_direction": det.next_direction, "OPEN_CONE": 1, "GREATEST": greatest})


def prepare_pmf(given: Given, options: PmfOptions, own: dict[str, Any]) -> Prepared:
    """Tables of a method that draws or chooses a direction of the sphere by the orientation function at a point.

    Parameters
    ----------
    given : follows orientation functions.
    options : of the method.
    own : constants and holes of the method.

    Raises
    ------
    InputError
        Where the values do not fit the sphere, the basis or the stop map.
    ParameterError
        Where an asymmetric function is given on half a sphere.
    """
    assert isinstance(given.follows, OrientationFunctions)
    values = given.follows.values
    vertices, edges = given.vertices_and_edges
    ball, sphere = sphere_tables(vertices, edges)
    rows = rows_of(given, options.pmf_rows == "sampled", ball)
    volume = pmf_volume(given, rows, touched(given.stop.alive, given.seeds, values.shape[:3]))
    method = pmf.Pmf(sphere=sphere, rule=peak_rule(options), threshold=options.pmf_threshold)
    symmetric = given.follows.symmetric
    fill = ball | stop_fill(given.stop, rows.width) | pmf_fill(rows, len(vertices), symmetric) | HOLES | own
    peaks = most_peaks(len(vertices), options.min_separation_angle, symmetric)
    # the row is spent once it is sampled, and the sums are not in use while peaks are sought
    shares = {"scratch_sums": ("scratch_peaks_candidates", 0)}
    if rows.sampled:
        shares["scratch_pmf"] = ("scratch_row", 0)
    most = min(peaks, options.max_directions or peaks)
    team = pmf.PmfScratch(**pmf_team(fill, peaks))
    return Prepared(method, given.stop.record, volume, team, fill, most, shares, OFTEN_READ)


def pmf_fill(rows: Rows, vertices: int, symmetric: bool) -> dict[str, Any]:
    """Constants of the kernels besides those of the sphere and of the row's end."""
    return {
        "SAMPLED": int(rows.sampled), "HALF_ORDER": rows.half_order, "SYMMETRIC": int(symmetric), "NEGATIVE_PEAK": 0,
        # a third of the vertices: no neighbour of a maximum is one, plateaus aside
        "CANDIDATES": max(padded(vertices // 3), SCAN),
    }  # fmt: skip


def pmf_team(fill: dict[str, Any], peaks: int) -> dict[str, Any]:
    """Sizes of team memory, the fields of ``PmfScratch``."""
    return {
        "row": 32 * fill["ROW_CHUNKS"], "pmf": 32 * fill["VERTEX_CHUNKS"], "sums": SCAN,
        "peaks": PeakScratch(candidates=fill["CANDIDATES"], kept=peaks, counter=1),
    }  # fmt: skip


def pmf_volume(given: Given, rows: Rows, keep: npt.NDArray[np.bool_]) -> Any:
    """Index volume and rows of the voxels to keep."""
    assert isinstance(given.follows, OrientationFunctions)

    def fill_rows(some: Array, written: Array) -> None:
        own = rows.fill(some)
        written[:, : own.shape[1]] = own

    return build_volume(given.follows.values, keep, rows.width, fill_rows, given.stop.channels)


def rows_of(given: Given, sampled: bool, ball: dict[str, int], least: float = 0.0) -> Rows:
    """Rows of samples, or, unless they have to be ``sampled``, of coefficients; then the stopping rule's maps.

    Parameters
    ----------
    given : follows orientation functions.
    sampled : harmonics are sampled here; negative samples are raised to ``least`` unless the basis is a full one.
    ball : constants of the sphere.
    least : smallest sample of harmonics.
    """
    function, (vertices, _), stops = given.follows, given.vertices_and_edges, given.stop.count
    assert isinstance(function, OrientationFunctions)
    _check(function, given)
    count, samples = function.values.shape[3], 32 * ball["VERTEX_CHUNKS"]
    if function.kind == "pmf":
        if count != len(vertices):
            raise InputError(f"values have {count} samples a voxel, but the sphere has {len(vertices)} vertices")
        return Rows(True, 0, max(samples, padded(count + stops)), lambda some: some)
    full = basis_of(function.basis).full
    try:
        order = order_of(count, full)
    except ValueError as error:
        raise InputError(f"values: {error}") from error
    if order < 2 - full:
        raise InputError("values: a single coefficient a voxel has no direction")
    if full or sampled:
        # a full basis has odd degrees, which the kernels' polynomials leave out
        matrix = sampling_matrix(vertices, order, function.basis).T
        low = 0.0 if full else least
        return Rows(True, 0, max(samples, padded(len(vertices) + stops)), lambda some: np.maximum(some @ matrix, low))
    change = from_harmonics(order).T
    return Rows(False, order // 2, padded(count + stops), lambda some: to_descoteaux(some, function.basis) @ change)


def _check(function: OrientationFunctions, given: Given) -> None:
    """Refuse values on another grid than the stopping rule's maps, and an asymmetric function on half a sphere."""
    maps = given.stop.channels
    if function.values.ndim != 4 or function.values.shape[:3] != maps.shape[:3]:
        raise InputError(f"values are {function.values.shape}, the stop map {maps.shape[:3]}: give both on one grid")
    if not function.symmetric and isinstance(given.sphere, str) and SPHERES[given.sphere][1]:
        raise ParameterError(f"sphere {given.sphere} is half a sphere: give 'full' for an asymmetric function")


def count_step(fill: dict[str, Any]) -> tuple[int, int]:
    """Bytes read and operations done for a step, the least of them, about one point.

    Eight rows are read and interpolated (16 operations a channel); each vertex takes five operations for its cosine to
    the heading and, if rows hold harmonics, two a coefficient.
    """
    channels, vertices = 32 * fill["ROW_CHUNKS"], 32 * fill["VERTEX_CHUNKS"]
    own = vertices * (5 + (0 if fill["SAMPLED"] else harmonic_operations(fill)))
    return 32 * channels, 16 * channels + own
