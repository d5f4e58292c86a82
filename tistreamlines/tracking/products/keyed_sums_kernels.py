"""The kernels of :mod:`.keyed_sums`, which loads a copy of this file, hence the whole name of a module."""

from __future__ import annotations

import numpy as np

from tistreamlines.backends.numba.compiler import compiled

SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio spreads neighbouring keys (Knuth, TAOCP 3, section 6.4)


@compiled
def insert(slots, totals, keys, sums, state):
    """Add the sums of some keys, (n, columns).

    ``slots`` holds the key of each row of ``totals``, or -1. A key is in the first slot from its own place on that no
    other one has taken. ``state`` is how many new keys there is room for, and how many of the keys are added; it stops
    at a key that there is no room for.
    """
    for item in range(state[1], len(keys)):
        key = keys[item]
        mixed = (np.uint64(key) * SPREAD) >> np.uint64(32)
        place = np.int64((mixed * np.uint64(len(slots))) >> np.uint64(32))
        while slots[place] != key:
            if slots[place] < 0:
                if state[0] == 0:
                    return
                state[0] -= 1
                slots[place] = key
            else:
                place += 1
                if place == len(slots):
                    place = 0
        for column in range(sums.shape[1]):
            totals[place, column] += sums[item, column]
        state[1] = item + 1


@compiled
def edges(found, numbers, nodes, blocks, keys, streamlines, counted):
    """List the streamlines with a node at both ends, and the key of each; ``counted[0]`` is how many these are."""
    count = 0
    for item in range(len(found)):
        low = min(found[item, 0], found[item, 1])
        if low > 0:
            high = max(found[item, 0], found[item, 1])
            edge = np.int64(low - 1) * nodes + np.int64(high - 1)
            keys[count] = edge * blocks + np.int64(numbers[item]) % blocks
            streamlines[count] = item
            count += 1
    counted[0] = count
