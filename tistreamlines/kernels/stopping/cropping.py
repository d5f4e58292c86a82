"""Ends in the cortex that are moved to its interface with white matter (MRtrix3's ``tckgen -crop_at_gmwmi``)."""

from __future__ import annotations

from ...linker.lang import *
from ..halves import *
from ..interpolate import Volume
from ..trail import *
from .act5 import ENTERED_CORTEX, NEAR, Act5, excess_at

ROUNDS = 10  # of bisection, whose places are 1/1024 of a segment apart


@stage
def crop_at_interface(
    walk: Walk, half: i32, seeds: Seeds, halves: Halves, rules: Rules, volume: Volume, stopping: Act5, method: Method,
    scratch: Scratch,
):  # fmt: skip
    """Find where the last segment of a half leaves white matter, by bisection of the curve through its last points."""
    high = PARTS
    if (walk.status == ENTERED_CORTEX) & (walk.taken > 0):
        branch = u32(halves.branch[half >> 1] * 2 + (half & 1))
        trail = Trail()
        repeated = State()
        begin_again(trail, repeated, half, walk.seed, branch, seeds, halves, rules, volume, method, scratch)
        for k in range(walk.taken):
            take_again(trail, repeated, half, k, 0, walk.seed, branch, halves, rules, volume, method, scratch)
        if (excess_at(stopping, trail.p) >= NEAR) & (excess_at(stopping, trail.before) < 0.0):
            low = 0
            for _ in range(ROUNDS):
                middle = (low + high) >> 1
                found = excess_at(stopping, cropped_end(trail, middle))
                low = where(found < 0.0, middle, low)
                high = where(found < 0.0, high, middle)
                low = where((found >= 0.0) & (found < NEAR), high, low)
    halves.cropped[half] = where(high < PARTS, high, 0)
