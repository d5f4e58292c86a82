"""The sphere of sampling directions, and its tables for the kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement

import numpy as np

from ..aliases import Array
from ..errors import ParameterError
from ..kernels.orientation.peaks import Sphere
from ..linker.parts import Part, host

MOST_COMPARED = 12  # neighbours of a vertex among which those of ``around`` are chosen
MOST_VERTICES = 992  # 31 chunks of 32: a lane uses one bit of a word for each chunk
SPHERES = {"default": ("repulsion724", True), "full": ("repulsion724", False), "small": ("symmetric362", True)}


def padded(n: int, together: int = 32) -> int:
    """Return ``n`` rounded up to a multiple of ``together``."""
    return -(-n // together) * together


def load_sphere(sphere: str | tuple[Array, Array]) -> tuple[Array, Array]:
    """Return the vertices (n, 3) and edges (m, 2) of a sphere of SPHERES; such a pair is returned unchanged."""
    if not isinstance(sphere, str):
        return sphere
    from dipy.core.sphere import HemiSphere
    from dipy.data import get_sphere

    source, half = SPHERES[sphere]
    found = get_sphere(name=source)
    if half:
        found = HemiSphere.from_sphere(found)
    return np.asarray(found.vertices, float), np.asarray(found.edges, np.int64)


def most_peaks(vertices: int, min_separation_angle: float, symmetric: bool = True) -> int:
    """Return the maximum number of peaks with a minimum angle (degrees) between them, from the area of their caps."""
    if min_separation_angle <= 0:
        return vertices
    cap = 1 - math.cos(math.radians(min_separation_angle) / 2)
    if cap * vertices < 1:  # the cap of a tiny angle may be 0
        return vertices
    return min(vertices, int((1 if symmetric else 2) / cap) + 1)


@dataclass(frozen=True, kw_only=True, eq=False)
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
    width = padded(count)
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
