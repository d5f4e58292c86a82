"""Which side of a surface is outside."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...io.images import Tell
from ...io.surfaces import Surface
from ...option import flag


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
