"""Ends in the cortex that are moved to its interface with white matter (MRtrix3's ``tckgen -crop_at_gmwmi``)."""

from __future__ import annotations

from ...linker.lang import *
from ..halves import *
from ..trail import *
from .act5 import ENTERED_CORTEX
from .five_tissues import NEAR, Act5, excess_at

ROUNDS = 10  # of bisection, whose places are 1/1024 of a segment apart


@stage
def keep_point_before(p: vec3, steps: i32, half: i32, halves: Halves):
    """Keep the point of a half after so many steps, from which a step leads on."""
    place = 6 * half + 3 * (steps & 1)
    for axis in each(3):
        halves.before[place + axis] = where(axis == 0, p[0], where(axis == 1, p[1], p[2]))


@func
def point_before(half: i32, steps: i32, halves: Halves) -> vec3:
    """The point of a half after so many steps, one or two before its last one."""
    place = 6 * half + 3 * (steps & 1)
    return vec3(halves.before[place], halves.before[place + 1], halves.before[place + 2])


@stage
def crop_at_interface(walk: Walk, half: i32, halves: Halves, stopping: Act5):
    """Find where the last segment of a half leaves white matter, by bisection of the curve through its last points."""
    high = PARTS
    if (walk.status == ENTERED_CORTEX) & (walk.taken > 0):
        barrier()
        trail = Trail()
        trail.p = walk.p
        trail.code = walk.code
        trail.before = point_before(half, walk.taken - 1, halves)
        trail.earlier = point_before(half, maximum(walk.taken - 2, 0), halves)
        if (excess_at(stopping, trail.p) >= NEAR) & (excess_at(stopping, trail.before) < 0.0):
            low = 0
            for _ in range(ROUNDS):
                middle = (low + high) >> 1
                found = excess_at(stopping, cropped_end(trail, middle))
                low = where(found < 0.0, middle, low)
                high = where(found < 0.0, high, middle)
                low = where((found >= 0.0) & (found < NEAR), high, low)
    halves.cropped[half] = where(high < PARTS, high, 0)
