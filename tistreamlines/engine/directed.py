"""Seeds with given initial directions, in place of the peaks that the kernel ``start`` finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ParameterError
from ..methods.given import Prepared
from ..sphere.nearest_vertex import closest_vertices

Array = npt.NDArray[Any]
BLOCK = 1024  # directions that are compared with all vertices at once
UNIT = 1e-3  # how far a length may be from 1


def initial_codes(directions: Array, seeds: Array, prepared: Prepared) -> npt.NDArray[np.int32]:
    """Return the codes of the vertices nearest to given directions.

    Parameters
    ----------
    directions : (n, 3)
        Unit vectors along the voxel axes.
    seeds : (n, 3) float32, voxel
        The seeds that the directions belong to.
    prepared : Prepared
        The tables of the method, whose sphere is used.

    Returns
    -------
    (n,) int32
        Twice the vertex, plus one where the direction is nearer to the opposite of the vertex; -1 for a seed outside
        the image, which has no direction.

    Raises
    ------
    ParameterError
        If there is not one unit vector for each seed.
    """
    directions = np.asarray(directions, np.float64)
    if directions.shape != seeds.shape:
        raise ParameterError(f"directions have shape {directions.shape}: give {seeds.shape}, one for each seed")
    bad = np.flatnonzero(~(np.abs(np.linalg.norm(directions, axis=1) - 1) <= UNIT))
    if len(bad):
        raise ParameterError(f"direction {bad[0]} is {directions[bad[0]].tolist()}: give unit vectors")
    sphere, symmetric = vars(prepared.method)["sphere"], bool(prepared.fill["SYMMETRIC"])
    # float32, with which the kernels compute and which a cache of tables holds
    vertices = np.asarray(sphere.vertices, np.float32).astype(np.float64).reshape(3, -1)[:, : sphere.count].T
    codes = np.empty(len(seeds), np.int32)
    for first in range(0, len(seeds), BLOCK):
        some = directions[first : first + BLOCK]
        near = closest_vertices(some, vertices, symmetric)
        codes[first : first + BLOCK] = 2 * near + ((some * vertices[near]).sum(axis=1) < 0)
    return np.where(inside(seeds, prepared), codes, -1).astype(np.int32)


def inside(seeds: Array, prepared: Prepared) -> npt.NDArray[np.bool_]:
    """Return which seeds (n, 3) float32 lie in the image, as the kernels decide it."""
    end = np.asarray(prepared.arrays["volume_shape"], np.float32) - np.float32(0.5)
    return np.all((seeds >= np.float32(-0.5)) & (seeds < end), axis=1)
