"""How a half-streamline grows: step, stopping, selection, and recovery where one of them ends it.

Each of these fills holes of ``grow`` with stages of its own.  A hole that is filled with None is left out.
"""

from ..linker.lang import *
from .halves import *
from .interpolate import inside
from .orientation.peaks import LEAVES, NONE
from .stop_reasons import GROWING, MAX_LENGTH, NO_DIRECTION, NOT_GROWN, OUTSIDE_IMAGE

# the direction getter
read = Hole("reads what the getter and the stopping rule need of the voxels' rows at a point, given the code of the last step")
set_out = Hole("stage: sets the state of a half at its seed; returns the code that stands for its last step")
load_state = Hole("stage: sets the state of a half that has taken steps, or None")
store_state = Hole("stage: stores it, or None")
look_ahead = Hole("stage: asks caches for the likely rows of the next point, or None")
choose = Hole("code of the next step, NONE, LEAVES, or AGAIN for another draw; it is enough to repeat the step from the point before it")
move = Hole("stage: the point that a step leads to; sets the state after it")
move_as_chosen = Hole("stage: the same for the step that has just been chosen, of which the getter may know more than its code")
drop_dead_end = Hole("stage: drops the last point, where no direction is found, or None if such points are kept")
postpone = Hole("stage: puts a stop reason off until a direction is found at the last point, or None")
fall_due = Hole("stage: ends a half for the reason that was put off, or None")
# the stopping rule
classify = Hole("the reason to stop at a point, or GROWING")
load_memory = Hole("stage: restores what the rule remembers of a half, or None")
remember = Hole("stage: notes a point that is looked at; may change what the rule says, or end a half at its seed; or None")
conclude = Hole("stage: the rule's verdict on a half that has ended: its reason, and how many steps are kept; or None")
note_point = Hole("stage: keeps a point that a step leads on from, or None")
crop = Hole("stage: says where a half that has ended lies within its last segment, or None")
store_memory = Hole("stage: stores what the rule remembers, or None")
KEPT_POINTS = Constant("one bit for each stop reason: 1 if the point that it ends a half at is kept")
# the selection; all are stages, or None
load_bits = Hole("begins with the bits of the points so far")
look = Hole("finds the bits of the point that is looked at")
confine = Hole("ends a half outside the limit mask")
add_point = Hole("takes a new last point into account")
stand = Hole("takes the last point into account where a launch begins, or another draw")
leave_point = Hole("collects the bits of the last point, which is certain to stay, since a step leads on from it")
store_bits = Hole("stores the bits")
# the recovery; all are stages, or None
load_recovery = Hole("restores what a half keeps for it")
reconsider = Hole("may let a half go on where the stopping rule ends it")
recover = Hole("may go on where a half has ended, from an earlier point")
store_recovery = Hole("stores what a half keeps for it")

TRUNCATES = Constant("1: a streamline ends with its greatest number of steps, 0: both halves may have as many as rules allow")
IN_VAIN = Constant("one bit for each stop reason: 1 if no streamline is accepted whose forward half ends for it")


@func
def visit(position: Position, run: Run) -> i32:
    """Read the rows at a point; return the reason to stop there, or GROWING."""
    reason = OUTSIDE_IMAGE
    barrier()
    if inside(run.volume.shape, position.p) == 1:
        read(run.volume, position.p, position.code, run.method, run.scratch)
        barrier()
        reason = classify(run.stopping, run.volume, position.p, run.scratch.row, position.c0, position.c1, position.c2, run.rules.key)
    return reason


@stage
def examine(walk: Walk, state: State, memory: Memory, run: Run):
    """Ask the stopping rule about the point ahead; ``moves`` is 0 where it has seen that point before, or at the seed."""
    number = u32(walk.taken + walk.moves)
    ahead = Position(walk.ahead, walk.code, state, walk.attempt, walk.seed, number, walk.branch)
    walk.reason = visit(ahead, run)
    remember(walk, memory, run.volume, run.stopping, run.scratch, run.rules)


@func
def most_steps(half: i32, halves: Halves, rules: Rules) -> i32:
    """Greatest number of steps of a half.

    A backward half that grows when its forward half has ended needs no more steps than make the streamline too long.
    """
    most = rules.max_steps
    if TRUNCATES:
        most = minimum(most, rules.most)
        if (half & 1) == 1:
            most = minimum(most, rules.most - halves.state[2 * half - 2])
    elif IN_TURN:
        if (half & 1) == 1:
            most = minimum(most, maximum(rules.most - halves.state[2 * half - 2], 0) + 1 + DROPS_DEAD_END)
    return most


@stage
def load(walk: Walk, state: State, memory: Memory, bits: Bits, half: i32, steps: i32, run: Run):
    """Begin where the half stands."""
    walk.taken = run.halves.state[2 * half]
    walk.last = walk.taken + steps
    walk.most = most_steps(half, run.halves, run.rules)
    walk.p = vec3(run.halves.point[POINT * half], run.halves.point[POINT * half + 1], run.halves.point[POINT * half + 2])
    walk.ahead = walk.p
    walk.seed = u32(run.halves.seed[half >> 1]) + run.rules.first_seed
    walk.branch = u32(run.halves.branch[half >> 1] * 2 + (half & 1))
    walk.code = last_code(half, walk.taken, run.halves, run.rules)
    if walk.taken > 0:
        load_state(state, run.scratch, walk.code, run.halves.point, POINT * half + 3, 1)
    else:
        first = first_code(half, run.halves, run.rules)
        seed = Position(walk.p, walk.code, state, walk.attempt, walk.seed, u32(0), walk.branch)
        walk.code = set_out(seed, half & 1, first, run)
    if TRUNCATES:
        walk.status = where(walk.taken >= walk.most, MAX_LENGTH, GROWING)
    walk.goes_on = 1
    load_memory(memory, half, run.halves)
    load_recovery(walk, half, run.halves, run.recovery)
    load_bits(walk, bits, half, run.halves)


@stage
def arrive(walk: Walk, half: i32, halves: Halves, rules: Rules):
    """Keep the step and the point that it has led to; note the forward half's first step if it may be taken back."""
    note_point(walk.p, walk.taken, half, halves)
    walk.p = walk.ahead
    halves.codes[code_place(half, walk.taken, rules)] = walk.code
    walk.taken = walk.taken + 1
    if TAKES_BACK:
        if (walk.taken == 1) & ((half & 1) == 0) & (walk.aside == 0):
            halves.first[half >> 1] = walk.code


@stage
def store(walk: Walk, state: State, memory: Memory, bits: Bits, half: i32, run: Run):
    """Ask for the rule's verdict on a half that has ended, and store where it stands."""
    if walk.status != GROWING:
        conclude(walk, memory, run.stopping, run.rules)
        crop(walk, half, run.halves, run.stopping)
    store_memory(memory, half, run.halves)
    store_recovery(half, run.halves, run.recovery)
    store_bits(walk, bits, half, run)
    store_state(state, run.scratch, run.halves.point, POINT * half + 3, 1)
    for axis in each(3):
        run.halves.point[POINT * half + axis] = where(axis == 0, walk.p[0], where(axis == 1, walk.p[1], walk.p[2]))
    run.halves.state[2 * half] = walk.taken
    run.halves.state[2 * half + 1] = walk.status


@stage
def decide(walk: Walk, state: State, run: Run):
    """Ask the getter for the next step."""
    number = u32(walk.taken + 1)
    look_ahead(walk.p, walk.code, run.volume, run.method, run.rules)
    here = Position(walk.p, walk.code, state, walk.attempt, walk.seed, number, walk.branch)
    walk.choice = choose(here, run)


@stage
def step(walk: Walk, state: State, run: Run):
    """Take the step that the getter has chosen, if it needs no other draw.

    For another draw the row of the same point is read again, since the getter may have overwritten it.
    """
    walk.goes_on = 1
    walk.moves = 0
    walk.ahead = walk.p
    walk.attempt = walk.attempt + 1
    fall_due(walk)
    if walk.choice >= 0:
        walk.attempt = 0
        walk.code = walk.choice
        walk.moves = 1
        number = u32(walk.taken + 1)
        here = Position(walk.p, walk.code, state, walk.attempt, walk.seed, number, walk.branch)
        walk.ahead = move_as_chosen(here, run)


@func
def grow(half: i32, steps: i32, run: Run):
    """Grow a half-streamline by at most ``steps`` steps."""
    if run.halves.state[2 * half + 1] == GROWING:
        walk = Walk()
        state = State()
        memory = Memory()
        bits = Bits()
        load(walk, state, memory, bits, half, steps, run)
        while walk.goes_on == 1:
            examine(walk, state, memory, run)
            look(walk, bits, run.filter)
            if walk.moves == 1:
                walk.status = walk.reason
                reconsider(walk, run.scratch, run.rules, run.recovery)
                confine(walk, bits, run.filter)
                if (KEPT_POINTS >> walk.status) & 1 == 1:
                    arrive(walk, half, run.halves, run.rules)
                    add_point(walk, bits, half, run.halves, run.filter)
                    if (walk.status == GROWING) & (walk.taken == walk.most):
                        walk.status = MAX_LENGTH
            else:
                walk.status = where(walk.reason == OUTSIDE_IMAGE, OUTSIDE_IMAGE, walk.status)
                stand(walk, bits, half, run.halves, run.filter)
            postpone(walk, run.rules)
            walk.goes_on = 0
            if (walk.status == GROWING) & (walk.taken < walk.last):
                decide(walk, state, run)
                if (walk.choice == NONE) | (walk.choice == LEAVES):
                    walk.status = where(walk.choice == NONE, NO_DIRECTION, OUTSIDE_IMAGE)
                    drop_dead_end(walk, bits, half, run.halves)
                else:
                    step(walk, state, run)
                    leave_point(walk, bits, half, run.halves, run.filter)
            recover(walk, state, memory, half, run)
        store(walk, state, memory, bits, half, run)


@func
def advance(item: i32, stride: i32, sides: i32, steps: i32, run: Run):
    """Grow half ``item * stride`` and, if there are two ``sides``, the next one when that half has ended.

    As in MRtrix3's tckgen, a backward half that has to wait for its forward half (IN_TURN) does not grow where the forward
    half's end is reason enough to drop both.
    """
    for side in range(sides):
        half = item * stride + side
        barrier()
        ended = 1
        if side == 1:
            reason = run.halves.state[2 * half - 1]
            ended = where(reason == GROWING, 0, 1)
            if IN_TURN:
                if (IN_VAIN >> reason) & 1 == 1:
                    run.halves.state[2 * half + 1] = NOT_GROWN
        if ended == 1:
            grow(half, steps, run)
