"""Prefix sum on the host, by Numba."""

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


def exclusive_prefix_sum(counts: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Sum of all the counts before each one.

    Parameters
    ----------
    counts : (n,) whole numbers.
    """
    out = np.empty(len(counts), np.int64)
    _exclusive(np.ascontiguousarray(counts), out)
    return out
