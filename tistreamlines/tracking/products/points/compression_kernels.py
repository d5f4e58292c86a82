"""The kernel of :mod:`.compression`, which loads a copy of this file, hence the whole name of a module."""

from __future__ import annotations

import numpy as np

from tistreamlines.backends.numba.compiler import compiled

BELOW_ROUNDING = 1 - 1e-12  # a square below so much of another one is less, whatever is rounded


@compiled
def difference(points, first, second):
    """Return the way from one point to another; it is computed in float32."""
    x = np.float64(points[second, 0] - points[first, 0])
    y = np.float64(points[second, 1] - points[first, 1])
    z = np.float64(points[second, 2] - points[first, 2])
    return x, y, z


@compiled
def is_straight(points, begin, end, tolerance, longest):
    """Return whether a line from one point to another is short, and all points between them are near it."""
    bx, by, bz = difference(points, begin, end)
    length = np.sqrt(bx * bx + by * by + bz * bz)
    if length > longest:
        return False
    surely_near = (tolerance * length) ** 2 * BELOW_ROUNDING
    for between in range(begin + 1, end):
        cx, cy, cz = difference(points, end, between)
        ax, ay, az = by * cz - bz * cy, bz * cx - bx * cz, bx * cy - by * cx
        area = ax * ax + ay * ay + az * az
        if area < surely_near:
            continue
        x, y, z = difference(points, begin, between)
        if x == 0 and y == 0 and z == 0:
            continue
        if not np.sqrt(area) / length <= tolerance:  # NaN of a line without length, too
            return False
    return True


@compiled
def choose_points(points, offsets, tolerance, longest, kept):
    """Set ``kept`` to 1 at the ends of the lines of each streamline."""
    for item in range(len(offsets) - 1):
        begin, last = offsets[item], offsets[item + 1] - 1
        if begin > last:
            continue
        kept[begin] = kept[last] = 1
        for end in range(begin + 2, last + 1):
            if not is_straight(points, begin, end, tolerance, longest):
                begin = end - 1
                kept[begin] = 1
