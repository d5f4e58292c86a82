"""Backtracking: where a half ends invalidly, it goes back some steps and takes others (MRtrix3's ``tckgen -backtrack``).

It goes back from the farthest point that it has come to: by one step at first, and by one more after each TRIES times without
coming farther.  It has ended for good when it would have to go back beyond its seed.  A half whose steps are arcs goes back by
whole arcs, to a point one part before their begin, and gives up when these have more parts than it has taken: tckgen's iFOD2
differs so from its other algorithms.  The number of times that a half has gone back is added to the counter of its random
numbers.  Smith et al. 2012.
"""

from __future__ import annotations

from ...linker.lang import *
from ...linker.rng import PARTICLE
from ..halves import *
from ..interpolate import Volume
from ..orientation.peaks import NONE
from ..stop_reasons import Stop
from ..trail import *

rejects = Hole("stage: 1 if the stopping rule does not accept where a half has ended, else 0")
TRIES = 3
MOST_TIMES = 1 << 15  # what the counter has room for
KEPT = 4  # numbers that a half keeps: the farthest it has come, steps back besides the first, tries with those, times
INVALID_END, NO_DIRECTION = int(Stop.INVALID_END), int(Stop.NO_DIRECTION)


@func
def place_of(half: i32) -> i32:
    """Where a half keeps its numbers."""
    return POINT * half + 3 + CARRIED + FOR_RULE


@stage
def load_times(walk: Walk, half: i32, halves: Halves, recovery: Recovery):
    """Add the number of times that the half has gone back to the counter."""
    walk.branch = walk.branch + (u32(i32(halves.point[place_of(half) + 3])) << u32(PARTICLE))


@func
def plan_return(half: i32, taken: i32, halves: Halves) -> i32:
    """Return how many steps a half keeps that has ended after ``taken`` steps; NONE if it has to go back beyond its seed."""
    place = place_of(half)
    farthest = i32(halves.point[place])
    more = i32(halves.point[place + 1])
    tries = i32(halves.point[place + 2]) + 1
    times = i32(halves.point[place + 3]) + 1
    if taken > farthest:
        farthest = taken
        more = 0
        tries = 1
    elif tries > TRIES:
        more = more + 1
        tries = 1
    part = (farthest + 1) - ((farthest + 1) // ARC) * ARC
    back = where(part == 0, ARC, part) + more * ARC
    most = farthest
    if ARC > 1:
        most = taken
    barrier()
    halves.point[place] = real(farthest)
    halves.point[place + 1] = real(more)
    halves.point[place + 2] = real(tries)
    halves.point[place + 3] = real(times)
    barrier()
    return where((back <= most) & (times < MOST_TIMES), farthest - back, NONE)


@stage
def backtrack(
    walk: Walk, state: State, memory: Memory, half: i32, seeds: Seeds, halves: Halves, rules: Rules, volume: Volume,
    method: Method, scratch: Scratch, recovery: Recovery,
):  # fmt: skip
    """Go on from an earlier point where a half has ended invalidly."""
    if (walk.goes_on == 0) & (walk.status != GROWING):
        invalid = rejects(walk, memory)
        if invalid == 1:
            kept = plan_return(half, walk.taken, halves)
            if kept >= 0:
                go_back(walk, state, half, kept, seeds, halves, rules, volume, method, scratch)
                # going back counts as a step, so that a launch ends
                walk.last = kept + maximum(walk.last - walk.taken - 1, 0)
                walk.taken = kept
                walk.ahead = walk.p
                walk.status = GROWING
                walk.due = GROWING
                walk.moves = 0
                walk.attempt = 0
                walk.branch = u32(halves.branch[half >> 1] * 2 + (half & 1))
                load_times(walk, half, halves, recovery)
                if walk.taken < walk.last:
                    walk.goes_on = 1


@stage
def rejects_invalid(walk: Walk, memory: Memory) -> i32:
    """For rules that accept no end without a direction."""
    return where((walk.status == INVALID_END) | (walk.status == NO_DIRECTION), 1, 0)


STAGES = {"load_recovery": load_times, "recover": backtrack}
