"""Prefix sums, and an order in which neighbours in space follow each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

CELL_BITS = 5  # 32 cells along each axis
# bits of a cell's number along x, each followed by places for the bits along y and z
SPREAD = np.array([sum((cell >> bit & 1) << 3 * bit for bit in range(CELL_BITS)) for cell in range(32)], np.int16)


def exclusive_sum(counts: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return the sum of all counts (n,) before each one."""
    return np.cumsum(counts) - counts


def near_together(points: npt.NDArray[np.float32]) -> npt.NDArray[np.int32]:
    """Return the order of points along a Z-shaped curve (Morton 1966) through 32 x 32 x 32 cells.

    Parameters
    ----------
    points : (n, 3), voxel coordinates.
    """
    shift = max(int(points.max(initial=0)).bit_length() - CELL_BITS, 0)
    x, y, z = (SPREAD[np.maximum(axis, 0).astype(np.intp) >> shift] for axis in points.T)
    return np.argsort(x | y << 1 | z << 2, kind="stable").astype(np.int32)  # of 16 bits, which numpy sorts by radix
