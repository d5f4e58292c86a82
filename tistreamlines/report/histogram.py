"""The lengths of streamlines, in bins of whole steps."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..aliases import Array

BINS = 60  # at most
NICE = (1, 2, 2.5, 5)  # widths of bins, times powers of ten


def nice(least: float) -> float:
    """Return the first round number that is at least as large."""
    power = 10.0 ** np.floor(np.log10(least))
    return float(next(width * power for width in (*NICE, 10) if width * power >= least * (1 - 1e-9)))


def bins(histogram: Array, step_mm: float) -> tuple[npt.NDArray[np.int64], float]:
    """Return how many streamlines have a length in each bin, and the width of a bin, mm.

    Parameters
    ----------
    histogram : (m,), number of streamlines with 0, 1, ... m - 1 points.
    step_mm : the step size, mm.
    """
    points = np.flatnonzero(histogram)
    longest = (points.max(initial=1) - 1) * step_mm
    width = nice(max(longest / BINS, step_mm))
    place = np.floor((points - 1) * step_mm / width + 1e-6).astype(int)
    return np.bincount(place, histogram[points], int(longest / width) + 1).astype(np.int64), width
