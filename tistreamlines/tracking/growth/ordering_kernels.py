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
def along_curve(points, shift, keys, begins, order):
    for i in range(points.shape[0]):
        key = 0
        for axis in range(3):
            cell = np.int64(max(points[i, axis], 0)) >> shift
            for bit in range(5):
                key |= (cell >> bit & 1) << (3 * bit + axis)
        keys[i] = key
        begins[key + 1] += 1
    for key in range(begins.shape[0] - 1):
        begins[key + 1] += begins[key]
    for i in range(points.shape[0]):
        order[begins[keys[i]]] = i
        begins[keys[i]] += 1
