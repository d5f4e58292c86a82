"""The kernels of :mod:`.enclosed`, which loads a copy of this file, hence the whole name of a module.

A triangle is cut at the planes between voxels, one axis after the other. ``parts`` holds the corners of a part after
each cut, and those between the two planes of a slab: (5, 16, 3), in voxels whose corners are whole numbers.
"""

import math

from tistreamlines.backends.numba.compiler import compiled

BETWEEN = 4  # the row of ``parts`` for corners between the two planes


@compiled
def half(parts, source, count, axis, plane, sign, target):
    """Cut a polygon at a plane, keep the side where ``sign`` times the coordinate is greater, and count its corners."""
    kept = 0
    for i in range(count):
        j = i + 1 if i + 1 < count else 0
        here = sign * (parts[source, i, axis] - plane)
        there = sign * (parts[source, j, axis] - plane)
        if here >= 0.0:
            for k in range(3):
                parts[target, kept, k] = parts[source, i, k]
            kept += 1
        if (here > 0.0 and there < 0.0) or (here < 0.0 and there > 0.0):
            share = here / (here - there)
            for k in range(3):
                parts[target, kept, k] = parts[source, i, k] + share * (parts[source, j, k] - parts[source, i, k])
            parts[target, kept, axis] = plane
            kept += 1
    return kept


@compiled
def slab(parts, source, count, axis, low, high, target):
    """Keep what lies between two planes."""
    between = half(parts, source, count, axis, low, 1.0, BETWEEN)
    return half(parts, BETWEEN, between, axis, high, -1.0, target)


@compiled
def cells(parts, source, count, axis, size):
    """Return the first and the last voxel that a polygon reaches along an axis; last < first if there is none."""
    least = most = parts[source, 0, axis]
    for i in range(1, count):
        least = min(least, parts[source, i, axis])
        most = max(most, parts[source, i, axis])
    return math.floor(max(least, 0.0)), math.floor(min(most, size - 0.5))


@compiled
def below(parts, source, count, bottom):
    """Return the area of a polygon seen from above, and the volume between it and a plane; both have a sign."""
    area = volume = 0.0
    for i in range(1, count - 1):
        ax = parts[source, i, 0] - parts[source, 0, 0]
        ay = parts[source, i, 1] - parts[source, 0, 1]
        bx = parts[source, i + 1, 0] - parts[source, 0, 0]
        by = parts[source, i + 1, 1] - parts[source, 0, 1]
        shade = 0.5 * (ax * by - ay * bx)
        area += shade
        volume += shade * ((parts[source, 0, 2] + parts[source, i, 2] + parts[source, i + 1, 2]) / 3.0 - bottom)
    return area, volume


@compiled
def add_column(parts, source, count, i, j, volumes, areas):
    """Add a polygon within the column (i, j) of voxels; what lies above the last voxel covers all of them."""
    first, last = cells(parts, source, count, 2, volumes.shape[2])
    for k in range(min(first, volumes.shape[2] - 1), last + 1):
        top = k + 1.0 if k + 1 < volumes.shape[2] else math.inf
        corners = slab(parts, source, count, 2, k, top, 3)
        area, volume = below(parts, 3, corners, k)
        volumes[i, j, k] += volume
        areas[i, j, k] += area


@compiled
def add_triangles(triangles, parts, volumes, areas):
    """Add triangles, (n, 3, 3), to the volume below them within each voxel, and to the area that covers those below.

    Both arrays have a layer of voxels above those of the grid.
    """
    for number in range(triangles.shape[0]):
        for i in range(3):
            for k in range(3):
                parts[0, i, k] = triangles[number, i, k]
        first_i, last_i = cells(parts, 0, 3, 0, volumes.shape[0])
        for i in range(first_i, last_i + 1):
            count = slab(parts, 0, 3, 0, i, i + 1.0, 1)
            if count > 2:
                first_j, last_j = cells(parts, 1, count, 1, volumes.shape[1])
                for j in range(first_j, last_j + 1):
                    corners = slab(parts, 1, count, 1, j, j + 1.0, 2)
                    if corners > 2:
                        add_column(parts, 2, corners, i, j, volumes, areas)
