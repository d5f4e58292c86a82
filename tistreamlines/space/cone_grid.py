"""Directions that cover a cone, from which the rejection sampling of iFOD1 and iFOD2 takes its bound, as in MRtrix3.

The grid is hexagonal. Its spacing is the one with which fewest directions have to be looked at, on average, for a
fibre of one direction: a finer grid has more directions, and a coarser one bounds the probability less tightly.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..aliases import Array

FINEST = 0.001  # radians between the angles that are tried for the spacing


def hexagonal(widest: float, spacing: float) -> Array:
    """Return angles and azimuths, (n, 2), of a hexagonal grid about an axis, up to an angle from it; all in radians."""
    extent = math.ceil(widest / spacing)
    i, j = np.mgrid[-extent : extent + 1, -extent : extent + 1].reshape(2, -1)
    x, y = i + 0.5 * j, math.sqrt(0.75) * j
    squared = x**2 + y**2
    inside = squared <= (widest / spacing) ** 2
    return np.stack([spacing * np.sqrt(squared), np.arctan2(y, x)], axis=1)[inside]


def cone_grid(widest: float, probability: Callable[[float], float]) -> tuple[Array, float]:
    """Return the grid for a cone, and the bound.

    Parameters
    ----------
    widest : float
        Greatest angle from the axis of the cone, radians.
    probability : callable
        That of a step which turns by an angle (radians) off a fibre's direction, in any scale.

    Returns
    -------
    grid : (n, 2) float64
        Angle from the axis and azimuth of each direction, radians. It reaches beyond the cone by its own spacing.
    ratio : float
        How much more probable than the best direction of the grid a direction of the cone can be.
    """
    angles = np.arange(0.0, widest, FINEST).tolist()
    found = np.array([probability(angle) for angle in angles])
    ends = np.flatnonzero(~(found > 0))
    last = int(ends[0]) if len(ends) else len(angles) - 1
    zero, counts = angles[last], {}
    for k in range(1, last + 1):
        if found[k] > 0:
            drawn = widest**2 * (1 + found[0] / found[k]) / (2 * zero**2)
            counts[k] = drawn + len(hexagonal(widest + angles[k], math.sqrt(3) * angles[k]))
    best = min(counts, key=lambda k: counts[k])
    return hexagonal(widest + angles[best], math.sqrt(3) * angles[best]), float(found[0] / found[best])
