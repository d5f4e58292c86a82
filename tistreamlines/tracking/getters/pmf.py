"""Probabilistic and deterministic tracking: makes the tables of the kernels from orientation functions.

A row holds samples on the sphere, or spherical harmonic coefficients, which are evaluated at each step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InputError, ParameterError
from ...io.orientations import peaks_to_pmf
from ...kernels.getters.vertex_steps import ALONG_VERTICES, prefetch_along
from ...kernels.interpolate import Volume
from ...kernels.orientation import pmf
from ...kernels.orientation.harmonics import amplitudes_of_harmonics
from ...kernels.orientation.peaks import PeakScratch
from ...kernels.orientation.samples import amplitudes_of_samples
from ...option import MODEL, option
from ...space.harmonics import basis_of, order_of, sampling_matrix, to_descoteaux
from ...space.polynomials import from_harmonics
from ...space.sphere import SPHERES, most_peaks, padded, sphere_tables
from ..tables.given import Given, OrientationFunctions, Prepared
from ..tables.rows import build_volume, kept
from .options import VertexOptions
from .shared import harmonic_operations, most_directions, peak_rule, stop_fill

Array = npt.NDArray[Any]
OFTEN_READ = ("method_sphere_vertices", "method_sphere_around", "method_sphere_neighbours")
HOLES: dict[str, Any] = ALONG_VERTICES | {"initial_directions": pmf.initial_directions}


@dataclass(frozen=True)
class PmfOptions(VertexOptions):
    """Options of methods that follow orientation functions, a part of :class:`tistreamlines.Parameters`."""

    pmf_threshold: float = option(
        None, MODEL, "Directions with a value below this share of the greatest value are never taken. In the "
        "probes of ptt the threshold is absolute: values at or below it count as 0.", unit="share", low=0, high=1,
    )  # fmt: skip
    pmf_rows: str = option(
        None, MODEL, "What is stored for a voxel: coefficients, evaluated on the sphere at each step, as in DIPY's "
        "SHCoeffPmfGen (sh), or samples on the sphere, with 0 for negative ones, as in SimplePmfGen (sampled). ptt "
        "always stores samples; with sh they keep negative values.", choices=("sh", "sampled"),
        absent="sh; sampled for a full basis", only={"source": ("model", "sh")},
    )  # fmt: skip


@dataclass(frozen=True)
class DetOptions(PmfOptions):
    """Options of deterministic tracking, a part of :class:`tistreamlines.Parameters`."""

    det_rule: str = option(
        "max", MODEL, "Follow the greatest value within the greatest angle (max), or the closest peak (closest).",
        choices=("max", "closest"),
    )  # fmt: skip


@dataclass(frozen=True)
class Rows:
    """The layout of a row.

    Parameters
    ----------
    half_order : int
        Half of the order of the coefficients, 0 if a row holds samples on the sphere.
    count : int
        Number of float32 at the begin of a row.
    fill : callable
        Returns these from values (m, n) of m voxels.
    """

    half_order: int
    count: int
    fill: Callable[[Array], Array]

    def width(self, stops: int) -> int:
        """Return the length of a row that ends with so many maps of the stopping rule, a multiple of 32."""
        return padded(self.count + stops)


def prepare_pmf(
    given: Given, options: PmfOptions, own: dict[str, Any], least: float | None = None,
    reach: npt.ArrayLike = (0, 0, 0), stretch: float = 1.0, rows: Rows | None = None,
) -> Prepared:  # fmt: skip
    """Make the tables of a method that takes a vertex of the sphere from the orientation function at a point.

    Parameters
    ----------
    given : Given
        Inputs, with orientation functions.
    options : PmfOptions
        Options of the method.
    own : dict
        Constants and holes of the method.
    least : float, optional
        If given, coefficients are sampled on the sphere here, and lower samples raised to this.
    reach, stretch : array_like of int, (3,), and float
        See :func:`tistreamlines.tracking.tables.rows.kept`.
    rows : Rows, optional
        The layout of the rows; by default, that of :func:`rows_of`.

    Returns
    -------
    Prepared
        The tables.

    Raises
    ------
    InputError
        If the values do not fit the sphere, the basis or the stop map.
    ParameterError
        If an asymmetric function is given on half a sphere.
    """
    function, (vertices, edges) = given.follows, given.vertices_and_edges
    assert isinstance(function, OrientationFunctions)
    ball, sphere = sphere_tables(vertices, edges)
    rows = rows or rows_of(given, least is not None or options.pmf_rows == "sampled", least or 0.0)
    method = pmf.Pmf(sphere=sphere, rule=peak_rule(options), threshold=options.pmf_threshold)
    fill = ball | stop_fill(given.stop, rows.width(given.stop.count)) | HOLES | {
        "amplitudes": amplitudes_of_harmonics if rows.half_order else amplitudes_of_samples,
        "HALF_ORDER": rows.half_order, "look_ahead": prefetch_along if rows.half_order else None,
        "SYMMETRIC": int(function.symmetric),
        # at most a third of the vertices are maxima, because neighbours of a maximum are none, except on plateaus
        "CANDIDATES": padded(len(vertices) // 3), "NEGATIVE_PEAK": 0,
    } | own  # fmt: skip
    peaks = most_peaks(len(vertices), options.min_separation_angle, function.symmetric)
    team = pmf.PmfScratch(**pmf.PmfScratch.sizes(fill), peaks=PeakScratch(kept=peaks, **PeakScratch.sizes(fill)))
    # a row of samples is no longer needed once they are where the PMF is expected
    shares = {"scratch_pmf": ("scratch_row", 0)} if rows.half_order == 0 else {}
    most = most_directions(peaks, options)
    volume = _volume(given, rows, reach, stretch)
    return Prepared(method, given.stop.record, volume, team, fill, most, shares, OFTEN_READ)


def _volume(given: Given, rows: Rows, reach: npt.ArrayLike, stretch: float) -> Volume:
    """Return rows of the voxels that are read."""
    assert isinstance(given.follows, OrientationFunctions)
    values = given.follows.values

    def fill_rows(some: Array, written: Array) -> None:
        own = rows.fill(some)
        written[:, : own.shape[1]] = own

    width = rows.width(given.stop.count)
    return build_volume(values, kept(given, values, reach, stretch), width, fill_rows, given.channels)


def rows_of(given: Given, sampled: bool, least: float = 0.0) -> Rows:
    """Return the layout of the rows, which end with the maps of the stopping rule.

    Parameters
    ----------
    given : Given
        Inputs, with orientation functions.
    sampled : bool
        Whether coefficients are sampled on the sphere here. Those of a full basis always are.
    least : float
        Lower samples of coefficients are raised to this; with a full basis, to 0.

    Returns
    -------
    Rows
        The layout.
    """
    function, (vertices, _) = given.follows, given.vertices_and_edges
    assert isinstance(function, OrientationFunctions)
    _check(function, given)
    count = function.values.shape[3]
    if function.kind == "pmf":
        if count != len(vertices):
            raise InputError(f"values have {count} samples per voxel, but the sphere has {len(vertices)} vertices")
        return Rows(0, count, lambda some: some)
    if function.kind == "peaks":
        width = function.peak_width
        lobes = lambda some: peaks_to_pmf(some.reshape(len(some), -1, 3), vertices, width)  # noqa: E731
        return Rows(0, len(vertices), lobes)
    full = basis_of(function.basis).full
    try:
        order = order_of(count, full)
    except ValueError as error:
        raise InputError(f"values: {error}") from error
    if order < 2 - full:
        raise InputError("values: a single coefficient per voxel has no direction")
    if full or sampled:
        # the kernels' polynomials have no odd degrees, but a full basis has
        matrix = sampling_matrix(vertices, order, function.basis).T
        low = 0.0 if full else least
        return Rows(0, len(vertices), lambda some: np.maximum(some @ matrix, low))
    change = from_harmonics(order).T
    return Rows(order // 2, count, lambda some: to_descoteaux(some, function.basis) @ change)


def _check(function: OrientationFunctions, given: Given) -> None:
    """Check that values and maps have one grid, and that an asymmetric function has a whole sphere."""
    maps = given.channels
    if function.values.ndim != 4 or function.values.shape[:3] != maps.shape[:3]:
        raise InputError(f"values are {function.values.shape}, the stop map is {maps.shape[:3]}: give both on one grid")
    if not function.symmetric and isinstance(given.sphere, str) and SPHERES[given.sphere][1]:
        raise ParameterError(f"--sphere {given.sphere} is half a sphere: an asymmetric function needs --sphere full")


def count_step(fill: dict[str, Any]) -> tuple[int, int]:
    """Return a lower bound of the bytes read and the operations done for a step.

    Eight rows are read and interpolated, with 16 operations per channel. Each vertex takes two per coefficient if rows
    hold these; where all vertices are looked at, not only those in the cone, five for its cosine to the heading.
    """
    channels, vertices = 32 * (fill["ROW_CHUNKS"] - fill.get("FIRST_CHUNK", 0)), 32 * fill["VERTEX_CHUNKS"]
    own = 5 * vertices
    if "CONE_CHUNKS" in fill:
        # at least one chunk is looked at
        own, vertices = 0, 32
        channels += 0 if fill["HALF_ORDER"] else vertices
    own += vertices * harmonic_operations(fill) if fill["HALF_ORDER"] else 0
    return 32 * channels, 16 * channels + own
