"""A geodesic half sphere of directions: an icosahedron whose triangles are bisected, with quadrature weights.

Four bisections give the 1,281 directions with which MRtrix3 segments orientation functions (``DWI::Directions``).
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from numpy.polynomial import Legendre

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
BISECTIONS = 4
ORDER = 48  # the highest with no more harmonics than directions
TOLERANCE = 1e-9  # of the greatest singular value: smaller ones are 0 but for rounding
GOLDEN = (1 + math.sqrt(5)) / 2


@lru_cache(maxsize=2)
def half_sphere(bisections: int = BISECTIONS) -> tuple[Floats, Indices]:
    """Return directions, one for each axis, and which of them are adjacent.

    Parameters
    ----------
    bisections : int
        How often each edge is bisected. Without any, the directions are those of the icosahedron's vertices.

    Returns
    -------
    directions : (n, 3) float64
        Unit vectors, n = 5 * 4^bisections + 1. A direction stands for its opposite too.
    edges : (m, 2) int64
        Pairs of adjacent directions, each once, the lower number first. One may be adjacent to the other's opposite.
    """
    vertices, triangles = _icosahedron()
    for _ in range(bisections):
        vertices, triangles = _bisect(vertices, triangles)
    place = {key: number for number, key in enumerate(map(_key, vertices))}
    opposite = np.array([place[_key(-vertex)] for vertex in vertices])
    numbers = np.arange(len(vertices))
    first = np.minimum(numbers, opposite)
    kept, axis = np.unique(first, return_inverse=True)
    return vertices[kept], np.unique(np.sort(axis[_edges(triangles)], axis=1), axis=0)


@lru_cache(maxsize=2)
def quadrature_weights(bisections: int = BISECTIONS, order: int = ORDER) -> Floats:
    """Return the weights with which sums over the half sphere are integrals over the sphere.

    Parameters
    ----------
    bisections : int
        As for :func:`half_sphere`.
    order : int
        Even order up to which all harmonics are integrated exactly.

    Returns
    -------
    (n,) float64
        Of all such weights, those with the least sum of squares. They sum to 4 pi.
    """
    # With the harmonics H (n, m) and their integrals b, w = H (H'H)^-1 b = (HH')^+ H b. Here H b is 1, and HH' is the
    # sum of (2 l + 1) P_l / 4 pi over even degrees l, a derivative. Equivalent directions have equal weights.
    directions = half_sphere(bisections)[0]
    first, orbit, size = _orbits(directions)
    kernel = Legendre.basis(order + 1).deriv()(np.clip(directions[first] @ directions.T, -1, 1)) / (4 * math.pi)
    together = kernel @ np.eye(len(first))[orbit]
    root = np.sqrt(size)
    solution = np.linalg.lstsq(root[:, None] * together / root, root, rcond=TOLERANCE)[0]
    return (solution / root)[orbit]


def _orbits(directions: Floats) -> tuple[Indices, Indices, Indices]:
    """Tell which directions are the same but for signs and the order of axes: the first one, numbers, and sizes."""
    sides = np.abs(directions).round(6)
    turns = np.stack([np.roll(sides, turn, axis=1) for turn in range(3)], axis=1)
    keys = np.array([min(map(tuple, turn)) for turn in turns.tolist()])
    return np.unique(keys, axis=0, return_index=True, return_inverse=True, return_counts=True)[1:]


def _icosahedron() -> tuple[Floats, Indices]:
    """Return the twelve vertices, (+-1, 0, +-golden ratio) and its cyclic permutations, and the 20 faces."""
    signs = itertools.product((1.0, -1.0), repeat=2)
    corners = np.array([np.roll((a, 0.0, b * GOLDEN), turn) for a, b in signs for turn in range(3)])
    corners /= np.linalg.norm(corners[0])
    near = corners @ corners.T > 0.4  # neighbours have a cosine of 1 / sqrt(5), others less
    faces = [(a, b, c) for a, b, c in itertools.combinations(range(12), 3) if near[a, b] and near[a, c] and near[b, c]]
    return corners, np.array(faces)


def _bisect(vertices: Floats, triangles: Indices) -> tuple[Floats, Indices]:
    """Return the vertices and the middles of all edges, on the sphere, and four triangles for each."""
    edges = _edges(triangles)
    middles = vertices[edges[:, 0]] + vertices[edges[:, 1]]
    middles /= np.linalg.norm(middles, axis=1, keepdims=True)
    number = {(int(a), int(b)): len(vertices) + k for k, (a, b) in enumerate(edges)}
    smaller = []
    for triangle in triangles:
        a, b, c = sorted(map(int, triangle))
        ab, ac, bc = number[a, b], number[a, c], number[b, c]
        smaller += [(a, ab, ac), (b, ab, bc), (c, ac, bc), (ab, ac, bc)]
    return np.concatenate([vertices, middles]), np.array(smaller)


def _edges(triangles: Indices) -> Indices:
    """Return each edge of the triangles once, the lower number first."""
    return np.unique(np.sort(triangles[:, [0, 1, 0, 2, 1, 2]].reshape(-1, 2), axis=1), axis=0)


def _key(vertex: Floats) -> tuple[float, ...]:
    """Return what tells a vertex from others: its coordinates, without what rounding has left."""
    return tuple(map(float, np.round(vertex, 6) + 0.0))
