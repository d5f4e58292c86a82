"""The kernel of :mod:`.fixel_draw`, which loads a copy of this file, hence the whole name of a module.

Before this text come ``draw_attempt`` of :mod:`..seeding.place_seeds` and the kernels of :mod:`..seeding.interface`.
"""

import math

import numpy as np

from tistreamlines.backends.numba.compiler import compiled
from tistreamlines.backends.numba.memory import claim

FINE = 2.0**-24  # spacing of the reals that are drawn
IN_A_ROW = 64  # seeds that a thread takes
NONE_LEFT = 2**62  # number of a seed that no round has


@compiled
def transform(affine, x, y, z):
    """Return a point in another space, with the sums of ``Space.to_ras``."""
    return (
        affine[0, 0] * x + affine[0, 1] * y + affine[0, 2] * z + affine[0, 3],
        affine[1, 0] * x + affine[1, 1] * y + affine[1, 2] * z + affine[1, 3],
        affine[2, 0] * x + affine[2, 1] * y + affine[2, 2] * z + affine[2, 3],
    )


@compiled
def choose_fixel(sums, share):
    """Return the first fixel whose running sum is above a share of the last one, as ``voxels_by_share`` chooses."""
    low, high, wanted = 0, sums.shape[0] - 1, share * sums[-1]
    while low < high:
        middle = (low + high) // 2
        if wanted < sums[middle]:
            high = middle
        else:
            low = middle + 1
    return low


@compiled
def draw_seeds(queue, draw, sums, fixels, tissues, to_image, seeds, along, team):
    """Draw seeds of a queue that threads share; one that is not found gets no direction, and ends the queue.

    ``draw`` has the number of the first seed, the key of random numbers, and the most attempts; ``fixels`` has their
    voxels, the sizes of the grid along two axes, the ways from and to it, and their directions; ``tissues`` has a
    segmentation, perhaps empty, the way to its voxels, and the longest step. ``team`` is memory of a thread.
    """
    first, key, most = draw
    voxel_of, deep, high, to_ras, to_grid, directions = fixels
    values, to_values, longest = tissues
    item, attempt, reals, point, there = team
    begin = claim(queue, IN_A_ROW)
    while begin < seeds.shape[0]:
        for i in range(begin, min(begin + IN_A_ROW, seeds.shape[0])):
            item[0], attempt[0], there[0] = i, -1, 0
            while not there[0] and attempt[0] + 1 < most:
                attempt[0] += 1
                there[0] = 1
                draw_attempt(0, key, first, item, attempt, reals)  # noqa: F821  (in the text before)
                fixel = choose_fixel(sums, reals[0] + reals[1] * FINE)
                voxel = voxel_of[fixel]
                u, v, w = voxel // (deep * high), voxel // high % deep, voxel % high
                point[0, 0], point[0, 1], point[0, 2] = transform(
                    to_ras, u + (reals[2] - 0.5), v + (reals[3] - 0.5), w + (reals[4] - 0.5)
                )
                if values.size:
                    move_seeds(values, to_values, longest, point, there)  # noqa: F821  (as well)
                    x, y, z = transform(to_grid, point[0, 0], point[0, 1], point[0, 2])
                    if math.floor(x + 0.5) != u or math.floor(y + 0.5) != v or math.floor(z + 0.5) != w:
                        there[0] = 0
            seeds[i, 0], seeds[i, 1], seeds[i, 2] = transform(to_image, point[0, 0], point[0, 1], point[0, 2])
            for axis in range(3):
                along[i, axis] = directions[fixel, axis]
            if not there[0]:
                along[i, 0] = np.nan
                queue[0] = NONE_LEFT
                break
        begin = claim(queue, IN_A_ROW)
