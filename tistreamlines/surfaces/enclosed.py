"""The share of each voxel that a closed surface encloses, exact but for rounding.

A triangle covers a part of each column of voxels. The volume between this part and the bottom of a voxel is a sum of
products. The volumes below triangles that face up, less those below triangles that face down, are the volume inside.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..backends.numba.cache import Function, text_of
from ..errors import InputError
from ..io.surfaces import Surface
from ..space.batch import Space

LEAST = 5e-4  # smaller shares are 0, and those as close to 1 are 1: mesh2voxel counts in steps of 1e-3
_add = Function(text_of(Path(__file__).with_name("enclosed_kernels.py")), "add_triangles")


class Shares(NamedTuple):
    """Shares of voxels in a box of a grid.

    Parameters
    ----------
    box : tuple of slice
        Where the box lies in the grid; empty if no voxel of the grid has a share.
    values : ndarray, float32
        0 to 1.
    """

    box: tuple[slice, ...]
    values: npt.NDArray[np.float32]


def enclosed(surface: Surface, space: Space) -> Shares:
    """Return the share of each voxel that lies inside a closed surface.

    Parameters
    ----------
    surface : Surface
        Its triangles agree on which side is outside. No share is above 1, even if the surface crosses itself.
    space : Space
        Grid, which may be rotated or sheared; the surface may leave it.

    Returns
    -------
    Shares
    """
    corners = space.to_voxel(surface.vertices) + 0.5  # whole numbers are planes between voxels
    used = corners[surface.triangles]
    if not len(used):
        return Shares((slice(0, 0),) * 3, np.zeros((0, 0, 0), np.float32))
    low = np.clip(np.floor(used.min(axis=(0, 1))), 0, space.shape).astype(int)
    high = np.clip(np.ceil(used.max(axis=(0, 1))), low, space.shape).astype(int)
    box = tuple(map(slice, low, high))
    if not (high > low).all():
        return Shares(box, np.zeros(high - low, np.float32))
    layers = high - low + [0, 0, 1]  # one above the grid
    volumes, areas = np.zeros(layers), np.zeros(layers)
    _add(used - low, np.zeros((5, 16, 3)), volumes, areas)
    shares = volumes[..., :-1] + areas[..., :0:-1].cumsum(axis=-1)[..., ::-1]
    if np.linalg.det(used).sum() < 0:  # six times the volume
        shares = -shares
    shares[shares < LEAST] = 0
    shares[shares > 1 - LEAST] = 1
    return Shares(box, shares.astype(np.float32))


def check_closed(surface: Surface) -> None:
    """Raise an InputError unless each edge has as many triangles on one side as on the other."""
    starts, ends = surface.triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2).T
    there, back = (np.sort(a * len(surface.vertices) + b) for a, b in ((starts, ends), (ends, starts)))
    if not len(there) or not np.array_equal(there, back):
        single = len(np.setxor1d(there, back)) // 2
        raise InputError(f"{surface.path}: is not closed, so it has no inside ({single:,} edges have triangles on one "
                         "side alone, or triangles that disagree about the outside); make the surface again")
