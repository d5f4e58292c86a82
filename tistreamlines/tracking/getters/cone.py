"""Probabilistic and deterministic tracking: makes the tables of kernels that read a PMF within the greatest angle."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ...kernels.getters import det, prob
from ...kernels.getters.vertex_steps import choose_in_cone
from ...kernels.orientation import cone, patches
from ...space.cones import PATCH, ascending, cones, listed, listed_by_patches, members, patched, touched
from ...space.polynomials import monomials
from ...space.sphere import padded
from ..tables.given import Given, OrientationFunctions, Prepared
from .pmf import DetOptions, PmfOptions, Rows, prepare_pmf, rows_of
from .shared import peak_rule

Array = npt.NDArray[Any]
WIDE = 0.8  # of all patches, which a step of prob reads on average
TOGETHER = 3  # patches; a cone of 20 degrees touches as many of them on average
LINE = 16  # reals in a line of a processor's cache
ROUNDING = 1e-5  # of the sizes that make up a sample: more than kernels round it by


def prepare_prob(given: Given, options: PmfOptions) -> Prepared:
    """Make the tables of probabilistic tracking; see :func:`.pmf.prepare_pmf`.

    Where cones touch most patches, all stored samples are read at once, which takes less time.
    """
    order, rows = patched(given.vertices_and_edges[0]), _rows(given, options)
    inside, stored = _cones(given, options, closed=True), rows.half_order == 0
    near, used = listed_by_patches(inside, order, TOGETHER) if stored else listed(inside)
    if stored and (used >= 0).sum(axis=1).mean() > WIDE * len(order) / PATCH:
        return prepare_pmf(given, options, {"next_direction": prob.next_direction})
    own = {
        "pick": prob.drawn_vertex, "read": cone.read_cone, "CONE_CHUNKS": used.shape[1],
        "TOGETHER": TOGETHER if stored else 1,
    }  # fmt: skip
    made = prepare_patched(given, options, rows, np.concatenate([order, near.ravel()]), own)
    method = cone.ConePmf(**vars(made.method), patches=used.ravel(), touched=touched(inside, order))
    team = cone.ConeScratch(**vars(made.team), cone=PATCH * used.shape[1], highest=PATCH)
    # a step does not read the begin of a row of samples; of a small sphere, that is less than groups of patches
    host, room = ("row", PATCH * made.fill["FIRST_CHUNK"]) if stored else ("pmf", PATCH * made.fill["VERTEX_CHUNKS"])
    fits = PATCH * used.shape[1] <= room
    shares = made.shares | {"scratch_highest": ("scratch_peaks_candidates", 0)}
    shares |= {"scratch_cone": (f"scratch_{host}", 0)} if fits else {}
    return replace(made, method=method, team=team, shares=shares)


def prepare_det(given: Given, options: DetOptions) -> Prepared:
    """Make the tables of deterministic tracking; see :func:`.pmf.prepare_pmf`."""
    if options.det_rule == "closest":
        return prepare_pmf(given, options, {"next_direction": det.closest_direction})
    order, rows = ascending(patched(given.vertices_and_edges[0])), _rows(given, options)
    inside = _cones(given, options, closed=False)
    # where coefficients are stored, one chunk takes less time than patches, and patches less than two chunks
    one = rows.half_order > 0 and inside.sum(axis=1).max() <= PATCH
    numbers = np.concatenate([order, listed(inside)[0].ravel()]) if one else order
    own = {"pick": det.greatest_vertex, "read": patches.read_bounds, "CONE_CHUNKS": int(one)}
    made = prepare_patched(given, options, rows, numbers, own)
    within = np.zeros(PATCH, np.int32) if one else np.pad(members(inside, order).ravel(), (0, PATCH))
    return replace(made, method=det.DetPmf(**vars(made.method), within=within))


def _rows(given: Given, options: PmfOptions) -> Rows:
    return rows_of(given, options.pmf_rows == "sampled")


def _cones(given: Given, options: PmfOptions, closed: bool) -> npt.NDArray[np.bool_]:
    assert isinstance(given.follows, OrientationFunctions)
    vertices, symmetric = given.vertices_and_edges[0], given.follows.symmetric
    return cones(vertices, peak_rule(options).cos_angle, symmetric=symmetric, closed=closed)


def prepare_patched(
    given: Given, options: PmfOptions, rows: Rows, numbers: Array, own: dict[str, Any]
) -> Prepared:
    """Make the tables of a method that takes a vertex within the greatest angle; see :func:`.pmf.prepare_pmf`.

    Parameters
    ----------
    given, options : Given, PmfOptions
        As there.
    rows : Rows
        The layout of the rows without bounds.
    numbers : (n,) int32
        Vertices of the patches, see :func:`tistreamlines.space.cones.patched`, and of further chunks of 32.
    own : dict
        Constants and holes of the method.

    Returns
    -------
    Prepared
        The tables; the method's record is a :class:`tistreamlines.kernels.orientation.patches.PatchedPmf`.
    """
    vertices, _ = given.vertices_and_edges
    order, start, stored = numbers[: padded(len(vertices))], rows.count, rows.half_order == 0
    behind = len(order) // PATCH + given.stop.count
    if stored and start % PATCH + behind > PATCH:
        start = padded(start)  # so that a step reads one chunk besides the patches
    aligned = padded(start, LINE)
    if padded(aligned + behind) == padded(start + behind):
        start = aligned  # bounds are read from what was just stored: that takes longer if they lie in two lines
    own = own | {
        "STORED": int(stored), "BOUNDS": start, "FIRST_CHUNK": start // PATCH if stored else 0,
        "choose": choose_in_cone, "amplitudes_at": patches.samples_at if stored else patches.harmonics_at,
    }  # fmt: skip
    if stored:
        own |= {"amplitudes": patches.amplitudes_in_place, "read_all": patches.read_patches}
    made = prepare_pmf(given, options, own, rows=bounded(rows, vertices, order, start))
    known = np.minimum(np.maximum(numbers, ~numbers), len(vertices) - 1)
    places = vertices[known].reshape(-1, 32, 3).transpose(0, 2, 1)
    tables = {"numbers": numbers, "places": places.ravel()}
    return replace(made, method=patches.PatchedPmf(**vars(made.method), **tables))


def bounded(rows: Rows, vertices: Array, numbers: Array, start: int) -> Rows:
    """Return rows with the samples of each patch together, and from number ``start`` on a bound of those of each patch.

    No sample is above the bound of its patch, also as kernels interpolate and evaluate the function, with rounding.
    """
    matrix = monomials(vertices, 2 * rows.half_order).T.astype(np.float32) if rows.half_order else None
    order, chunks = numbers[numbers >= 0], len(numbers) // PATCH

    def fill(some: Array) -> Array:
        own = np.asarray(rows.fill(some), np.float32)
        samples = (own if matrix is None else own @ matrix)[:, order]
        padding = np.zeros((len(own), len(numbers) - len(order)), np.float32)
        highest = np.concatenate([samples, padding], axis=1).reshape(len(own), chunks, PATCH).max(axis=2)
        highest = np.maximum(highest, 0.0)
        sizes = np.abs(own).sum(axis=1, keepdims=True) if rows.half_order else highest
        made = np.zeros((len(own), start + chunks), np.float32)
        made[:, : rows.count] = own if rows.half_order else samples
        made[:, start:] = highest + ROUNDING * sizes
        return made

    return Rows(rows.half_order, start + chunks, fill)
