"""The voxels a live point can touch, as an index volume into a table of rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..kernels.interpolate import Volume

BLOCK = 16384
MOST_NUMBERS = 2**30  # of an array: its last byte then has a number of 32 bits


def touched(
    alive: npt.NDArray[np.bool_] | None, seeds: npt.NDArray[np.float64], shape: tuple[int, ...]
) -> npt.NDArray[np.bool_]:
    """Voxels whose rows tracking can read.

    A point to go on from has a corner in ``alive``, so all its corners lie within a voxel of one that is; seeds may lie
    anywhere.

    Parameters
    ----------
    alive : (x, y, z), see :class:`tistreamlines.methods.given.StopTables`; None for all voxels.
    seeds : (n, 3), voxel coordinates.
    shape : of the image, voxels.
    """
    from scipy.ndimage import maximum_filter

    if alive is None:
        return np.ones(shape, bool)
    keep: npt.NDArray[np.bool_] = np.asarray(maximum_filter(alive, size=3, mode="constant"), bool)
    sides = np.asarray(shape)
    near = seeds[((seeds >= -0.5) & (seeds < sides - 0.5)).all(axis=1)]
    low = np.floor(near).astype(np.int64)
    for corner in np.ndindex(2, 2, 2):
        keep[tuple(np.clip(low + corner, 0, sides - 1).T)] = True
    return keep


def build_volume(
    data: npt.NDArray[np.float32], keep: npt.NDArray[np.bool_], width: int, fill: Callable[..., None],
    channels: npt.NDArray[np.float32],
) -> Volume:  # fmt: skip
    """Make the kernels' index volume and rows of the voxels to keep.

    Parameters
    ----------
    data : (x, y, z, n).
    keep : (x, y, z).
    width : numbers of a row, a multiple of 32.
    fill : called with (values (m, n) float64, rows (m, width) to be written).
    channels : (x, y, z, k), maps of the stopping rule, which lie at the end of the row.

    Returns
    -------
    Volume
        ``index`` (x * y * z,) int32 is where each voxel's row begins, in units of 32 numbers, 0 where it has none;
        ``rows`` is (1 + voxels, width) float32, flat, whose row 0 is all zeros.

    Raises
    ------
    InputError
        Where the rows exceed what every arch can index.
    """
    voxels = np.flatnonzero(keep)
    if (len(voxels) + 1) * width >= MOST_NUMBERS:
        raise InputError(
            f"{len(voxels)} voxels of {width} numbers are more than the 4 GiB that an array of a device may have: "
            "raise the stop threshold or use a tighter mask"
        )
    if keep.size >= MOST_NUMBERS:
        raise InputError(f"an image of {keep.size} voxels is more than the kernels can count, 2**30: crop it")
    index = np.zeros(keep.size, np.int32)
    index[voxels] = np.arange(1, len(voxels) + 1) * (width // 32)
    rows = np.zeros((len(voxels) + 1, width), np.float32)
    flat, maps = data.reshape(-1, data.shape[-1]), channels.reshape(keep.size, -1)
    for first in range(0, len(voxels), BLOCK):
        some = voxels[first : first + BLOCK]
        written = rows[1 + first : 1 + first + len(some)]
        fill(flat[some].astype(np.float64), written)
        written[:, width - maps.shape[1] :] = maps[some]
    return Volume(index=index, rows=rows.ravel(), shape=np.array(keep.shape))
