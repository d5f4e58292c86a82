"""The sphere of sampling directions, and its tables for the kernels: neighbours, and where a vertex is nearest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import combinations, combinations_with_replacement

import numpy as np

from ..aliases import Array
from ..errors import ParameterError
from ..kernels.lanes import HALF_WIDTH, Cells
from ..kernels.orientation.peaks import Sphere
from ..linker.parts import Part, host
from .harmonics import angles_of

MOST_COMPARED = 12  # neighbours of a vertex among which those of ``around`` are chosen
MOST_VERTICES = 992  # 31 chunks of 32: a lane uses one bit of a word for each chunk
SIZE = 48  # cells along an edge of each of the three maps
USUAL = 16  # vertices near most of the cells
WORD = 30  # bits of a word for vertex indices
TWIN = 1e-9  # difference of cosines that rounding may cause
OPPOSITE = 1e-3  # maximum distance between a vertex and the opposite of another to count as a pair
SAME = 1 - 1e-9  # cosine between vertices above which they count as one
SPHERES = {"default": ("repulsion724", True), "full": ("repulsion724", False), "small": ("symmetric362", True)}
# of DIPY; its get_sphere would import 120 modules in 0.1 s
FILES = {"repulsion724": "repulsion724.npz", "symmetric362": "evenly_distributed_sphere_362.npz"}


def round_up(n: int, together: int = 32) -> int:
    """Return ``n`` rounded up to a multiple of ``together``."""
    return -(-n // together) * together


def load_sphere(sphere: str | tuple[Array, Array]) -> tuple[Array, Array]:
    """Return the vertices (n, 3) and edges (m, 2) of a sphere of SPHERES; such a pair is returned unchanged."""
    if not isinstance(sphere, str):
        return sphere
    vertices, edges = _stored(sphere)
    return vertices.copy(), edges.copy()  # which callers may change


@cache
def _stored(sphere: str) -> tuple[Array, Array]:
    """Read a sphere, once."""
    from importlib import resources

    name, half = SPHERES[sphere]
    with (resources.files("dipy") / "data" / "files" / FILES[name]).open("rb") as file, np.load(file) as tables:
        vertices, faces = _rounded(tables["vertices"]), tables["faces"].astype(np.int64)
    edges = _unique_pairs(faces[:, [0, 1, 1, 2, 0, 2]].reshape(-1, 2))
    return _hemisphere(vertices, edges) if half else (vertices, edges)


def _hemisphere(vertices: Array, edges: Array) -> tuple[Array, Array]:
    """Return the first vertex of each pair of opposite ones, turned to where z is not negative, and their edges."""
    first = (np.abs(vertices @ vertices.T) > SAME).argmax(axis=1)
    kept, number = np.unique(first, return_inverse=True)
    halved = vertices[kept]
    return _rounded(np.where(halved[:, 2:] < 0, -halved, halved)), _unique_pairs(number[edges])


def _rounded(vertices: Array) -> Array:
    """Return vertices (n, 3) as DIPY's Sphere has them, which stores two angles."""
    polar, azimuth = angles_of(vertices.astype(float))
    across = np.sin(polar)
    return np.column_stack([np.cos(azimuth) * across, np.sin(azimuth) * across, np.cos(polar)])


def _unique_pairs(pairs: Array) -> Array:
    """Return each pair (n, 2) of numbers once, the lower number first, in the order of the higher one."""
    return np.unique(np.sort(pairs, axis=1)[:, ::-1], axis=0)[:, ::-1]


def most_peaks(vertices: int, min_separation_angle: float, symmetric: bool = True) -> int:
    """Return the maximum number of peaks with a minimum angle (degrees) between them, from the area of their caps."""
    if min_separation_angle <= 0:
        return vertices
    cap = 1 - math.cos(math.radians(min_separation_angle) / 2)
    if cap * vertices < 1:  # the cap of a tiny angle may be 0
        return vertices
    return min(vertices, int((1 if symmetric else 2) / cap) + 1)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Ball(Part):
    """The constants of a sphere, see ``kernels/orientation/peaks.py``, and the bits of a direction's code."""

    vertex_chunks: int
    neighbours: int
    around_bits: int
    code_bits: int = host()


def sphere_tables(vertices: Array, edges: Array, limit: int = MOST_VERTICES) -> tuple[Ball, Sphere]:
    """Return the constants of a sphere, and the kernels' record of it.

    Parameters
    ----------
    vertices : (n, 3)
        Unit vectors.
    edges : (m, 2)
        Pairs of vertex indices.
    limit : int
        Greatest number of vertices that the kernels can take.

    Raises
    ------
    ParameterError
        If the sphere has too many vertices for the kernels, or a vertex without an edge.
    """
    count = len(vertices)
    if count > limit:
        raise ParameterError(
            f"the sphere has {count} vertices, but the limit is {limit}: use a smaller sphere, such as "
            "DIPY's repulsion724 or symmetric642, or the hemisphere of a symmetric one"
        )
    width = round_up(count)
    near: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges:
        near[a].append(int(b))
        near[b].append(int(a))
    alone = [i for i, row in enumerate(near) if not row]
    if alone:
        raise ParameterError(f"vertex {alone[0]} of the sphere has no edge: give edges that connect every vertex")
    most = max(map(len, near))
    neighbours = np.tile(np.arange(width, dtype=np.int32), (most, 1))
    for i, row in enumerate(near):
        neighbours[:, i] = [row[rank % len(row)] for rank in range(most)]
    # padding repeats vertex 0, so that the minimum and maximum of samples do not change
    padding = np.concatenate([vertices, np.repeat(vertices[:1], width - count, axis=0)])
    bits = 10 if count <= 1 << 10 else 15
    ball = Ball(
        vertex_chunks=width // 32, neighbours=most, around_bits=bits, code_bits=(2 * count - 1).bit_length()
    )
    pairs = [neighbours[rank] | (neighbours[rank + 1] << 16) for rank in range(0, most - 1, 2)]
    packed = np.array(pairs + [neighbours[-1]] * (most % 2), np.int32)
    around = _around(padding, neighbours[:MOST_COMPARED], bits)
    return ball, Sphere(vertices=padding.T.ravel(), neighbours=packed.ravel(), around=around, count=count)


def _around(vertices: Array, neighbours: Array, bits: int) -> Array:
    """Return a word for each vertex (n, 3), with the neighbours (of k, n) that are spread most evenly around it."""
    number = 30 // bits
    ranks = np.array([*combinations_with_replacement(range(len(neighbours)), number)])
    there = vertices[neighbours]
    along = np.einsum("knx,nx->kn", there, vertices)[..., None]
    away = np.sign(along) * (there - along * vertices)  # on a hemisphere, a neighbour may be the opposite of one
    away /= np.maximum(np.linalg.norm(away, axis=-1, keepdims=True), np.finfo(float).tiny)
    cosines = np.einsum("anx,bnx->abn", away, away)
    closest = np.max([cosines[ranks[:, a], ranks[:, b]] for a, b in combinations(range(number), 2)], axis=0)
    chosen = np.take_along_axis(neighbours, ranks[closest.argmin(axis=0)].T, axis=0)
    return (chosen << (bits * np.arange(number, dtype=np.int32))[:, None]).sum(axis=0, dtype=np.int32)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class CellSizes(Part):
    """The constants of cells of directions, see ``kernels/lanes.py``."""

    cells: int
    cell_words: int
    cell_bits: int


def cell_table(vertices: Array, symmetric: bool = True) -> tuple[Cells, CellSizes]:
    """Divide directions into cells, and list for each cell the vertices that may be nearest to a direction in it.

    Parameters
    ----------
    vertices : (n, 3)
        Unit vectors.
    symmetric : bool
        Whether each vertex also represents its opposite; otherwise both are vertices, and cells list both.

    Returns
    -------
    cells : Cells
        Of 3 * CELLS * CELLS cells. A word holds several vertex indices in increasing order; a short list repeats its
        last one. ``further`` has the second words of all cells, then the third ones, and so on.
    sizes : CellSizes
        Their constants.
    """
    vertices = np.ascontiguousarray(vertices, float)
    words, bits = _table(vertices.tobytes(), len(vertices), symmetric)
    sizes = CellSizes(cells=SIZE, cell_words=len(words), cell_bits=bits)
    return Cells(first=words[0], further=words[1:].ravel()), sizes


def compact_order(vertices: Array, together: int = 16) -> Array:
    """Sort vertices so that neighbours share cache lines, of which probes in similar directions then read few.

    Parameters
    ----------
    vertices : (n, 3)
    together : int
        Number of float32 values in a cache line.

    Returns
    -------
    order : (n,) int64
        Vertex indices; each run of ``together`` of them lies in a separate box.
    """

    def split(numbers: Array) -> list[Array]:
        if len(numbers) <= together:
            return [numbers]
        axis = int(np.argmax(np.ptp(vertices[numbers], axis=0)))
        ranked = numbers[np.argsort(vertices[numbers, axis], kind="stable")]
        half = together * max(len(numbers) // (2 * together), 1)
        return split(ranked[:half]) + split(ranked[half:])

    return np.concatenate(split(np.arange(len(vertices))))


def products(directions: Array, vertices: Array) -> Array:
    """Return the scalar products (m, n) of directions (m, 3) and vertices (n, 3), the same on every machine."""
    # written out, because a matrix product may add in another order than DIPY and decide ties differently
    cosines = directions[:, None, 0] * vertices[:, 0]
    cosines += directions[:, None, 1] * vertices[:, 1]
    cosines += directions[:, None, 2] * vertices[:, 2]
    return cosines


def closest_vertices(directions: Array, vertices: Array, symmetric: bool = True) -> Array:
    """Return the vertex nearest to each direction, the first one of equals.

    Parameters
    ----------
    directions, vertices : (m, 3) and (n, 3) float64
        The vertices are unit vectors.
    symmetric : bool
        Whether each vertex also represents its opposite.

    Returns
    -------
    (m,) int64
    """
    cosines = products(directions, vertices)
    return np.argmax(np.abs(cosines, out=cosines) if symmetric else cosines, axis=1)


def without_opposite(vertices: Array) -> int:
    """Return the number of vertices (n, 3) whose opposite is not a vertex."""
    from scipy.spatial import KDTree

    away, _ = KDTree(vertices).query(-np.asarray(vertices))
    return int((away > OPPOSITE).sum())


@lru_cache(maxsize=4)
def _table(held: bytes, count: int, symmetric: bool) -> tuple[Array, int]:
    vertices = np.frombuffer(held).reshape(count, 3)
    bits = max(10, (count - 1).bit_length())
    together = WORD // bits
    faces = [_nearest(vertices, face, 0.0 if symmetric else TWIN) for face in range(3)]
    width = max(lists.shape[1] for lists in faces)
    lists = np.concatenate([
        np.pad(lists, ((0, 0), (0, width - lists.shape[1])), constant_values=count) for lists in faces
    ])
    most = int((lists < count).sum(axis=1).max())
    # no list is empty, so its last entry is its largest index
    lists = np.where(lists < count, lists, np.where(lists < count, lists, -1).max(axis=1, keepdims=True))
    words = max(-(-most // together), 2)  # an array cannot be empty
    wide = np.pad(lists, [(0, 0), (0, max(words * together - lists.shape[1], 0))], mode="edge")[:, : words * together]
    table = (wide.reshape(len(lists), words, together) << (bits * np.arange(together))).sum(axis=2).T.astype(np.int32)
    table[0] |= (wide[:, together - 1] < wide[:, -1]).astype(np.int32) << WORD
    return table, bits


def _nearest(vertices: Array, face: int, twin: float) -> Array:
    """Return the vertices that may be nearest to each cell of one map: (SIZE * SIZE, k), increasing, padded with n.

    A vertex is omitted if another one is nearer at all four corners of the cell, by more than the curvature of the
    sphere between them can change, and by more than ``twin``, which rounding can change for opposite vertices.
    """
    from scipy.spatial import KDTree

    lines = np.linspace(-HALF_WIDTH, HALF_WIDTH, SIZE + 1)
    u, v = np.meshgrid(lines, lines, indexing="ij")
    w = np.sqrt(np.maximum(1 - u * u - v * v, 0))
    corners = np.stack([(w, u, v), (u, w, v), (u, v, w)][face], axis=-1)
    four = [corners[:-1, :-1], corners[1:, :-1], corners[:-1, 1:], corners[1:, 1:]]
    four = np.stack([corner.reshape(-1, 3) for corner in four])
    centre = four.sum(axis=0)
    centre /= np.linalg.norm(centre, axis=1, keepdims=True)
    radius = np.linalg.norm(four - centre, axis=2).max(axis=0)
    both = np.concatenate([vertices, -vertices])
    tree = KDTree(both)
    # further away than the nearest one by two radii, and a little for the curvature, no vertex is nearest anywhere
    counts = tree.query_ball_point(centre, tree.query(centre)[0] + 3 * radius, return_length=True)
    counts = counts.clip(min(4, len(both)))  # comparison with the four nearest is enough
    lists = np.full((len(centre), counts.max()), len(vertices))
    for cells in (counts <= USUAL, counts > USUAL):  # a cell in a corner of the map is large
        if not cells.any():
            continue
        few = np.reshape(tree.query(centre[cells], int(counts[cells].max()))[1], (cells.sum(), -1))
        there = both[few]
        cosines = np.einsum("fcx,ckx->fck", four[:, cells], there)
        beaten = np.zeros(few.shape, bool)
        for rank in range(min(4, few.shape[1])):
            apart = np.linalg.norm(there - there[:, rank : rank + 1], axis=2)
            slack = np.maximum(apart * (1.5 * (2 * HALF_WIDTH / SIZE) ** 2 + 1e-6), twin)
            beaten |= (cosines[..., rank : rank + 1] - cosines).min(axis=0) > slack
        lists[cells, : few.shape[1]] = np.where(beaten, len(vertices), few % len(vertices))
    return np.sort(lists, axis=1)
