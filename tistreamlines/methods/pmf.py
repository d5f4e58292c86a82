"""From orientation functions to the tables of prob, det and ptt: samples on a sphere, or harmonics for the step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..errors import InputError, ParameterError
from ..kernels import pmf
from ..kernels.methods import det, prob
from ..kernels.stopping import threshold as stopping
from ..kernels.vertex_steps import ALONG_VERTICES
from ..sphere.harmonics import basis_of, order_of, sampling_matrix, to_descoteaux
from ..sphere.polynomials import from_harmonics
from ..sphere.sphere import SPHERES, load_sphere, most_peaks, padded, sphere_tables
from .boot import Prepared, rule_scalars
from .rows import build_rows, touched

Array = npt.NDArray[Any]
Source = Literal["pmf", "sh"]
TABLES = ("method_sphere_vertices", "method_sphere_neighbours")  # those read most
SCAN = 64  # reals of a team's scan: 32 zeros, then a sum a lane
__all__ = ["PmfOptions", "prepare_det", "prepare_prob"]


@dataclass(frozen=True)
class PmfOptions:
    """Options of prob and det; angles in degrees, defaults DIPY's.

    Parameters
    ----------
    sphere : one of SPHERES, or vertices (n, 3) and edges (m, 2).
    basis : of harmonics, one of harmonics.BASES.
    sampled : harmonics are sampled on the host and negative samples set to 0 (``from_shcoeff`` with ``sh_to_pmf``).
    asymmetric : the function is not that of its opposite directions: keep both senses apart.  So are those of a
        full basis without this.
    pmf_threshold : samples below this share of the greatest count as 0.
    max_angle : between two steps.
    relative_peak_threshold, min_separation_angle : of the initial directions, and of det's closest peak.
    max_directions : of a seed, the greatest peaks; None for all.
    det_rule : 'max' (``deterministic_tracking``) or 'closest' (``ClosestPeakDirectionGetter``).
    """

    sphere: str | tuple[Array, Array] = "default"
    basis: str = "descoteaux07_legacy"
    sampled: bool = False
    asymmetric: bool = False
    pmf_threshold: float = 0.1
    max_angle: float = 20.0
    relative_peak_threshold: float = 0.5
    min_separation_angle: float = 25.0
    max_directions: int | None = None
    det_rule: str = "max"

    def __post_init__(self) -> None:
        if self.pmf_threshold < 0:
            raise ParameterError(f"pmf_threshold is {self.pmf_threshold:g}: give 0 or more, e.g. 0.1")
        if self.max_directions is not None and self.max_directions < 1:
            raise ParameterError(f"max_directions is {self.max_directions}: give 1 or more, or none for all")
        if self.det_rule not in ("max", "closest"):
            raise ParameterError(f"det_rule is {self.det_rule!r}: give one of max, closest")


@dataclass(frozen=True)
class _Rows:
    """How a voxel's row is made: its width, and its first numbers from the voxel's values (m, n) float64."""

    sampled: bool
    half_order: int
    width: int
    fill: Callable[[Array], Array]


def prepare_prob(
    source: Source, values: Array, stop_map: Array, threshold: float, seeds: Array, **options: Any
) -> Prepared:
    """Tables of probabilistic tracking.

    Parameters
    ----------
    source : what the last axis of the values counts: 'pmf', samples at the sphere's vertices, of any scale, or 'sh',
        coefficients of spherical harmonics.
    values : (x, y, z, n)
    stop_map : (x, y, z); threshold : streamlines go on where it is above this.
    seeds : (m, 3) voxel coordinates.
    options : those of :class:`PmfOptions`.

    Raises
    ------
    InputError
        Where the values do not fit the sphere, the basis or the stop map.
    ParameterError
        Where an option has a value that it cannot have.
    """
    own = _holes(prob) | {"OPEN_CONE": 0}
    return prepare_pmf(source, values, stop_map, threshold, seeds, PmfOptions(**options), own)


def prepare_det(
    source: Source, values: Array, stop_map: Array, threshold: float, seeds: Array, **options: Any
) -> Prepared:
    """Tables of deterministic tracking; arguments as for :func:`prepare_prob`."""
    chosen = PmfOptions(**options)
    own = _holes(det) | {"OPEN_CONE": 1, "GREATEST": int(chosen.det_rule == "max")}
    return prepare_pmf(source, values, stop_map, threshold, seeds, chosen, own)


def prepare_pmf(
    source: Source, values: Array, stop_map: Array, threshold: float, seeds: Array, chosen: PmfOptions,
    own: dict[str, Any], reach: Array | None = None,
) -> Prepared:  # fmt: skip
    """Tables, with the method's ``own`` constants and holes; ``reach``: voxels that it reads beyond live points."""
    if values.ndim != 4 or values.shape[:3] != stop_map.shape:
        raise InputError(f"values are {values.shape}, the stop map {stop_map.shape}: give both on one grid")
    vertices, edges = load_sphere(chosen.sphere)
    ball, tables = sphere_tables(vertices, edges)
    made = _rows_of(source, values.shape[3], vertices, chosen, 32 * ball["VERTEX_CHUNKS"], sampled=reach is not None)
    ball["SYMMETRIC"] = int(_is_symmetric(source, chosen))
    stop = stop_map.ravel()

    def fill_rows(some: Array, voxels: Array, rows: Array) -> None:
        own_values = made.fill(some)
        rows[:, : own_values.shape[1]] = own_values
        rows[:, -1] = stop[voxels]

    keep = _stored(values, stop_map, threshold, seeds, reach)
    index, rows = build_rows(values, keep, made.width, fill_rows)
    arrays = {f"method_sphere_{name}": table for name, table in tables.items()} | {
        "volume_index": index, "volume_rows": rows.ravel(), "volume_shape": np.array(stop_map.shape),
    }  # fmt: skip
    peaks = most_peaks(len(vertices), chosen.min_separation_angle, bool(ball["SYMMETRIC"]))
    scalars = rule_scalars(chosen, threshold) | {
        "seeds_most": min(peaks, chosen.max_directions or peaks), "method_sphere_count": len(vertices),
        "method_threshold": chosen.pmf_threshold,
    }  # fmt: skip
    constants = ball | own | {
        "ROW_CHUNKS": made.width // 32, "STOP_CHANNEL": made.width - 1, "STOP_CHANNELS": 1,
        "SAMPLED": int(made.sampled), "HALF_ORDER": made.half_order,
        # a third of the vertices: no neighbour of a maximum is one, plateaus aside
        "CANDIDATES": max(padded(len(vertices) // 3), SCAN), "NEGATIVE_PEAK": 0,
    }  # fmt: skip
    # the row is spent once it is sampled, and the sums are not in use while peaks are sought
    shares = {"scratch_sums": ("scratch_peaks_candidates", 0)}
    if made.sampled:
        shares["scratch_pmf"] = ("scratch_row", 0)
    return Prepared(constants, arrays, scalars, _scratch(constants, peaks), shares, TABLES)


def _stored(values: Array, stop_map: Array, threshold: float, seeds: Array, reach: Array | None) -> Array:
    """Voxels that have a row, (x, y, z) bool."""
    keep = touched(stop_map, threshold, seeds)
    if reach is None:
        return keep
    from scipy.ndimage import maximum_filter

    # what is 0 has row 0
    return np.asarray(maximum_filter(keep, size=tuple(2 * reach + 1)), bool) & (values.any(axis=-1) | (stop_map != 0))


def _is_symmetric(source: Source, chosen: PmfOptions) -> bool:
    """Whether a direction stands for its opposite too."""
    full = chosen.asymmetric or (source == "sh" and basis_of(chosen.basis).full)
    if full and isinstance(chosen.sphere, str) and SPHERES[chosen.sphere][1]:
        raise ParameterError(f"sphere {chosen.sphere} is half a sphere: give 'full' for an asymmetric function")
    return not full


def _rows_of(
    source: Source, count: int, vertices: Array, chosen: PmfOptions, samples: int, sampled: bool
) -> _Rows:
    """Rows of ``samples`` padded samples, or, unless they have to be ``sampled``, of coefficients, and the stop map."""
    if source == "pmf":
        if count != len(vertices):
            raise InputError(f"values have {count} samples a voxel, but the sphere has {len(vertices)} vertices")
        return _Rows(True, 0, max(samples, padded(count + 1)), lambda some: some)
    full = basis_of(chosen.basis).full
    try:
        order = order_of(count, full)
    except ValueError as error:
        raise InputError(f"values: {error}") from error
    if order < 2 - full:
        raise InputError("values: a single coefficient a voxel has no direction")
    if full or chosen.sampled or sampled:
        # a full basis has odd degrees, which the kernels' polynomials leave out
        matrix = sampling_matrix(vertices, order, chosen.basis).T
        least = 0.0 if full or chosen.sampled else -np.inf
        return _Rows(True, 0, max(samples, padded(len(vertices) + 1)), lambda some: np.maximum(some @ matrix, least))
    change = from_harmonics(order).T
    return _Rows(False, order // 2, padded(count + 1), lambda some: to_descoteaux(some, chosen.basis) @ change)


def _scratch(constants: dict[str, int], peaks: int) -> dict[str, tuple[str, int]]:
    """Team memory."""
    return {
        "scratch_row": ("reals", 32 * constants["ROW_CHUNKS"]),
        "scratch_pmf": ("reals", 32 * constants["VERTEX_CHUNKS"]),
        "scratch_sums": ("reals", SCAN),
        "scratch_peaks_candidates": ("reals", constants["CANDIDATES"]),
        "scratch_peaks_kept": ("ints", peaks),
        "scratch_peaks_counter": ("ints", 1),
    }


def _holes(method: Any) -> dict[str, Any]:
    """The method and the stopping rule that the engine's kernels are linked with."""
    return ALONG_VERTICES | {
        "Method": pmf.Pmf, "Scratch": pmf.PmfScratch, "Stopping": stopping.Threshold, "classify": stopping.classify,
        "initial_directions": pmf.initial_directions, "next_direction": method.next_direction,
    }  # fmt: skip
