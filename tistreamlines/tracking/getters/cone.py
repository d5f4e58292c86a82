"""Probabilistic and deterministic tracking: makes the tables of kernels that read a PMF within the greatest angle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...aliases import Array
from ...kernels.getters import det, prob
from ...kernels.getters.shared import choose_in_cone
from ...kernels.orientation import patches
from ...linker.lang import Func, Stage
from ...space.cones import (
    PATCH,
    ascending,
    cone_lists,
    cone_lists_by_patches,
    cones,
    divide_sphere,
    members,
    patches_touched,
)
from ...space.harmonics import monomials
from ...space.sphere import round_up
from ..tables.inputs import Scheme
from ..tables.rows import Rows
from .pmf import DetOptions, PmfGetter, PmfOptions, PmfRows, PmfTables, pmf_tables, rows_of
from .shared import harmonic_operations, peak_rule

WIDE = 0.8  # of all patches, which a step of prob reads on average
TOGETHER = 3  # patches; a cone of 20 degrees touches as many of them on average
LINE = 16  # reals in a line of a processor's cache
ROUNDING = 1e-5  # of the sizes that make up a sample: more than kernels round it by


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class PatchedGetter(PmfGetter):
    """A getter that reads what it needs within the greatest angle; see ``kernels/orientation/patches.py``.

    Parameters
    ----------
    pick : its choice of a vertex in the cone.
    amplitudes_at : the orientation function at 32 vertices of a chunk.
    cone_chunks, together, bounds, stored, first_chunk : constants of the rows and of the chunks of a cone.
    """

    choose: Func = choose_in_cone
    pick: Stage
    amplitudes_at: Stage
    cone_chunks: int
    together: int = 1
    bounds: int
    stored: int
    first_chunk: int

    def count_step(self) -> tuple[int, int]:
        """Return a lower bound of the bytes read and the operations done for a step, which looks at one chunk at least.

        Eight rows are read and interpolated, with 16 operations per channel. Each vertex takes two per coefficient.
        """
        channels = 32 * (self.row.row_chunks - self.first_chunk + self.stored)
        harmonic = 0 if self.stored else harmonic_operations(self.half_order)
        return 32 * channels, 16 * channels + 32 * harmonic


def describe_prob(scheme: Scheme, options: PmfOptions) -> tuple[PmfGetter, Rows]:
    """Return the getter of probabilistic tracking and its rows; see :func:`.pmf.pmf_tables`.

    Where cones touch most patches, all stored samples are read at once, which takes less time.
    """
    order, rows = divide_sphere(scheme.vertices_and_edges[0]), rows_of(scheme, options.pmf_rows == "sampled")
    inside, stored = _cones(scheme, options, closed=True), rows.half_order == 0
    near, used = cone_lists_by_patches(inside, order, TOGETHER) if stored else cone_lists(inside)
    if stored and (used >= 0).sum(axis=1).mean() > WIDE * len(order) / PATCH:
        return pmf_tables(scheme, options).described(PmfGetter, next_direction=prob.next_direction)
    patches_of = patched_tables(scheme, options, rows, np.concatenate([order, near.ravel()]))
    chunks, tables = used.shape[1], patches_of.tables
    # a step does not read the begin of a row of samples; of a small sphere, that is less than groups of patches
    host_array, most = ("row", patches_of.first_chunk) if stored else ("pmf", tables.ball.vertex_chunks)
    shares = tables.shares | {"scratch_highest": ("scratch_peaks_candidates", 0)}
    shares |= {"scratch_cone": (f"scratch_{host_array}", 0)} if chunks <= most else {}
    return patches_of.described(
        pick=prob.draw_vertex, read=patches.read_cone, cone_chunks=chunks, together=TOGETHER if stored else 1,
        method=patches.ConePmf(**vars(patches_of.method), patches=used.ravel(), touched=patches_touched(inside, order)),
        scratch=patches.ConeScratch, shares=shares,
    )


def describe_det(scheme: Scheme, options: DetOptions) -> tuple[PmfGetter, Rows]:
    """Return the getter of deterministic tracking and its rows; see :func:`.pmf.pmf_tables`."""
    if options.det_rule == "closest":
        return pmf_tables(scheme, options).described(PmfGetter, next_direction=det.closest_direction)
    order, rows = ascending(divide_sphere(scheme.vertices_and_edges[0])), rows_of(scheme, options.pmf_rows == "sampled")
    inside = _cones(scheme, options, closed=False)
    # where coefficients are stored, one chunk takes less time than patches, and patches less than two chunks
    one_chunk = rows.half_order > 0 and inside.sum(axis=1).max() <= PATCH
    numbers = np.concatenate([order, cone_lists(inside)[0].ravel()]) if one_chunk else order
    patches_of = patched_tables(scheme, options, rows, numbers)
    within = np.zeros(PATCH, np.int32) if one_chunk else np.pad(members(inside, order).ravel(), (0, PATCH))
    return patches_of.described(
        pick=det.greatest_vertex, read=patches.read_bounds, cone_chunks=int(one_chunk),
        method=det.DetPmf(**vars(patches_of.method), within=within),
    )


def _cones(scheme: Scheme, options: PmfOptions, closed: bool) -> npt.NDArray[np.bool_]:
    cos_angle, symmetric = peak_rule(options).cos_angle, scheme.form.symmetric
    return cones(scheme.vertices_and_edges[0], cos_angle, symmetric=symmetric, closed=closed)


@dataclass(frozen=True, eq=False)
class PatchedTables:
    """The tables of a getter that takes a vertex within the greatest angle.

    Parameters
    ----------
    tables : PmfTables
        Those that all getters of orientation functions have.
    method : PatchedPmf
        The kernels' record.
    bounds : int
        Channel of the first patch's bound in a row.
    stored : bool
        Whether rows hold samples.
    """

    tables: PmfTables
    method: patches.PatchedPmf
    bounds: int
    stored: bool

    @property
    def first_chunk(self) -> int:
        """First chunk of a row that is read at a point."""
        return self.bounds // PATCH if self.stored else 0

    def described(self, **fields: object) -> tuple[PmfGetter, Rows]:
        """Return a :class:`PatchedGetter` and its rows; see :meth:`.pmf.PmfTables.described`."""
        samples = {"amplitudes": patches.amplitudes_in_place, "read_all": patches.read_patches} if self.stored else {}
        return self.tables.described(
            PatchedGetter, stored=int(self.stored), bounds=self.bounds, first_chunk=self.first_chunk,
            amplitudes_at=patches.samples_at if self.stored else patches.harmonics_at, **samples, **fields,
        )


def patched_tables(scheme: Scheme, options: PmfOptions, rows: PmfRows, numbers: Array) -> PatchedTables:
    """Make the tables of a getter that takes a vertex within the greatest angle.

    Parameters
    ----------
    scheme, options : Scheme, PmfOptions
        As for :func:`.pmf.pmf_tables`.
    rows : PmfRows
        The layout of the rows without bounds.
    numbers : (n,) int32
        Vertices of the patches, see :func:`tistreamlines.space.cones.divide_sphere`, and of further chunks of 32.
    """
    vertices, _ = scheme.vertices_and_edges
    order, start, stored = numbers[: round_up(len(vertices))], rows.count, rows.half_order == 0
    behind = len(order) // PATCH + scheme.maps
    if stored and start % PATCH + behind > PATCH:
        start = round_up(start)  # so that a step reads one chunk besides the patches
    aligned = round_up(start, LINE)
    if round_up(aligned + behind) == round_up(start + behind):
        start = aligned  # bounds are read from rows that were just stored: that takes longer if they lie in two lines
    tables = pmf_tables(scheme, options, rows=add_bounds(rows, vertices, order, start))
    known = np.minimum(np.maximum(numbers, ~numbers), len(vertices) - 1)
    places = vertices[known].reshape(-1, 32, 3).transpose(0, 2, 1)
    method = patches.PatchedPmf(**vars(tables.method), numbers=numbers, places=places.ravel())
    return PatchedTables(tables, method, start, stored)


def add_bounds(rows: PmfRows, vertices: Array, numbers: Array, start: int) -> PmfRows:
    """Return rows with the samples of each patch together, and from number ``start`` on a bound of those of each patch.

    No sample is above the bound of its patch, also as kernels interpolate and evaluate the function, with rounding.
    """
    used, chunks = numbers >= 0, len(numbers) // PATCH
    order, functions = numbers[used], np.zeros((len(numbers), rows.count), np.float32)
    if rows.half_order:
        functions[used] = monomials(vertices[order], 2 * rows.half_order)

    def fill(values: Array) -> Array:
        content = np.asarray(rows.fill(values), np.float32)
        if rows.half_order:
            samples = functions @ content.T
        else:
            content, samples = content[:, order], np.zeros((len(numbers), len(content)), np.float32)
            samples[used] = content.T
        # along the first axis, which takes a quarter of the time of the last one
        highest = np.maximum(samples.reshape(chunks, PATCH, -1).max(axis=1).T, 0.0)
        sizes = np.abs(content).sum(axis=1, keepdims=True) if rows.half_order else highest
        filled = np.zeros((len(content), start + chunks), np.float32)
        filled[:, : rows.count] = content
        filled[:, start:] = highest + ROUNDING * sizes
        return filled

    return PmfRows(rows.half_order, start + chunks, fill)
