"""The kernels of :mod:`.ordering`, which loads a copy of this file, hence the whole name of a module."""

import numpy as np

from tistreamlines.backends.numba.compiler import compiled


@compiled
def exclusive(counts, out):
    total = 0
    for i in range(counts.shape[0]):
        out[i] = total
        total += counts[i]


@compiled
def exclusive_in_order(counts, order, out):
    total = 0
    for i in order:
        out[i] = total
        total += counts[i]


@compiled
def along_curve(points, shift, keys, begins, order):
    spread = (0, 1, 8, 9, 64, 65, 72, 73)  # the three bits of a number, two zeros before each
    for i in range(points.shape[0]):
        key = 0
        for axis in range(3):
            cell = np.int64(max(points[i, axis], 0)) >> shift
            key |= (spread[cell & 7] | spread[cell >> 3 & 3] << 9) << axis
        keys[i] = key
        begins[key + 1] += 1
    for key in range(begins.shape[0] - 1):
        begins[key + 1] += begins[key]
    for i in range(points.shape[0]):
        order[begins[keys[i]]] = i
        begins[keys[i]] += 1
