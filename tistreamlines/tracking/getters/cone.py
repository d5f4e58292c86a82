"""Probabilistic and deterministic tracking: makes the tables of kernels that read a PMF within the greatest angle."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ...kernels.getters import det, prob
from ...kernels.getters.vertex_steps import choose_in_cone
from ...kernels.orientation import cone
from ...space.cones import PATCH, cones, listed, listed_by_patches, patches
from ...space.polynomials import monomials
from ...space.sphere import padded
from ..tables.given import Given, OrientationFunctions, Prepared
from .pmf import DetOptions, PmfOptions, Rows, prepare_pmf, rows_of
from .shared import peak_rule

Array = npt.NDArray[Any]
WIDE = 0.8  # of all patches, which a step reads on average
TOGETHER = 3  # patches; a cone of 20 degrees touches as many of them on average
ROUNDING = 1e-5  # of the sizes that make up a sample: more than kernels round it by


def prepare_prob(given: Given, options: PmfOptions) -> Prepared:
    """Make the tables of probabilistic tracking; see :func:`.pmf.prepare_pmf`."""
    whole = {"next_direction": prob.next_direction, "OPEN_CONE": 0}
    return prepare_in_cone(given, options, whole, {"pick": prob.drawn_vertex, "ALL_MATTER": 1})


def prepare_det(given: Given, options: DetOptions) -> Prepared:
    """Make the tables of deterministic tracking; see :func:`.pmf.prepare_pmf`."""
    if options.det_rule == "closest":
        return prepare_pmf(given, options, {"next_direction": det.closest_direction, "OPEN_CONE": 1})
    whole = {"next_direction": det.next_direction, "OPEN_CONE": 1}
    return prepare_in_cone(given, options, whole, {"pick": det.greatest_vertex, "ALL_MATTER": 0})


def prepare_in_cone(given: Given, options: PmfOptions, whole: dict[str, Any], own: dict[str, Any]) -> Prepared:
    """Make the tables of a method that takes a vertex within the greatest angle; see :func:`.pmf.prepare_pmf`.

    Where cones touch most patches, all stored samples are read at once, which takes less time.

    Parameters
    ----------
    given, options : Given, PmfOptions
        As there.
    whole, own : dict
        Constants and holes of a method that reads all samples, and what one that reads a cone has in their place.
    """
    function, (vertices, _) = given.follows, given.vertices_and_edges
    assert isinstance(function, OrientationFunctions)
    rows, patched = rows_of(given, options.pmf_rows == "sampled"), patches(vertices)
    inside = cones(
        vertices, peak_rule(options).cos_angle, symmetric=function.symmetric, closed=not whole["OPEN_CONE"]
    )
    stored = rows.half_order == 0
    near, used = listed_by_patches(inside, patched, TOGETHER) if stored else listed(inside)
    if stored and (used >= 0).sum(axis=1).mean() > WIDE * len(patched) / PATCH:
        return prepare_pmf(given, options, whole)
    start = rows.count
    if stored and start % PATCH + len(patched) // PATCH + given.stop.count > PATCH:
        start = padded(start)  # so that a step reads one chunk besides the patches
    own = whole | own | {
        "STORED": int(stored), "TOGETHER": TOGETHER if stored else 1, "CONE_CHUNKS": used.shape[1], "BOUNDS": start,
        "FIRST_CHUNK": start // PATCH if stored else 0,
        "choose": choose_in_cone, "read": cone.read_for_cone,
        "amplitudes_at": cone.samples_at if stored else cone.harmonics_at,
    }  # fmt: skip
    if stored:
        own |= {"amplitudes": cone.amplitudes_in_place, "read_all": cone.read_patches}
    made = prepare_pmf(given, options, own, rows=bounded(rows, vertices, patched, start))
    numbers = np.concatenate([near.ravel(), patched])
    known = np.minimum(np.maximum(numbers, ~numbers), len(vertices) - 1)
    places = vertices[known].reshape(-1, 32, 3).transpose(0, 2, 1)
    method = cone.ConePmf(**vars(made.method), near=numbers, places=places.ravel(), patches=used.ravel())
    team = cone.ConeScratch(**vars(made.team), cone=32 * used.shape[1])
    host = "row" if stored else "pmf"
    fits = team.cone <= getattr(team, host)  # on a small sphere, groups of patches may be more than a row
    shares = made.shares | ({"scratch_cone": (f"scratch_{host}", 0)} if fits else {})
    return replace(made, method=method, team=team, shares=shares)


def bounded(rows: Rows, vertices: Array, patched: Array, start: int) -> Rows:
    """Return rows with the samples of each patch together, and from number ``start`` on a bound of those of each patch.

    No sample is above the bound of its patch, also as kernels interpolate and evaluate the function, with rounding.
    """
    matrix = monomials(vertices, 2 * rows.half_order).T.astype(np.float32) if rows.half_order else None
    order, chunks = patched[patched >= 0], len(patched) // PATCH

    def fill(some: Array) -> Array:
        own = np.asarray(rows.fill(some), np.float32)
        samples = (own if matrix is None else own @ matrix)[:, order]
        padding = np.zeros((len(own), len(patched) - len(order)), np.float32)
        highest = np.concatenate([samples, padding], axis=1).reshape(len(own), chunks, PATCH).max(axis=2)
        highest = np.maximum(highest, 0.0)
        sizes = np.abs(own).sum(axis=1, keepdims=True) if rows.half_order else highest
        made = np.zeros((len(own), start + chunks), np.float32)
        made[:, : rows.count] = own if rows.half_order else samples
        made[:, start:] = highest + ROUNDING * sizes
        return made

    return Rows(rows.half_order, start + chunks, fill)
