"""Prefix sum, and the order of neighbours, on the host, by Numba."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit


@njit(cache=True, nogil=True)
def _exclusive(counts, out):
    total = 0
    for i in range(counts.shape[0]):
        out[i] = total
        total += counts[i]


def exclusive_sum(counts: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Sum of all the counts before each one.

    Parameters
    ----------
    counts : (n,) whole numbers.
    """
    out = np.empty(len(counts), np.int64)
    _exclusive(np.ascontiguousarray(counts), out)
    return out


@njit(cache=True, nogil=True)
def _along_curve(points, shift, keys, begins, order):
    for i in range(points.shape[0]):
        key = 0
        for axis in range(3):
            cell = np.int64(max(points[i, axis], 0)) >> shift
            for bit in range(5):
                key |= (cell >> bit & 1) << (3 * bit + axis)
        keys[i] = key
        begins[key + 1] += 1
    for key in range(begins.shape[0] - 1):
        begins[key + 1] += begins[key]
    for i in range(points.shape[0]):
        order[begins[keys[i]]] = i
        begins[keys[i]] += 1


def near_together(points: npt.NDArray[np.float32]) -> npt.NDArray[np.int32]:
    """Order in which neighbours in space mostly follow each other: along a Z-shaped curve (Morton 1966).

    The curve runs through 32 x 32 x 32 cells of as many voxels each as they must have; a counting sort.

    Parameters
    ----------
    points : (n, 3), voxel coordinates.
    """
    shift = max(int(points.max(initial=0)).bit_length() - 5, 0)
    order, keys = np.empty(len(points), np.int32), np.empty(len(points), np.int32)
    _along_curve(points, shift, keys, np.zeros(2**15 + 1, np.int32), order)
    return order
