"""The kernels of :mod:`.chunk`, each of which passes once over its streamlines; it loads a copy of this file, hence the
whole name of a module.
"""

import numpy as np

from tistreamlines.backends.numba.compiler import compiled


@compiled
def enlist(counts, slot, seed, branch, number):
    """Number the streamlines of each seed as the device does, from ``slot`` on."""
    place = 0
    for i in range(counts.shape[0]):
        for k in range(counts[i]):
            seed[place] = i
            branch[place] = k
            number[place] = slot[i] + k
            place += 1


@compiled
def tally(state, out):
    """Add up the steps of all halves, find the most of one, and count forward and backward halves by stop reason."""
    total = most = 0
    for i in range(state.shape[0]):
        for side in range(2):
            total += state[i, side, 0]
            most = max(most, state[i, side, 0])
            out[1 + side, state[i, side, 1]] += 1
    out[0, 0] = total
    out[0, 1] = most


@compiled
def count(values, out):
    """Add how often each of the values 0, 1 and so on occurs."""
    for i in range(values.shape[0]):
        out[values[i]] += 1


@compiled
def places(state, words, slot, offset):
    """Find the first word of each half and the first point of each streamline, and how many there are.

    ``words`` has those that so many codes need, since a division takes longer.
    """
    word = point = 0
    for i in range(state.shape[0]):
        offset[i] = point
        for side in range(2):
            slot[2 * i + side] = word
            word += words[state[i, side, 0]]
            point += state[i, side, 0]
        point += 1
    slot[2 * state.shape[0]] = word
    offset[state.shape[0]] = point


@compiled
def write_facts(affine, first_seed, chunk, facts):
    """Write what a batch says of each streamline besides its points, and the place of its first one as two types."""
    seeds, seed, branch, state = chunk
    offset, begin, point, number, direction, reasons = facts
    point_number = 0
    for i in range(seed.shape[0]):
        offset[i] = point_number
        begin[i] = point_number
        point_number += state[i, 0, 0] + state[i, 1, 0] + 1
        for axis in range(3):
            x, y, z = seeds[seed[i], 0], seeds[seed[i], 1], seeds[seed[i], 2]
            point[i, axis] = affine[axis, 0] * x + affine[axis, 1] * y + affine[axis, 2] * z + affine[axis, 3]
        number[i] = first_seed + seed[i]
        direction[i] = branch[i]
        reasons[i, 0] = state[i, 1, 1]
        reasons[i, 1] = state[i, 0, 1]
    offset[seed.shape[0]] = point_number


@compiled
def exclusive(counts, out):
    """Write the sum of all counts before each one."""
    total = 0
    for i in range(counts.shape[0]):
        out[i] = total
        total += counts[i]


@compiled
def exclusive_in_order(counts, order, out):
    """Write for each count the sum of those that come before it in an order."""
    total = 0
    for i in order:
        out[i] = total
        total += counts[i]


@compiled
def along_curve(points, shift, keys, begins, order):
    """Find the order of points along a curve through cells, see :func:`.chunk.z_order`."""
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


@compiled
def judge_lengths(state, fewest, most, verdicts, judged):
    """Find the verdicts on streamlines by their steps: accepted, without a step, too short, too long."""
    for i in range(state.shape[0]):
        steps = state[i, 0, 0] + state[i, 1, 0]
        if steps > most:
            judged[i] = verdicts[3]
        elif steps >= fewest:
            judged[i] = verdicts[0]
        else:
            judged[i] = verdicts[1 if steps == 0 else 2]
