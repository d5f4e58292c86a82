"""Geometry of seeds: which side of a surface is outside, normals, directions, and a mask on a grid of its own."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...io.images import Tell
from ...io.surfaces import Surface
from ...option import flag
from ...space.batch import Space

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


def senses_of(surface: Surface, note: Tell, warn: Tell) -> npt.NDArray[np.float64]:
    """Return 1 or -1 for each triangle, by which its normal is multiplied to point out of the surface, (m,).

    The volume that triangles enclose is the sum of those of tetrahedra with the origin, and negative if their vertices
    are clockwise seen from outside.

    Parameters
    ----------
    surface : Surface
    note, warn : callable
        Are told if normals are turned, and if the surface is not closed, so that its triangles alone say where its
        outside is.

    Raises
    ------
    InputError
        If the triangles do not agree about the side.
    """
    triangles, count = surface.triangles, len(surface.vertices)
    real = (triangles != np.roll(triangles, 1, axis=1)).all(axis=1)
    ends = np.concatenate([triangles[real][:, pair] for pair in ([0, 1], [1, 2], [2, 0])])
    edges = np.sort(ends @ [count, 1])
    twice = np.flatnonzero(edges[1:] == edges[:-1])
    if len(twice):
        first, second = divmod(int(edges[twice[0]]), count)
        raise InputError(
            f"{surface.path}: two triangles pass the edge from vertex {first} to {second} in the same sense, so the "
            f"surface has no outside; correct it, or leave out {flag('surface_direction')}"
        )
    sense = 1.0
    if not np.array_equal(edges, np.sort(ends @ [1, count])):
        warn(
            f"{surface.path}: is not closed; its outside is taken to be where the vertices of its triangles are "
            "counter-clockwise"
        )
    else:
        first, second, third = (surface.vertices[triangles[:, number]] - surface.vertices[0] for number in range(3))
        if (first * np.cross(second, third)).sum() < 0:
            note(f"{surface.path}: the vertices of its triangles are clockwise seen from outside; normals are turned")
            sense = -1.0
    return np.full(len(triangles), sense)


class SeedMask(NamedTuple):
    """Voxels outside of which no seed may lie.

    Parameters
    ----------
    inside : (x, y, z) bool
    space : Space
        Their grid.
    """

    inside: Flags
    space: Space

    def holds(self, points: Floats) -> Flags:
        """Return which points (n, 3), RASmm, lie in a voxel of the mask."""
        voxels = np.floor(self.space.to_voxel(points) + 0.5)
        within = ((voxels >= 0) & (voxels < self.inside.shape)).all(axis=1)
        held = np.zeros(len(points), bool)
        held[within] = self.inside[tuple(voxels[within].astype(int).T)]
        return held

    def touches(self, low: Floats, high: Floats) -> Flags:
        """Return which boxes, from ``low`` to ``high``, (m, 3) in voxel coordinates, have a part in a voxel of it."""
        sums = np.pad(self.inside, ((1, 0),) * 3).astype(np.int64)
        for axis in range(3):
            sums = sums.cumsum(axis)
        ends = [np.clip(np.floor(side), 0, self.inside.shape).astype(int) for side in (low + 0.5, high + 1.5)]
        count = np.zeros(len(low), np.int64)
        for corner in np.ndindex(2, 2, 2):
            place = tuple(ends[end][:, axis] for axis, end in enumerate(corner))
            count += (-1) ** (3 - sum(corner)) * sums[place]
        return count > 0


def normals_of(vertices: Floats, triangles: npt.NDArray[np.int64]) -> Floats:
    """Return the normals of triangles (m, 3), as long as twice their areas."""
    first, second, third = (vertices[triangles[:, number]] for number in range(3))
    return np.cross(second - first, third - first)


def lengths_of(vectors: Floats) -> Floats:
    """Return the lengths of vectors (n, 3); sums in this order have the same bits everywhere."""
    x, y, z = vectors.T
    return np.sqrt(x * x + y * y + z * z)


def along_voxel_axes(directions: npt.NDArray[np.float64], space: Space) -> npt.NDArray[np.float64]:
    """Return unit vectors along the voxel axes (n, 3), of directions (n, 3) of any length in RAS.

    A step along such a vector, in mm, leads along the direction in RASmm, also on a grid that is not rectangular.
    """
    directions = directions / np.abs(directions).max(axis=1, keepdims=True)  # their squares cannot overflow
    turned = directions @ np.linalg.inv(space.affine[:3, :3]).T * space.voxel_sizes
    return turned / np.linalg.norm(turned, axis=1, keepdims=True)
