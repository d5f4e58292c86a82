"""Kernels that :mod:`.csd` compiles from a copy of this file; hence its imports are absolute.

Arrays are copied in loops, because Numba takes seconds to compile an assignment to a slice. Of a symmetric matrix, row
i holds the columns from i on. It is read and written 32 columns at a time, beyond its end too: there lie the first
columns of the next row, which nobody needs, or the extra elements at the end of the array.
"""

import math
from collections import namedtuple

from tistreamlines.backends.numba.compiler import compiled
from tistreamlines.backends.numba.memory import at, put

SMOOTH = 15  # number of coefficients up to degree 4: DIPY finds the first set of directions from these
CONVERGED, UNFINISHED, SINGULAR = 0, 1, 2
Tables = namedtuple("Tables", "moments unconstrained normal table sampling")  # see .csd._tables
Work = namedtuple("Work", "matrix factor small entered left z first amplitudes x signals")  # memory


@compiled
def _combine(table, weights, count, out):
    """out = sum over i of weights[i] times row i of the table; rows are as long as ``out``."""
    width = out.shape[0]
    for c in range(0, width, 32):
        total = at(table, c) * weights[0]
        for i in range(1, count):
            total = total + at(table, i * width + c) * weights[i]
        put(out, c, total)


@compiled
def _add_squares(matrix, n, width, table, which, count, sign):
    """Add ``sign`` times t t' to the upper triangle of the matrix, for each listed row t of the table.

    Four rows of the matrix, whose number is a multiple of 4, are updated together and share each read of the table.
    """
    for i in range(0, n, 4):
        for c in range(i, n + 1, 32):
            m = i * width + c
            first, second = at(matrix, m), at(matrix, m + width)
            third, fourth = at(matrix, m + 2 * width), at(matrix, m + 3 * width)
            for j in range(count):
                k = which[j] * width
                row = at(table, k + c)
                first = first + (sign * table[k + i]) * row
                second = second + (sign * table[k + i + 1]) * row
                third = third + (sign * table[k + i + 2]) * row
                fourth = fourth + (sign * table[k + i + 3]) * row
            put(matrix, m, first)
            put(matrix, m + width, second)
            put(matrix, m + 2 * width, third)
            put(matrix, m + 3 * width, fourth)


@compiled
def _factor(matrix, n, width, factor):
    """Compute U with matrix = U'U, and replace column n, the right-hand side z, by the solution y of U'y = z."""
    for i in range(n):
        for c in range(i, n + 1, 32):
            row = at(matrix, i * width + c)
            for k in range(i):
                row = row - factor[k * width + i] * at(factor, k * width + c)
            put(factor, i * width + c, row)
        pivot = factor[i * width + i]
        if not pivot > 0.0:
            return False
        scale = 1.0 / math.sqrt(pivot)
        for c in range(i, n + 1, 32):
            put(factor, i * width + c, at(factor, i * width + c) * scale)
    return True


@compiled
def _back_substitute(factor, n, width, x):
    """Solve Ux = y, where y is column n of the factor."""
    for i in range(n):
        x[i] = factor[i * width + n]
    for k in range(n - 1, -1, -1):
        x[k] = x[k] / factor[k * width + k]
        for j in range(k):
            x[j] -= x[k] * factor[j * width + k]


@compiled
def _changes(amplitudes, threshold, small, entered, left):
    """List the directions whose amplitude fell below the threshold or rose above it; return both counts."""
    more, fewer = 0, 0
    for k in range(small.shape[0]):
        now = 1 if amplitudes[k] < threshold else 0
        if now != small[k]:
            small[k] = now
            if now:
                entered[more] = k
                more += 1
            else:
                left[fewer] = k
                fewer += 1
    return more, fewer


@compiled
def _refine(model, work, width, more, threshold, convergence):
    """Solve until the set of small amplitudes stays the same; ``entered[:more]`` is the first set."""
    n = work.x.shape[0]
    fewer = 0
    for _ in range(convergence):
        _add_squares(work.matrix, n, width, model.table, work.entered, more, 1.0)
        _add_squares(work.matrix, n, width, model.table, work.left, fewer, -1.0)
        if not _factor(work.matrix, n, width, work.factor):
            return SINGULAR
        _back_substitute(work.factor, n, width, work.x)
        _combine(model.sampling, work.x, n, work.amplitudes)
        more, fewer = _changes(work.amplitudes, threshold, work.small, work.entered, work.left)
        if more + fewer == 0:
            return CONVERGED
    return UNFINISHED


@compiled
def deconvolve(data, voxels, volumes, tables, tau, convergence, memory, progress, out):
    """Fit the listed rows of the data into those of ``out``.

    ``tables`` are the fields of Tables, and ``memory`` those of Work. ``progress`` are three arrays: the voxels for
    each way to end, the number of all voxels so far, and a number with which another thread ends the loop early.
    """
    model, work = Tables(*tables), Work(*memory)
    ends, finished, stop = progress
    z, first, small, signals = work.z, work.first, work.small, work.signals
    n, width = out.shape[1], z.shape[0]
    for voxel in voxels:
        if stop[0] != 0:
            break
        for i in range(volumes.shape[0]):
            signals[i] = data[voxel, volumes[i]]
        _combine(model.moments, signals, signals.shape[0], z)
        _combine(model.unconstrained, signals, signals.shape[0], first)
        threshold = model.table[0] * first[0] * tau
        for k in range(small.shape[0]):
            small[k] = 0
        _combine(model.sampling, first, min(SMOOTH, n), work.amplitudes)
        more, _ = _changes(work.amplitudes, threshold, small, work.entered, work.left)
        if more == 0:
            _combine(model.sampling, first, n, work.amplitudes)
            more, _ = _changes(work.amplitudes, threshold, small, work.entered, work.left)
        for i in range(n):
            work.x[i] = first[i]
        end = CONVERGED
        if more > 0:
            for i in range(model.normal.shape[0]):
                work.matrix[i] = model.normal[i]
            for i in range(n):
                work.matrix[i * width + n] = z[i]
            end = _refine(model, work, width, more, threshold, convergence)
        ends[end] += 1
        finished[0] += 1
        for i in range(n):
            out[voxel, i] = work.x[i]
