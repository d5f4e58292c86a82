"""The sampled sphere, laid out for the kernels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ParameterError
from ..kernels.peaks import Sphere

Array = npt.NDArray[Any]
MOST_VERTICES = 992  # a lane has one of 31 chunks in each bit of a word, and in five bits of a number
SPHERES = {"default": ("repulsion724", True), "full": ("repulsion724", False), "small": ("symmetric362", True)}


def padded(n: int, unit: int = 32) -> int:
    """``n`` rounded up to whole chunks of 32, or to another unit."""
    return -(-n // unit) * unit


def load_sphere(sphere: str | tuple[Array, Array]) -> tuple[Array, Array]:
    """Vertices (n, 3) and edges (m, 2) of a sphere of SPHERES; such a pair itself is handed back."""
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
    """Greatest number of peaks so many degrees apart: disjoint caps about them and their opposites fill the sphere."""
    if min_separation_angle <= 0:
        return vertices
    cap = 1 - math.cos(math.radians(min_separation_angle) / 2)
    if cap * vertices < 1:  # of a tiny angle the cap may be 0
        return vertices
    return min(vertices, int((1 if symmetric else 2) / cap) + 1)


def sphere_tables(vertices: Array, edges: Array) -> tuple[dict[str, int], Sphere]:
    """Constants and the record of the sphere that the kernels take.

    Raises
    ------
    ParameterError
        Where the sphere has more vertices than the kernels can count, or one without an edge.
    """
    count = len(vertices)
    if count > MOST_VERTICES:
        raise ParameterError(
            f"the sphere has {count} vertices, more than the {MOST_VERTICES} that the kernels can count: take a "
            "smaller one, such as DIPY's repulsion724 or symmetric642, or the hemisphere of a symmetric one"
        )
    width = padded(count)
    near: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges:
        near[a].append(int(b))
        near[b].append(int(a))
    alone = [i for i, row in enumerate(near) if not row]
    if alone:
        raise ParameterError(f"vertex {alone[0]} of the sphere has no edge: give edges that join each vertex to others")
    most = max(map(len, near))
    neighbours = np.tile(np.arange(width, dtype=np.int32), (most, 1))
    for i, row in enumerate(near):
        neighbours[:, i] = [row[rank % len(row)] for rank in range(most)]
    # a padding vertex copies vertex 0, so that it changes neither the least nor the greatest sample
    padding = np.concatenate([vertices, np.repeat(vertices[:1], width - count, axis=0)])
    constants = {
        "VERTEX_CHUNKS": width // 32, "NEIGHBOURS": most, "SYMMETRIC": 1,
        "CODE_BITS": (2 * count - 1).bit_length(),
    }  # fmt: skip
    pairs = [neighbours[rank] | (neighbours[rank + 1] << 16) for rank in range(0, most - 1, 2)]
    packed = np.array(pairs + [neighbours[-1]] * (most % 2), np.int32)
    return constants, Sphere(vertices=padding.T.ravel(), neighbours=packed.ravel(), count=count)
