"""The kernels of :mod:`.matrix`, which loads a copy of this file, hence the whole name of a module."""

from __future__ import annotations

import math

import numpy as np

from tistreamlines.backends.numba.compiler import compiled

BLOCK_BITS = 5
BLOCKS = 1 << BLOCK_BITS
LANES = 8  # sums whose order is that of NumPy


@compiled
def number_edges(nodes, numbers, count, keys):
    """Number the edge and the block of each streamline, of two nodes from 1 on; see ``matrix.nodes_of``."""
    for item in range(len(keys)):
        row = np.int64(min(nodes[item, 0], nodes[item, 1])) - 1
        column = np.int64(max(nodes[item, 0], nodes[item, 1])) - 1
        edge = count * (count + 1) // 2 if row < 0 else row * (2 * count - row - 1) // 2 + column
        keys[item] = edge << BLOCK_BITS | np.int64(numbers[item]) & (BLOCKS - 1)


@compiled
def add_up(values):
    """Return the sum of the values of all blocks."""
    for lane in range(LANES):
        for block in range(lane + LANES, BLOCKS, LANES):
            values[lane] += values[block]
    return ((values[0] + values[1]) + (values[2] + values[3])) + ((values[4] + values[5]) + (values[6] + values[7]))


@compiled
def measure_edges(starts, blocks, sums, units, volumes, terms, scales, parts, without, values, errors):
    """Measure edges, and their standard errors by leaving out a block at a time.

    The rows of ``sums``, of ``blocks``, are those of edge k from ``starts[k]`` to ``starts[k + 1]``, and its nodes have
    ``volumes[k]`` voxels. ``terms`` has for each measure the column of its numerator and that of its denominator: -1
    for none, -2 for the volume. ``parts``, (columns, BLOCKS + 1), and ``without``, (2, BLOCKS), are memory.
    """
    for edge in range(len(starts) - 1):
        for column in range(sums.shape[1]):
            total = np.int64(0)
            for block in range(BLOCKS):
                parts[column, block] = 0.0
            for row in range(starts[edge], starts[edge + 1]):
                total += sums[row, column]
                parts[column, blocks[row]] = sums[row, column] / units[column]
            parts[column, BLOCKS] = total / units[column]
        for measure in range(terms.shape[0]):
            above, below = terms[measure, 0], terms[measure, 1]
            for block in range(BLOCKS + 1):
                value = parts[above, BLOCKS]
                if block < BLOCKS:
                    value = (value - parts[above, block]) * scales[measure]
                if below == -2:
                    value = value / volumes[edge]
                elif below >= 0:
                    other = parts[below, BLOCKS]
                    if block < BLOCKS:
                        other = (other - parts[below, block]) * scales[measure]
                    value = value / other
                if block < BLOCKS:
                    without[0, block] = without[1, block] = value
                else:
                    values[measure, edge] = value
            mean = add_up(without[1]) / BLOCKS
            for block in range(BLOCKS):
                spread = without[0, block] - mean
                without[1, block] = spread * spread
            errors[measure, edge] = math.sqrt((BLOCKS - 1) / BLOCKS * add_up(without[1]))
