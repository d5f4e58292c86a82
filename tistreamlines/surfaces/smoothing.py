"""Smoothing of surfaces that keeps their features, by one pass without iteration (Jones et al. 2003).

The plane of each triangle near a vertex predicts where the vertex lies, and the new vertex is a mean of these places.
Triangles of more area, nearer centres and nearer planes weigh more. The normals of the planes are those of a surface
that was smoothed itself. As in MRtrix3's ``meshfilter smooth``, a neighbourhood grows in eight rounds.

References
----------
Jones TR, Durand F, Desbrun M. Non-iterative, feature-preserving mesh smoothing. ACM Transactions on Graphics 22, 2003.
doi:10.1145/882262.882367
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..aliases import csr_matrix
from ..backends.numba.cache import Function, text_of
from ..io.surfaces import Surface

EXTENT = 10.0  # mm: standard deviations of both weights, as in meshfilter
FEWEST = 9  # vertices of a surface that is smoothed
_kernels = text_of(Path(__file__).with_name("smoothing_kernels.py"))
_centres, _predictions = Function(_kernels, "mean_centres"), Function(_kernels, "mean_predictions")

Floats = npt.NDArray[np.float64]
Rows = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]


def smooth(surface: Surface, extent: float = EXTENT) -> Surface:
    """Return a smooth surface.

    Parameters
    ----------
    surface : Surface
        Closed; one of few vertices stays as it is.
    extent : float
        Standard deviations of the weights by distance and by how far a plane is, mm.

    Returns
    -------
    Surface
    """
    vertices, triangles = surface.vertices, surface.triangles
    if len(vertices) < FEWEST:
        return surface
    centres = vertices[triangles].mean(axis=1)
    areas = 0.5 * np.linalg.norm(_crosses(vertices, triangles), axis=1)
    incident, adjacent = _graph(triangles, len(vertices))
    seen, queue = np.full(len(triangles), -1), np.zeros(len(triangles), np.int64)
    graph = incident, adjacent, seen, queue
    flat, out = np.empty_like(vertices), np.empty_like(vertices)
    sharpness = 0.5 / extent**2
    _centres(vertices, centres, areas, graph, 4 * sharpness, flat)  # of half the extent
    normals = _crosses(flat, triangles)
    lengths = np.linalg.norm(normals, axis=1, keepdims=True)
    normals = np.divide(normals, lengths, where=lengths > 0, out=np.zeros_like(normals))
    seen[:] = -1
    _predictions(vertices, centres, areas, normals, graph, (sharpness, sharpness), out)
    return Surface(out, triangles, surface.path)


def _crosses(vertices: Floats, triangles: npt.NDArray[np.int64]) -> Floats:
    """Return the normal of each triangle, twice as long as its area."""
    a, b, c = np.moveaxis(vertices[triangles], 1, 0)
    return np.cross(b - a, c - a)


def _graph(triangles: npt.NDArray[np.int64], vertices: int) -> tuple[Rows, Rows]:
    """Return the triangles at each vertex, and those that share an edge with each triangle: row starts, and numbers."""
    from scipy import sparse

    numbers = np.repeat(np.arange(len(triangles)), 3)
    ones = np.ones(len(numbers), np.int8)
    incident = sparse.csr_matrix((ones, (triangles.ravel(), numbers)), (vertices, len(triangles)))
    ends = np.sort(triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    _, edges = np.unique(ends @ [vertices, 1], return_inverse=True)
    sides = sparse.csr_matrix((ones, (edges.ravel(), numbers)))
    return _rows(incident), _rows((sides.T @ sides).tocsr())


def _rows(matrix: csr_matrix) -> Rows:
    """Return where each row of a matrix begins, and the columns of its entries."""
    matrix.sort_indices()
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
