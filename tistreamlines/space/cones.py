"""Cones around directions: the vertices in them, patches of neighbouring vertices, and grids that cover them.

The rejection sampling of iFOD1 and iFOD2 takes its bound from a grid, as in MRtrix3. The grid is hexagonal. Its spacing
is the one with which fewest directions have to be looked at, on average, for a fibre of one direction: a finer grid has
more directions, and a coarser one bounds the probability less tightly.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ..aliases import Array
from ..errors import InputError
from .sphere import compact_order, products, round_up

PATCH = 32  # vertices
FINEST = 0.001  # radians between the angles that are tried for the spacing of a grid


def cones(vertices: Array, cos_angle: float, *, symmetric: bool, closed: bool) -> npt.NDArray[np.bool_]:
    """Find the vertices within an angle of each vertex and, unless the sphere is symmetric, of its opposite.

    Parameters
    ----------
    vertices : (n, 3)
        Unit vectors.
    cos_angle : float
        Cosine of the angle.
    symmetric : bool
        Whether each vertex also represents its opposite.
    closed : bool
        Whether vertices at just this angle belong to the cone.

    Returns
    -------
    (n or 2 n, n) bool
        The vertices in the cone, of vertex v in row v, or in rows 2 v and 2 v + 1 of it and its opposite.
    """
    # in float32, as kernels find whether a direction is in the cone
    points, least = np.asarray(vertices, np.float32), np.float32(cos_angle)
    headings = points if symmetric else np.stack([points, -points], axis=1).reshape(-1, 3)
    cosines = products(headings, points)
    cosines = np.abs(cosines) if symmetric else cosines
    return cosines >= least if closed else cosines > least


def cone_lists(inside: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """List the vertices in each cone by rising number.

    Parameters
    ----------
    inside : (m, n) bool
        See :func:`cones`.

    Returns
    -------
    numbers : (m, chunks, 32) int32
        Vertices in the cone, then ~number of others.
    used : (m, chunks) int32
        0 for a chunk with vertices, else -1.
    """
    counts = inside.sum(axis=1)
    width = round_up(max(int(counts.max()), 1))
    # a stable sort brings the vertices inside to the front
    order = np.argsort(~_pad_cones(inside), axis=1, kind="stable")[:, :width]
    numbers = np.where(np.arange(width) < counts[:, None], order, ~order).astype(np.int32)
    numbers = numbers.reshape(len(inside), -1, PATCH)
    return numbers, np.where(numbers[..., 0] >= 0, 0, -1).astype(np.int32)


def cone_lists_by_patches(
    inside: npt.NDArray[np.bool_], order: Array, together: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """List the vertices in each cone by the patches that it touches.

    Parameters
    ----------
    inside : (m, n) bool
        See :func:`cones`.
    order : (32 p,) int32
        See :func:`divide_sphere`.
    together : int
        So many chunks are read at a time.

    Returns
    -------
    numbers : (m, chunks, 32) int32
        The vertices of a patch, ~number of one outside the cone.
    used : (m, chunks) int32
        The patch of each chunk, of which one may be there again; -1 for so many chunks that have none.
    """
    known, patches = _by_patches(inside, order)
    reached = known.any(axis=2)
    chunks = round_up(max(int(reached.sum(axis=1).max()), 1), together)
    ranked = np.argsort(~reached, axis=1, kind="stable")[:, :chunks]
    ranked = np.pad(ranked, ((0, 0), (0, chunks - ranked.shape[1])), mode="edge")
    count = reached.sum(axis=1, keepdims=True)
    ranked = np.where(np.arange(chunks) < np.maximum(count, 1), ranked, ranked[:, :1])
    used = np.where(np.arange(chunks) // together * together < count, ranked, -1).astype(np.int32)
    there, numbers = np.take_along_axis(known, ranked[..., None], axis=1), patches[ranked]
    there = there & (np.arange(chunks) < count)[..., None]
    return np.where(there, numbers, ~numbers).astype(np.int32), used


def patches_touched(inside: npt.NDArray[np.bool_], order: Array) -> npt.NDArray[np.int32]:
    """Find the patches that each cone touches.

    Parameters
    ----------
    inside : (m, n) bool
        See :func:`cones`.
    order : (32 p,) int32
        See :func:`divide_sphere`; at most 32 patches.

    Returns
    -------
    (m,) int32
        One bit for each patch, the lowest for the first one: 1 if it has vertices in the cone.
    """
    reached = members(inside, order) != 0
    bits = np.uint32(1) << np.arange(len(order) // PATCH, dtype=np.uint32)
    return np.where(reached, bits, 0).sum(axis=1).astype(np.uint32).view(np.int32)


def members(inside: npt.NDArray[np.bool_], order: Array) -> npt.NDArray[np.int32]:
    """Find the vertices of each patch in each cone.

    Parameters
    ----------
    inside, order : as for :func:`patches_touched`

    Returns
    -------
    (m, p) int32
        One bit for each vertex of the patch, the lowest for the first one: 1 if it is in the cone.
    """
    known, _ = _by_patches(inside, order)
    return np.packbits(known, axis=2, bitorder="little").view("<u4")[..., 0].astype(np.uint32).view(np.int32)


def _by_patches(inside: npt.NDArray[np.bool_], order: Array) -> tuple[npt.NDArray[np.bool_], Array]:
    """Return whether the vertices of each patch are in each cone, (m, p, 32), and the numbers of these, (p, 32)."""
    patches = np.maximum(order, ~order).reshape(-1, PATCH)
    return _pad_cones(inside)[:, patches], patches


def _pad_cones(inside: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return cones (m, n) with vertices that do not exist, up to a multiple of 32, and are in none."""
    return np.pad(inside, ((0, 0), (0, round_up(inside.shape[1]) - inside.shape[1])))


def divide_sphere(vertices: Array) -> npt.NDArray[np.int32]:
    """Divide vertices (n, 3) into compact patches of 32: return the numbers of those of each patch, (32 p,) int32.

    Where the last patch has no more, there is ~number of vertices that do not exist, from n on.
    """
    order, count = compact_order(np.asarray(vertices, float), PATCH), len(vertices)
    return np.concatenate([order, ~np.arange(count, round_up(count))]).astype(np.int32)


def ascending(order: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Return the same patches, each of which has its vertices by rising number; then come those that do not exist."""
    patches = order.reshape(-1, PATCH)
    rank = np.argsort(np.maximum(patches, ~patches), axis=1, kind="stable")
    return np.take_along_axis(patches, rank, axis=1).ravel()

def hexagonal(widest: float, spacing: float) -> Array:
    """Return angles and azimuths, (n, 2), of a hexagonal grid about an axis, up to an angle from it; all in radians."""
    extent = math.ceil(widest / spacing)
    i, j = np.mgrid[-extent : extent + 1, -extent : extent + 1].reshape(2, -1)
    x, y = i + 0.5 * j, math.sqrt(0.75) * j
    squared = x**2 + y**2
    inside = squared <= (widest / spacing) ** 2
    return np.stack([spacing * np.sqrt(squared), np.arctan2(y, x)], axis=1)[inside]


def cone_grid(widest: float, probability: Callable[[float], float]) -> tuple[Array, float]:
    """Return the grid for a cone, and the bound.

    Parameters
    ----------
    widest : float
        Greatest angle from the axis of the cone, radians.
    probability : callable
        That of a step which turns by an angle (radians) off a fibre's direction, in any scale.

    Returns
    -------
    grid : (n, 2) float64
        Angle from the axis and azimuth of each direction, radians. It reaches beyond the cone by its own spacing.
    ratio : float
        How much more probable than the best direction of the grid a direction of the cone can be.
    """
    angles = np.arange(0.0, widest, FINEST).tolist()
    odds = np.array([probability(angle) for angle in angles])
    ends = np.flatnonzero(~(odds > 0))
    last = int(ends[0]) if len(ends) else len(angles) - 1
    zero, best, fewest = angles[last], last, math.inf
    for k in range(last, 0, -1):
        if not odds[k] > 0:
            continue
        drawn = widest**2 * (1 + odds[0] / odds[k]) / (2 * zero**2)
        # the hexagons around the grid's directions cover the cone, so that these are at least as many as fit into it
        if drawn + math.pi * widest**2 / (1.5 * math.sqrt(3) * angles[k] ** 2) > fewest + 1:
            continue
        count = drawn + len(hexagonal(widest + angles[k], math.sqrt(3) * angles[k]))
        if count <= fewest:
            best, fewest = k, count
    if not math.isfinite(fewest):
        raise InputError("no direction but a fibre's own is probable: give a lower power, or a flatter response")
    return hexagonal(widest + angles[best], math.sqrt(3) * angles[best]), float(odds[0] / odds[best])
