"""The voxels a live point can touch, as an index volume into a table of rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ..errors import InputError

BLOCK = 16384
MOST_NUMBERS = 2**30  # of an array: its last byte then has a number of 32 bits


def touched(
    stop_map: npt.NDArray[np.float32], threshold: float, seeds: npt.NDArray[np.float64]
) -> npt.NDArray[np.bool_]:
    """Voxels whose rows tracking can read.

    A point above the threshold has a corner above it, so all its corners lie within a voxel of one that is; seeds
    may lie anywhere.  A threshold below zero could be passed by a voxel that is left out, so then all are kept.

    Parameters
    ----------
    stop_map : (x, y, z), the map that ends streamlines.
    threshold : streamlines go on above it.
    seeds : (n, 3), voxel coordinates.
    """
    from scipy.ndimage import maximum_filter

    if threshold < 0:
        return np.ones(stop_map.shape, bool)
    keep: npt.NDArray[np.bool_] = np.asarray(maximum_filter(stop_map > threshold, size=3, mode="constant"), bool)
    shape = np.asarray(stop_map.shape)
    near = seeds[((seeds >= -0.5) & (seeds < shape - 0.5)).all(axis=1)]
    low = np.floor(near).astype(np.int64)
    for corner in np.ndindex(2, 2, 2):
        keep[tuple(np.clip(low + corner, 0, shape - 1).T)] = True
    return keep


def build_rows(
    data: npt.NDArray[np.float32], keep: npt.NDArray[np.bool_], width: int, fill: Callable[..., None]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """Index volume and rows of the voxels to keep.

    Parameters
    ----------
    data : (x, y, z, n).
    keep : (x, y, z).
    width : reals a row, a multiple of 32.
    fill : called with (signals (m, n) float64, flat voxel numbers (m,), rows (m, width) to be written).

    Returns
    -------
    index : (x * y * z,) int32, where each voxel's row begins, in units of 32 numbers; 0 where it has none.
    rows : (1 + voxels, width) float32; row 0 is all zeros.

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
    flat = data.reshape(-1, data.shape[-1])
    for first in range(0, len(voxels), BLOCK):
        some = voxels[first : first + BLOCK]
        fill(flat[some].astype(np.float64), some, rows[1 + first : 1 + first + len(some)])
    return index, rows
