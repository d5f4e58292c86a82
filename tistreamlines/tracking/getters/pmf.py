"""Probabilistic and deterministic tracking: makes the tables of the kernels from orientation functions.

A row holds samples on the sphere, or spherical harmonic coefficients, which are evaluated at each step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...aliases import Array
from ...errors import InputError, ParameterError
from ...io.orientations import peaks_to_pmf
from ...kernels.getters.shared import prefetch_along
from ...kernels.orientation import pmf
from ...kernels.orientation.amplitudes import amplitudes_of_harmonics, amplitudes_of_samples
from ...linker.lang import Func, Record
from ...linker.parts import host
from ...option import FILES, MODEL, option
from ...space.harmonics import basis_of, from_harmonics, order_of, sampling_matrix, to_descoteaux
from ...space.sphere import SPHERES, Ball, most_peaks, round_up, sphere_tables
from ..parts import Row
from ..tables.inputs import Scheme
from ..tables.rows import Rows, front
from .shared import VertexGetter, VertexOptions, harmonic_operations, most_directions, peak_rule

COMMON = ("method", "ball", "row", "half_order", "symmetric", "candidates", "most_peaks", "most_directions", "shares")
OFTEN_READ = ("method_sphere_vertices", "method_sphere_around", "method_sphere_neighbours")


@dataclass(frozen=True, repr=False, eq=False)
class PmfOptions(VertexOptions):
    """Options of methods that follow orientation functions, a part of :class:`tistreamlines.Parameters`."""

    pmf_threshold: float = option(
        None, MODEL, "Directions with a value below this share of the greatest value are never taken. In the "
        "probes of ptt the threshold is absolute: values at or below it count as 0.", unit="share", low=0, high=1,
    )
    pmf_rows: str = option(
        None, MODEL, "Numbers of a voxel: coefficients, evaluated on the sphere at each step, as in DIPY's "
        "SHCoeffPmfGen (sh), or samples on the sphere, with 0 for negative ones, as in SimplePmfGen (sampled). ptt "
        "always stores samples; with sh they keep negative values.", choices=("sh", "sampled"),
        absent="sh; sampled for a full basis", only={"source": ("model", "sh")},
    )
    peak_width: float = option(
        15.0, FILES, "Standard deviation of the lobe of a peak of --peaks. The default is about that of a fODF of "
        "order 8. With 0, a peak is the nearest vertex of --sphere alone, and most streamlines end where the peaks of "
        "neighbouring voxels differ by more than --max-angle.", unit="degrees", low=0, high=45,
        only={"source": ("peaks",)},
    )


@dataclass(frozen=True, repr=False, eq=False)
class DetOptions(PmfOptions):
    """Options of deterministic tracking, a part of :class:`tistreamlines.Parameters`."""

    det_rule: str = option(
        "max", MODEL, "Follow the greatest value within the greatest angle (max), or the closest peak (closest).",
        choices=("max", "closest"),
    )


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class PmfGetter(VertexGetter):
    """A getter that takes a vertex of the sphere by the orientation function at a point.

    Parameters
    ----------
    amplitudes : the orientation function at a point at 32 of the sphere's vertices.
    """

    scratch: type[Record] = pmf.PmfScratch
    initial_directions: Func = pmf.initial_directions
    amplitudes: Func
    often_read: tuple[str, ...] = host(default=OFTEN_READ)

    def count_step(self) -> tuple[int, int]:
        """Return a lower bound of the bytes read and the operations done for a step.

        Eight rows are read and interpolated, with 16 operations per channel. Each vertex takes five for its cosine to
        the heading and, if rows hold coefficients, two per coefficient.
        """
        channels, vertices = 32 * self.row.row_chunks, 32 * self.ball.vertex_chunks
        harmonic = harmonic_operations(self.half_order) if self.half_order else 0
        return 32 * channels, 16 * channels + vertices * (5 + harmonic)


@dataclass(frozen=True)
class PmfRows:
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


@dataclass(frozen=True, eq=False)
class PmfTables:
    """The tables that all getters of orientation functions have.

    Parameters
    ----------
    method : Pmf
        The kernels' record, which that of a getter may extend.
    ball, row, half_order, symmetric, candidates, most_peaks, most_directions
        See :class:`PmfGetter`.
    rows : Rows
        How rows are made of values.
    """

    method: pmf.Pmf
    ball: Ball
    row: Row
    half_order: int
    symmetric: int
    candidates: int
    most_peaks: int
    most_directions: int
    rows: Rows

    @property
    def shares(self) -> dict[str, tuple[str, int]]:
        """A row of samples is no longer needed once they are where the PMF is expected."""
        return {"scratch_pmf": ("scratch_row", 0)} if self.half_order == 0 else {}

    def described(self, kind: Callable[..., PmfGetter], **fields: object) -> tuple[PmfGetter, Rows]:
        """Return a getter of a kind and its rows; ``fields`` are its own, or instead of those here."""
        common = {name: getattr(self, name) for name in COMMON} | {
            "amplitudes": amplitudes_of_harmonics if self.half_order else amplitudes_of_samples,
            "look_ahead": prefetch_along if self.half_order else None, "code_bits": self.ball.code_bits,
        }
        return kind(**common | fields), self.rows


def pmf_tables(
    scheme: Scheme, options: PmfOptions, least: float | None = None, rows: PmfRows | None = None
) -> PmfTables:
    """Make the tables of a getter that takes a vertex of the sphere from the orientation function at a point.

    Parameters
    ----------
    scheme : Scheme
        The headers of the inputs, which are orientation functions.
    options : PmfOptions
        Options of the method.
    least : float, optional
        If given, coefficients are sampled on the sphere here, and lower samples raised to this.
    rows : PmfRows, optional
        The layout of the rows; by default, that of :func:`rows_of`.

    Raises
    ------
    InputError
        If the values do not fit the sphere, the basis or the stop map.
    ParameterError
        If an asymmetric function is given on half a sphere.
    """
    function, (vertices, edges) = scheme.form, scheme.vertices_and_edges
    ball, sphere = sphere_tables(vertices, edges)
    rows = rows or rows_of(scheme, least is not None or options.pmf_rows == "sampled", least or 0.0)
    peaks = most_peaks(len(vertices), options.min_separation_angle, function.symmetric)
    method = pmf.Pmf(sphere=sphere, rule=peak_rule(options), threshold=options.pmf_threshold)
    width = round_up(rows.count + scheme.maps)
    return PmfTables(
        method, ball, Row.of(width, scheme.maps), rows.half_order, int(function.symmetric),
        # at most a third of the vertices are maxima, because neighbours of a maximum are none, except on plateaus
        candidates=round_up(len(vertices) // 3), most_peaks=peaks, most_directions=most_directions(peaks, options),
        rows=Rows(front(rows.fill)),
    )


def rows_of(scheme: Scheme, sampled: bool, least: float = 0.0) -> PmfRows:
    """Return the layout of the rows, which end with the maps of the stopping rule.

    Parameters
    ----------
    scheme : Scheme
        The headers of the inputs, which are orientation functions.
    sampled : bool
        Whether coefficients are sampled on the sphere here. Those of a full basis always are.
    least : float
        Lower samples of coefficients are raised to this; with a full basis, to 0.

    Returns
    -------
    PmfRows
        The layout.

    Raises
    ------
    InputError
        If the values do not fit the sphere or the basis.
    ParameterError
        If an asymmetric function is given on half a sphere.
    """
    function, (vertices, _) = scheme.form, scheme.vertices_and_edges
    if not function.symmetric and isinstance(scheme.sphere, str) and SPHERES[scheme.sphere][1]:
        raise ParameterError(f"--sphere {scheme.sphere} is half a sphere: an asymmetric function needs --sphere full")
    count = function.count
    if function.kind == "pmf":
        if count != len(vertices):
            raise InputError(f"values have {count} samples per voxel, but the sphere has {len(vertices)} vertices")
        return PmfRows(0, count, lambda values: values)
    if function.kind == "peaks":
        width = function.peak_width
        return PmfRows(
            0, len(vertices), lambda values: peaks_to_pmf(values.reshape(len(values), -1, 3), vertices, width)
        )
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
        return PmfRows(0, len(vertices), lambda values: np.maximum(values @ matrix, low))
    change = from_harmonics(order).T
    return PmfRows(order // 2, count, lambda values: to_descoteaux(values, function.basis) @ change)
