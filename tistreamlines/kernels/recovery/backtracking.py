"""Backtracking: where a half ends invalidly, it goes back some steps and takes others (MRtrix3's ``tckgen -backtrack``).

It goes back from the farthest point that it has come to: by one step at first, and by one more after each TRIES times without
coming farther.  It has ended for good when it would have to go back beyond its seed.  A half whose steps are arcs goes back by
whole arcs, to a point one part before their begin, and gives up when these have more parts than it has taken: tckgen's iFOD2
differs so from its other algorithms.  The number of times that a half has gone back is added to the counter of its random
numbers.  Smith et al. 2012.
"""

from ...linker.lang import *
from ...linker.rng import PARTICLE
from ..growth import load_state, store_state
from ..halves import *
from ..orientation.peaks import NONE
from ..stop_reasons import GROWING, INVALID_END, NO_DIRECTION
from ..trail import *

rejects = Hole("stage: 1 if the stopping rule does not accept where a half has ended, else 0")
TRIES = 3
MOST_TIMES = 1 << 15  # what the counter has room for
KEPT = 4  # numbers that a half keeps: the farthest it has come, steps back besides the first, tries with those, times
STEPS_BEFORE = 24  # from the point that is kept in team memory to the one that a half has gone back to


class Checkpoint(Record):
    """Team memory: a point of the half, from which its steps are followed instead of from the seed, since it is nearer.

    ``step``, the steps to it, 0 if there is none; ``point``; ``carried``, the state there.
    """

    step: Ints
    point: Reals
    carried: Reals

    @staticmethod
    def sizes(recovery, getter):
        return {"step": 1, "point": 3, "carried": max(getter.carried, 1)}


@func
def place_of(half: i32) -> i32:
    """Where a half keeps its numbers."""
    return POINT * half + 3 + CARRIED + FOR_RULE


@func
def forget_point(recovery: Checkpoint):
    """Have no point in team memory."""
    barrier()
    recovery.step[0] = 0
    barrier()


@stage
def load_times(walk: Walk, half: i32, halves: Halves, recovery: Checkpoint):
    """Add the number of times that the half has gone back to the counter; no point of it is in team memory."""
    forget_point(recovery)
    add_times(walk, half, halves)


@stage
def add_times(walk: Walk, half: i32, halves: Halves):
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
def keep_point(state: State, p: vec3, step: i32, scratch: Scratch, recovery: Checkpoint):
    """Keep a point in team memory."""
    barrier()
    recovery.step[0] = step
    recovery.point[0] = p[0]
    recovery.point[1] = p[1]
    recovery.point[2] = p[2]
    store_state(state, scratch, recovery.carried, 0, 1)
    barrier()


@stage
def return_to(walk: Walk, state: State, half: i32, kept: i32, run: Run):
    """Bring a half back to where it was after ``kept`` steps, from the point in team memory or from the seed."""
    branch = u32(run.halves.branch[half >> 1] * 2 + (half & 1))
    trail = Trail()
    from_seed = where((run.recovery.step[0] > 0) & (run.recovery.step[0] < kept), 0, 1)
    first = where(from_seed == 1, 0, run.recovery.step[0])
    if from_seed == 1:
        forget_point(run.recovery)  # which lies beyond, so other steps lead on there
        begin_again(trail, state, half, walk.seed, branch, run)
    else:
        trail.p = vec3(run.recovery.point[0], run.recovery.point[1], run.recovery.point[2])
        trail.code = run.halves.codes[code_place(half, first - 1, run.rules)]
        load_state(state, run.scratch, trail.code, run.recovery.carried, 0, 1)
    for ahead in range(kept - first):
        if (ahead > 0) & (first + ahead == kept - STEPS_BEFORE):
            keep_point(state, trail.p, first + ahead, run.scratch, run.recovery)
        step_again(trail, state, half, first + ahead, kept, walk.seed, branch, run)
    walk.p = trail.p
    walk.code = trail.code


@stage
def backtrack(walk: Walk, state: State, memory: Memory, half: i32, run: Run):
    """Go on from an earlier point where a half has ended invalidly."""
    if (walk.goes_on == 0) & (walk.status != GROWING):
        invalid = rejects(walk, memory)
        if invalid == 1:
            kept = plan_return(half, walk.taken, run.halves)
            if kept >= 0:
                return_to(walk, state, half, kept, run)
                # going back counts as a step, so that a launch ends
                walk.last = kept + maximum(walk.last - walk.taken - 1, 0)
                walk.taken = kept
                walk.ahead = walk.p
                walk.status = GROWING
                walk.due = GROWING
                walk.moves = 0
                walk.attempt = 0
                walk.branch = u32(run.halves.branch[half >> 1] * 2 + (half & 1))
                add_times(walk, half, run.halves)
                if walk.taken < walk.last:
                    walk.goes_on = 1


@stage
def rejects_invalid(walk: Walk, memory: Memory) -> i32:
    """For rules that accept no end without a direction."""
    return where((walk.status == INVALID_END) | (walk.status == NO_DIRECTION), 1, 0)
