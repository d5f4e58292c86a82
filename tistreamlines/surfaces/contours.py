"""Surfaces around masks by marching cubes (Lorensen and Cline, 1987), all of whose edges have two sides.

A cube has a voxel's centre at each of its eight corners. On each face, a line separates corners in the mask from the
others, and where corners in the mask touch only diagonally, each has its own line. Since both cubes at a face have the
same lines, the lines of a cube are rings, and each ring becomes a fan of triangles.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from string import ascii_letters

import numpy as np
import numpy.typing as npt

from ..io.surfaces import Surface
from ..space.batch import Space

MIDDLE = 0.5  # the level of a surface halfway between centres in and out of the mask
# how each ring of four edges or more is divided, in the order of codes: as in Bloyd's table, which MRtrix3's voxel2mesh
# has too, since the smoothing of a surface depends on it
WAYS = (
    "abaabbcbbaaabaacbcdcbdbblaibaleabcbacaeadccbbPPbaaealadadlcbdblbaddbeaaPceaabeacbbPbibkuhamleccnbbixnunabbb"
    "bdcelibabbbbaaeucxinaaecaaacxcaaalncbdlbbeubnlaeaCnbbbaadceueccabdaaelcxmbielsscbgdecscCCdkbgbeabadbaaebaba"
)
MOST = 15  # edges of the triangles of a cube
CODES = 256  # which of eight corners are in the mask
CORNERS = np.array(list(product((0, 1), repeat=3)))[:, ::-1]  # corner c is bit 0 of c along x, bit 1 along y
Edge = tuple[int, int]  # the lower corner, and the axis


def contour(mask: npt.NDArray[np.bool_], space: Space, level: float = MIDDLE) -> Surface:
    """Return the surface around a mask.

    Parameters
    ----------
    mask : (x, y, z) bool
        Beyond the image, there is no voxel of the mask.
    space : Space
        Grid of the mask.
    level : float
        Between 0 and 1: the surface is this share of the way from the centre of a voxel outside to one in the mask.

    Returns
    -------
    Surface
        In RASmm. It has no triangles if the mask is empty.
    """
    from nibabel.orientations import apply_orientation, inv_ornt_aff, io_orientation

    order = io_orientation(space.affine)
    affine = space.affine @ inv_ornt_aff(order, space.shape)
    mask = apply_orientation(mask, order)  # so that the triangles do not depend on how an image is stored
    places = np.argwhere(mask)
    if not len(places):
        return Surface(np.zeros((0, 3)), np.zeros((0, 3), np.int64), "")
    low, high = places.min(axis=0), places.max(axis=0) + 1
    padded = np.pad(mask[tuple(map(slice, low, high))], 2)
    size = np.array(padded.shape) - 1
    codes = np.zeros(size, np.int64)
    for number, (x, y, z) in enumerate(CORNERS):
        codes += padded[x : x + size[0], y : y + size[1], z : z + size[2]].astype(np.int64) << number
    cubes = np.argwhere((codes > 0) & (codes < CODES - 1))
    corners, axes = (part[codes[tuple(cubes.T)]] for part in _tables())
    there = corners[..., 0] >= 0
    starts = (cubes[:, None, None] + CORNERS[corners])[there]
    keys = np.ravel_multi_index((*np.moveaxis(starts, -1, 0), axes[there]), (*padded.shape, 3))
    edges, triangles = np.unique(keys, return_inverse=True)
    *start, axis = np.unravel_index(edges, (*padded.shape, 3))
    vertices = np.stack(start, axis=1).astype(float)
    vertices[np.arange(len(edges)), axis] += np.where(padded[tuple(start)], 1 - level, level)
    return Surface(Space(affine, (1, 1, 1)).to_ras(vertices + low - 2), triangles.reshape(-1, 3), "")


@cache
def _tables() -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the edges of the triangles of each code, as lower corners and as axes, (256, n, 3); -1 where none is."""
    ways = iter(WAYS)
    edges = np.full((CODES, MOST, 2), -1)
    for code in range(CODES):
        fan = []
        for ring in _rings(code):
            possible = _triangulations(ring)
            fan += possible[ascii_letters.index(next(ways)) if len(possible) > 1 else 0]
        edges[code, : len(fan)] = np.reshape(fan, (-1, 2))
    corners, axes = np.moveaxis(edges.reshape(CODES, -1, 3, 2), -1, 0)
    return corners, axes


def _triangulations(ring: list[Edge]) -> list[list[Edge]]:
    """Return all ways to divide a ring into triangles, each as three edges for each triangle."""
    if len(ring) < 3:
        return [[]]
    return [
        [ring[0], ring[k], ring[-1], *left, *right]
        for k in range(1, len(ring) - 1)
        for left, right in product(_triangulations(ring[: k + 1]), _triangulations(ring[k:]))
    ]


def _rings(code: int) -> list[list[Edge]]:
    """Return the rings of lines of a cube, as the edges on which they have their corners."""
    following = {start: end for face in _faces() for start, end in _lines(code, face)}
    rings = []
    while following:
        ring = [min(following)]
        while (edge := following.pop(ring[-1])) != ring[0]:
            ring.append(edge)
        rings.append(ring)
    return rings


def _faces() -> list[list[int]]:
    """Return the corners of each face in order around it, all in the same sense seen from outside."""
    faces = []
    for axis in range(3):
        second, third = 1 << (axis + 1) % 3, 1 << (axis + 2) % 3
        around = [0, second, second | third, third]
        faces += [around, [corner | 1 << axis for corner in around[::-1]]]
    return faces


def _lines(code: int, face: list[int]) -> list[tuple[Edge, Edge]]:
    """Return the lines of a face, each from where the way around leaves the mask to where it has entered it."""
    steps = [(a, b) for a, b in zip(face, face[1:] + face[:1], strict=True) if (code >> a ^ code >> b) & 1]
    if steps and code >> steps[0][0] & 1:
        steps = steps[1:] + steps[:1]  # begin where the way enters
    edges = [(min(a, b), (a ^ b).bit_length() - 1) for a, b in steps]
    return [(edges[i + 1], edges[i]) for i in range(0, len(edges), 2)]
