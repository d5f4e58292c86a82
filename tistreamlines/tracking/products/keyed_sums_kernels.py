"""The kernels of :mod:`.keyed_sums`, which loads a copy of this file, hence the whole name of a module."""

from __future__ import annotations

import numpy as np

from tistreamlines.backends.numba.compiler import compiled

SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio spreads neighbouring keys (Knuth, TAOCP 3, section 6.4)


@compiled
def place_of(slots, key, state):
    """Return the slot of a key: the first one from its own place on that no other has taken; -1 without room for it.

    Without slots, each key has its place.
    """
    if len(slots) == 0:
        return key
    mixed = (np.uint64(key) * SPREAD) >> np.uint64(32)
    place = np.int64((mixed * np.uint64(len(slots))) >> np.uint64(32))
    while slots[place] != key:
        if slots[place] < 0:
            if state[0] == 0:
                return -1
            state[0] -= 1
            slots[place] = key
        else:
            place += 1
            if place == len(slots):
                place = 0
    return place


@compiled
def insert(slots, totals, state, keys, sums):
    """Add the sums of some keys, (n, columns).

    ``slots`` holds the key of each row of ``totals``, or -1. ``state`` is how many new keys there is room for, and how
    many of the items are added; it stops at one that there is no room for.
    """
    for item in range(state[1], len(keys)):
        place = place_of(slots, keys[item], state)
        if place < 0:
            return
        for column in range(sums.shape[1]):
            totals[place, column] += sums[item, column]
        state[1] = item + 1
