"""Initial directions of seeds instead of the peaks that the kernel ``start`` finds: normals of surfaces, and codes."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ...aliases import Array
from ...backends.numba.cache import Function
from ...devices.threads import in_threads
from ...errors import InputError, ParameterError
from ...io.images import Tell
from ...io.surfaces import Surface
from ...option import flag
from ...space.batch import Space
from ...space.sphere import closest_vertices
from ..tables.inputs import KernelTables

KERNELS = Path(__file__).with_name("directed_kernels.py")
BLOCK = 512  # directions that are compared with all vertices at once
UNIT = 1e-3  # how far a length may be from 1
Floats = npt.NDArray[np.float64]


def senses_of(surface: Surface, note: Tell, warn: Tell) -> npt.NDArray[np.float64]:
    """Return 1 or -1 for each triangle, by which its normal is multiplied to point out of the surface, (m,).

    The volume that triangles enclose is the sum of those of tetrahedra with the origin, and negative if their vertices
    are clockwise seen from outside.

    Parameters
    ----------
    surface : Surface
    note, warn : callable
        Receive a message if normals are turned, and a warning if the surface is not closed, so that its triangles alone
        say where its outside is.

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


def are_codes(directions: Array) -> bool:
    """Whether codes, (n,) int32, stand for directions, since they were found before."""
    return np.ndim(directions) == 1 and directions.dtype == np.int32


def check_shapes(directions: Array | None, seeds: Array) -> None:
    """Raise ParameterError if directions, if there are any, have another shape than their seeds, (n, 3)."""
    if directions is not None and np.shape(directions) != np.shape(seeds) and not are_codes(directions):
        raise ParameterError(
            f"directions have shape {np.shape(directions)}: give {np.shape(seeds)}, one for each seed"
        )


@cache
def _code_directions() -> Function:
    """Return the kernel that finds codes: in one call, since after each one the caller may wait for Python's lock."""
    from ...backends.numba.program import text_with
    from ...kernels.getters.shared import encode_directions

    return Function(text_with([encode_directions], KERNELS), "code_directions")


def initial_codes(
    directions: Array, seeds: Array, prepared: KernelTables, threads: int | None = None, first: int = 0
) -> npt.NDArray[np.int32]:
    """Return the codes of given directions: of the vertices nearest to them, or their own where steps go anywhere.

    Parameters
    ----------
    directions : (n, 3)
        Unit vectors along the voxel axes.
    seeds : (n, 3) float32, voxel
        The seeds that the directions belong to.
    prepared : KernelTables
        The tables of the method, whose sphere is used.
    threads : int, optional
        CPU threads; one per core by default.
    first : int, optional
        Number of the first one, for messages.

    Returns
    -------
    (n,) int32
        Twice the vertex, plus one where the direction is nearer to the opposite of the vertex, or a code of
        :func:`tistreamlines.kernels.getters.shared.encode_direction`; -1 for a seed outside the image, which has no
        direction.

    Raises
    ------
    ParameterError
        If there is not one unit vector for each seed, or the method begins with the fibres of a voxel.
    """
    check_shapes(directions, seeds)
    directions, seeds = np.ascontiguousarray(directions, np.float64), np.ascontiguousarray(seeds, np.float32)
    getter = prepared.getter
    if not getter.aimed and "sphere" not in vars(getter.method):
        raise ParameterError(
            "the direction getter begins with the fibres of a voxel: give seeds without directions, and leave out "
            f"{flag('surface_direction')} and {flag('seed_dynamic')}"
        )
    codes, bad, memory = np.empty(len(seeds), np.int32), np.full(1, len(seeds)), np.empty(3, np.float32)
    image = seeds, prepared.arrays["volume_shape"]
    _code_directions()(directions, *image, UNIT, memory, np.empty(1, np.int32), codes, bad)
    if bad[0] < len(seeds):
        raise ParameterError(f"direction {first + bad[0]} is {directions[bad[0]].tolist()}: give unit vectors")
    if getter.aimed:
        return codes
    sphere, symmetric = vars(getter.method)["sphere"], bool(getter.symmetric)
    # float32, with which the kernels compute and which a cache of tables holds
    vertices = np.asarray(sphere.vertices, np.float32).astype(np.float64).reshape(3, -1)[:, : sphere.count].T

    def code_block(first: int) -> Array:
        block = directions[first : first + BLOCK]
        near = closest_vertices(block, vertices, symmetric)
        return 2 * near + ((block * vertices[near]).sum(axis=1) < 0)

    nearest = np.concatenate([np.empty(0, np.int32), *in_threads(code_block, range(0, len(seeds), BLOCK), threads)])
    return np.where(codes < 0, codes, nearest).astype(np.int32)
