"""The kernels of :mod:`.matrix`, which loads a copy of this file, hence the whole name of a module."""

from __future__ import annotations

import math

import numpy as np

from tistreamlines.backends.numba.compiler import compiled

BLOCK_BITS = 5
BLOCKS = 1 << BLOCK_BITS
CUBE = np.float32(8.0)  # mm
LANES = 8  # sums whose order is that of NumPy


@compiled
def edge_of(nodes, item, count):
    """Return the number of the edge between the two nodes of a streamline; ``matrix.nodes_of`` returns these again.

    Edges count from 0 on, nodes from 1 on. Where an end has no node, 0, the edge is the last one.
    """
    row = np.int64(min(nodes[item, 0], nodes[item, 1])) - 1
    column = np.int64(max(nodes[item, 0], nodes[item, 1])) - 1
    return count * (count + 1) // 2 if row < 0 else row * (2 * count - row - 1) // 2 + column


@compiled
def list_nodes(labels, row, voxels, nodes, volumes, nameless, state):
    """List the voxels of labels that have a row, from 1 on, and labels that have none, once for each voxel.

    ``voxels`` and ``nodes``, the rows, have room for all voxels with a label, and ``nameless`` for their labels.
    ``volumes`` has zeros, to which the voxels of each row are added. ``state`` receives how many are listed of both.
    """
    count, others = 0, 0
    for voxel in range(len(labels)):
        label = labels[voxel]
        if label > 0:
            if row[label] > 0:
                voxels[count] = voxel
                nodes[count] = row[label]
                volumes[row[label] - 1] += 1
                count += 1
            else:
                nameless[others] = label
                others += 1
    state[0], state[1] = count, others


@compiled
def mark_voxels(voxels, present):
    """Set what is present of some voxels to 1; several threads may."""
    for k in range(len(voxels)):
        present[voxels[k]] = 1


@compiled
def number_columns(row_of_voxel, voxels, voxel_nodes, column):
    """Set the node of the row of each voxel that has one in a parcellation."""
    for k in range(len(voxels)):
        column[row_of_voxel[voxels[k]]] = voxel_nodes[k]


@compiled
def nodes_of_rows(rows, column, words, nodes, places, lacking, state):
    """Find the node of each row, (n, 2).

    If there is room, ``lacking[:state[0]]`` receives the ends in ``words`` whose row has no node, and ``places`` those
    of their nodes.
    """
    count = 0
    for item in range(len(rows)):
        for side in range(2):
            node = column[rows[item, side]]
            nodes[item, side] = node
            if node == 0 and rows[item, side] > 0 and len(places) > 0:
                places[count] = 2 * item + side
                for axis in range(3):
                    lacking[count, axis] = words[item, 3 * side + axis]
                count += 1
    state[0] = count


@compiled
def cube_of(ends, item, first):
    """Return the number of the cube that holds an end, which has a side of CUBE mm."""
    number = np.int64(0)
    for axis in range(3):
        number = number << 7 | np.int64(ends[item, first + axis] / CUBE + 64.0) & 127
    return number


@compiled
def number_cubes(ends, blocks, keys):
    """Number streamlines by their block and the cubes of their ends, (n, 6), so that neighbours follow each other."""
    for item in range(len(ends)):
        one, other = cube_of(ends, item, 0), cube_of(ends, item, 3)
        keys[item] = (np.int64(blocks[item]) << 21 | min(one, other)) << 21 | max(one, other)


@compiled
def number_edges(nodes, numbers, count, keys):
    """Number the edge and the block of each streamline."""
    for item in range(len(keys)):
        keys[item] = edge_of(nodes, item, count) << BLOCK_BITS | np.int64(numbers[item]) & (BLOCKS - 1)


@compiled
def sum_edges(nodes, blocks, amounts, count, table, touched, keys, sums, state):
    """Sum the amounts of streamlines, (n, columns), for each edge and block; those of a block follow each other.

    ``table`` has zeros for each edge, and ``touched`` room for the edges of a block. ``keys`` and ``sums`` receive the
    edge and block that have streamlines, and their sums, from the place ``state[0]`` on, which moves on.
    """
    place, present = state[0], 0
    for item in range(len(nodes)):
        edge = edge_of(nodes, item, count)
        if table[edge, 0] == 0:  # the first column counts streamlines
            touched[present] = edge
            present += 1
        for column in range(amounts.shape[1]):
            table[edge, column] += amounts[item, column]
        if item + 1 == len(nodes) or blocks[item + 1] != blocks[item]:
            for k in range(present):
                edge = touched[k]
                keys[place] = edge << BLOCK_BITS | np.int64(blocks[item])
                for column in range(amounts.shape[1]):
                    sums[place, column] = table[edge, column]
                    table[edge, column] = 0
                place += 1
            present = 0
    state[0] = place


@compiled
def order_edges(keys, starts, order):
    """Order keys by their edges, which count from 0 on and are at most ``len(starts) - 3``; ``starts`` has zeros."""
    for k in range(len(keys)):
        starts[(keys[k] >> BLOCK_BITS) + 2] += 1
    for edge in range(2, len(starts)):
        starts[edge] += starts[edge - 1]
    for k in range(len(keys)):
        edge = (keys[k] >> BLOCK_BITS) + 1
        order[starts[edge]] = k
        starts[edge] += 1


@compiled
def add_up(values):
    """Return the sum of the values of all blocks."""
    for first in range(LANES, BLOCKS, LANES):
        for lane in range(LANES):
            values[lane] += values[first + lane]
    return ((values[0] + values[1]) + (values[2] + values[3])) + ((values[4] + values[5]) + (values[6] + values[7]))


@compiled
def without_blocks(parts, column, scale, without):
    """Take a sum without the part of each block, times a number."""
    for block in range(BLOCKS):
        without[block] = (parts[column, BLOCKS] - parts[column, block]) * scale


@compiled
def measure_edges(starts, order, keys, sums, units, volumes, terms, scales, parts, without, values, errors):
    """Measure edges, and their standard errors by leaving out a block at a time.

    ``order[starts[k]:starts[k + 1]]`` are the rows of ``sums`` that belong to edge k, and ``keys`` say of which block
    each is. The nodes of the edge have ``volumes[k]`` voxels. ``terms`` has for each measure the column of its
    numerator and that of its denominator: -1 for none, -2 for the volume. ``parts``, (columns, BLOCKS + 1), and
    ``without``, (2, BLOCKS), are memory.
    """
    for edge in range(len(starts) - 1):
        for column in range(sums.shape[1]):
            total = np.int64(0)
            for block in range(BLOCKS):
                parts[column, block] = 0.0
            for place in range(starts[edge], starts[edge + 1]):
                row = order[place]
                total += sums[row, column]
                parts[column, keys[row] & (BLOCKS - 1)] = sums[row, column] / units[column]
            parts[column, BLOCKS] = total / units[column]
        for measure in range(terms.shape[0]):
            above, below = terms[measure, 0], terms[measure, 1]
            value = parts[above, BLOCKS]
            without_blocks(parts, above, scales[measure], without[0])
            if below == -2:
                value = value / volumes[edge]
                for block in range(BLOCKS):
                    without[0, block] = without[0, block] / volumes[edge]
            elif below >= 0:
                value = value / parts[below, BLOCKS]
                without_blocks(parts, below, scales[measure], without[1])
                for block in range(BLOCKS):
                    without[0, block] = without[0, block] / without[1, block]
            values[measure, edge] = value
            for block in range(BLOCKS):
                without[1, block] = without[0, block]
            mean = add_up(without[1]) / BLOCKS
            for block in range(BLOCKS):
                spread = without[0, block] - mean
                without[1, block] = spread * spread
            errors[measure, edge] = math.sqrt((BLOCKS - 1) / BLOCKS * add_up(without[1]))
