"""Prefix sum, and the order of neighbours, on the host, by Numba."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...linker.store import load_source

_kernels = load_source(Path(__file__).with_name("prefix_kernels.py"))


def exclusive_sum(counts: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Sum of all the counts before each one.

    Parameters
    ----------
    counts : (n,) whole numbers.
    """
    out = np.empty(len(counts), np.int64)
    _kernels.exclusive(np.ascontiguousarray(counts), out)
    return out


def near_together(points: npt.NDArray[np.float32]) -> npt.NDArray[np.int32]:
    """Order in which neighbours in space mostly follow each other: along a Z-shaped curve (Morton 1966).

    The curve runs through 32 x 32 x 32 cells of as many voxels each as they must have; a counting sort.

    Parameters
    ----------
    points : (n, 3), voxel coordinates.
    """
    shift = max(int(points.max(initial=0)).bit_length() - 5, 0)
    order, keys = np.empty(len(points), np.int32), np.empty(len(points), np.int32)
    _kernels.along_curve(points, shift, keys, np.zeros(2**15 + 1, np.int32), order)
    return order
