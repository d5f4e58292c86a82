"""Prefix sums, and an order in which neighbours in space follow each other, compiled by Numba."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from ...aliases import Array
from ...backends.numba.cache import Function, text_of

CELL_BITS = 5  # 32 cells along each axis
_KERNELS = text_of(Path(__file__).with_name("ordering_kernels.py"))
_exclusive, _along_curve = Function(_KERNELS, "exclusive"), Function(_KERNELS, "along_curve")
_exclusive_in_order = Function(_KERNELS, "exclusive_in_order")


def exclusive_sum(counts: Array) -> npt.NDArray[np.int64]:
    """Return the sum of all counts (n,) before each one."""
    out = np.empty(len(counts), np.int64)
    _exclusive(np.ascontiguousarray(counts), out)
    return out


def exclusive_sum_in_order(counts: npt.NDArray[np.int32], order: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Return for each count (n,) the sum of those that come before it in an order (n,)."""
    out = np.empty(len(counts), np.int32)
    _exclusive_in_order(counts, order, out)
    return out


def near_together(points: npt.NDArray[np.float32]) -> npt.NDArray[np.int32]:
    """Return the order of points along a Z-shaped curve (Morton 1966) through 32 x 32 x 32 cells, by a counting sort.

    Parameters
    ----------
    points : (n, 3), voxel coordinates.
    """
    shift = max(int(points.max(initial=0)).bit_length() - CELL_BITS, 0)
    order, keys = np.empty(len(points), np.int32), np.empty(len(points), np.int32)
    _along_curve(np.ascontiguousarray(points), shift, keys, np.zeros(8**CELL_BITS + 1, np.int32), order)
    return order
