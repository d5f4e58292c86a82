"""The kernels of :mod:`.density`, which loads a copy of this file, hence the whole name of a module."""

import numpy as np

from tistreamlines.backends.numba.compiler import compiled

BITS = 20  # a coordinate is a whole number of 2^-20 voxels


@compiled
def fixed(value):
    """Round a coordinate down to 2^-20 of a voxel; the product with a power of two is exact, so its voxel stays."""
    scaled = value * 1048576.0
    whole = np.int64(scaled)
    return whole - 1 if whole > scaled else whole


@compiled
def mark(x, y, z, shape, cells, stamp):
    """Count a streamline in a voxel, unless the voxel is outside or the streamline was there before."""
    if 0 <= x < shape[0] and 0 <= y < shape[1] and 0 <= z < shape[2]:
        place = (x * shape[1] + y) * shape[2] + z
        if cells[place, 1] != stamp:
            cells[place, 1] = stamp
            cells[place, 0] += 1


@compiled
def is_before(distance, length, down, other, other_length, other_down):
    """Whether a border is met before another one; one that is left downwards belongs to the voxel that is left."""
    left, right = distance * other_length, other * length
    return left < right or (left == right and down < other_down)


@compiled
def pass_through(a, b, shape, cells, stamp):
    """Count a streamline in every voxel that holds a point of the segment from a to b, except that of a itself."""
    x, y, z = a[0] >> BITS, a[1] >> BITS, a[2] >> BITS
    left_x, left_y, left_z = abs((b[0] >> BITS) - x), abs((b[1] >> BITS) - y), abs((b[2] >> BITS) - z)
    down_x, down_y, down_z = b[0] < a[0], b[1] < a[1], b[2] < a[2]
    length_x, length_y, length_z = abs(b[0] - a[0]), abs(b[1] - a[1]), abs(b[2] - a[2])
    # from a to the next border along each axis; nothing is divided, so borders that are met together are found
    next_x = a[0] - (x << BITS) if down_x else ((x + 1) << BITS) - a[0]
    next_y = a[1] - (y << BITS) if down_y else ((y + 1) << BITS) - a[1]
    next_z = a[2] - (z << BITS) if down_z else ((z + 1) << BITS) - a[2]
    while left_x + left_y + left_z > 0:
        over_x = left_x > 0
        over_y = left_y > 0
        over_z = left_z > 0
        if over_x and over_y:
            if is_before(next_x, length_x, down_x, next_y, length_y, down_y):
                over_y = False
            elif is_before(next_y, length_y, down_y, next_x, length_x, down_x):
                over_x = False
        if over_x and over_z:
            if is_before(next_x, length_x, down_x, next_z, length_z, down_z):
                over_z = False
            elif is_before(next_z, length_z, down_z, next_x, length_x, down_x):
                over_x = over_y = False  # x and y are met together here, if both are left
        elif over_y and over_z:
            if is_before(next_y, length_y, down_y, next_z, length_z, down_z):
                over_z = False
            elif is_before(next_z, length_z, down_z, next_y, length_y, down_y):
                over_y = False
        if over_x:
            x, left_x, next_x = x + (-1 if down_x else 1), left_x - 1, next_x + (1 << BITS)
        if over_y:
            y, left_y, next_y = y + (-1 if down_y else 1), left_y - 1, next_y + (1 << BITS)
        if over_z:
            z, left_z, next_z = z + (-1 if down_z else 1), left_z - 1, next_z + (1 << BITS)
        mark(x, y, z, shape, cells, stamp)


@compiled
def count(points, offsets, to_voxel, shape, first, cells):
    """Count the streamlines of a batch, whose points are in RASmm; their numbers begin with ``first``."""
    for streamline in range(offsets.shape[0] - 1):
        stamp = first + streamline
        before = (np.int64(0), np.int64(0), np.int64(0))
        for i in range(offsets[streamline], offsets[streamline + 1]):
            x, y, z = np.float64(points[i, 0]), np.float64(points[i, 1]), np.float64(points[i, 2])
            here = (
                fixed(to_voxel[0, 0] * x + to_voxel[0, 1] * y + to_voxel[0, 2] * z + to_voxel[0, 3]),
                fixed(to_voxel[1, 0] * x + to_voxel[1, 1] * y + to_voxel[1, 2] * z + to_voxel[1, 3]),
                fixed(to_voxel[2, 0] * x + to_voxel[2, 1] * y + to_voxel[2, 2] * z + to_voxel[2, 3]),
            )
            if i == offsets[streamline]:
                mark(here[0] >> BITS, here[1] >> BITS, here[2] >> BITS, shape, cells, stamp)
            else:
                pass_through(before, here, shape, cells, stamp)
            before = here
