"""Anatomically constrained tractography on five tissues: cortical and subcortical grey matter, white matter, fluid, pathology.

Smith et al. 2012, as MRtrix3's tckgen has it.  A half ends in cortical grey matter, or where it leaves subcortical grey
matter, and is then cut back to a point there (CUT), such as the one at which the getter's function is least along it.  Ends in
fluid, and those without a direction in white matter, are not valid.  A half of a seed in subcortical grey matter may leave it
once; the backward half grows after the forward half, to know whether that one has.
"""

from ...linker.lang import *
from ...linker.maths import exp, reciprocal_root
from ...linker.rng import STOPPING, STREAM, philox, uniform
from ..halves import *
from ..interpolate import Volume
from ..lanes import normalised
from ..stop_reasons import *
from ..trail import *
from .five_tissues import *

along = Hole("the getter's function at a point in a direction, which tells where a half is cut; the same in all lanes")
ONE_WAY = Constant("not 0: there are no backward halves")
CUT = Constant("where a half is cut back to that has left subcortical grey matter, one of CUTS")
CUTS = AT_ENTRY, AT_EXIT, AT_LEAST, AT_RANDOM, BY_CHANCE = 0, 1, 2, 3, 4
SHARPNESS = Constant("one over the value of the getter's function below which it follows no direction")
NUMBERS = 7  # that a half keeps
ASIDE = 0.001  # mm from a seed at which the difference of grey and white matter is compared


class ActMemory(Record):
    """The memory of a half.

    ``depth``, points in the subcortical grey matter in which it is; ``step``, the number of the step to the point to which it
    would be cut back, and ``least``, what tells that: the least value there, or the sum of the points' weights; ``began``, 1 if its
    seed lies in subcortical grey matter; ``freed``, 1 if it or the forward half has left that; ``pathology``, 1 if its last point
    lies in pathological tissue; ``beyond``, 1 if its seed lies on the grey side of the interface to the cortex; ``last``, 1 if
    its streamline has no other half that grows after it.
    """

    depth: i32
    least: real
    step: i32
    began: i32
    freed: i32
    pathology: i32
    beyond: i32
    last: i32


@func
def nothing_along(volume: Volume, p: vec3, d: vec3) -> real:
    """For getters whose functions are not asked: a half is cut where it enters subcortical grey matter."""
    return 0.0


# ------------------------------------------------------------------------------------------------------------- a half
@func
def classify(stopping: Act5, volume: Volume, p: vec3, row: Reals, c0: u32, c1: u32, c2: u32, key: Ints) -> i32:
    """The rule says what it has to say when it notes a point."""
    return GROWING


@stage
def load_act(memory: ActMemory, half: i32, halves: Halves):
    """Tissues that the half has passed; the backward half also knows whether the forward half has left its seed's grey
    matter."""
    place = POINT * half + 3 + CARRIED
    memory.depth = i32(halves.point[place])
    memory.least = halves.point[place + 1]
    memory.step = i32(halves.point[place + 2])
    memory.began = i32(halves.point[place + 3])
    memory.freed = i32(halves.point[place + 4])
    memory.pathology = i32(halves.point[place + 5])
    memory.beyond = i32(halves.point[place + 6])
    memory.last = half & 1
    if ONE_WAY:
        memory.last = 1
    if (half & 1) == 1:
        memory.freed = maximum(memory.freed, i32(halves.point[POINT * (half - 1) + 3 + CARRIED + 4]))


@stage
def store_act(memory: ActMemory, half: i32, halves: Halves):
    """Keep it."""
    place = POINT * half + 3 + CARRIED
    halves.point[place] = real(memory.depth)
    halves.point[place + 1] = memory.least
    halves.point[place + 2] = real(memory.step)
    halves.point[place + 3] = real(memory.began)
    halves.point[place + 4] = real(memory.freed)
    halves.point[place + 5] = real(memory.pathology)
    halves.point[place + 6] = real(memory.beyond)


@func
def heading(stopping: Act5, p: vec3, ahead: vec3) -> vec3:
    """The direction of a step."""
    return normalised(vec3(
        (ahead[0] - p[0]) * stopping.side_x, (ahead[1] - p[1]) * stopping.side_y, (ahead[2] - p[2]) * stopping.side_z
    ))


@func
def divide_side(a: real, side: real) -> real:
    """A part of a direction in voxels a mm."""
    return a * reciprocal_root(side * side)


@func
def excess(stopping: Act5, p: vec3, d: vec3, mm: real) -> real:
    """Grey less white matter at so many mm from a point in a direction."""
    x = p[0] + mm * divide_side(d[0], stopping.side_x)
    y = p[1] + mm * divide_side(d[1], stopping.side_y)
    z = p[2] + mm * divide_side(d[2], stopping.side_z)
    return excess_at(stopping, vec3(x, y, z))


@stage
def note_tissue(walk: Walk, memory: ActMemory, volume: Volume, stopping: Act5, scratch: Scratch, rules: Rules):
    """Refuse a seed, or say where a step has led to."""
    shares = tissues_at(stopping, walk.ahead)  # once for both cases below, since longer kernels are slower
    if walk.moves == 0:
        if walk.taken == 0:
            begins = may_begin(shares)
            memory.began = where(begins == IN_DEEP_GREY, 1, 0)
            memory.beyond = where(begins == BEYOND, 1, 0)
            if begins == REFUSED:
                walk.status = INVALID_END
    elif walk.reason == GROWING:
        kind = kind_of(shares)
        memory.pathology = where(kind == PATHOLOGY, 1, 0)
        if kind == NOWHERE:
            walk.reason = OUTSIDE_IMAGE
        elif kind == FLUID:
            walk.reason = where(memory.depth > 0, LEFT_SUBCORTEX, INVALID_END)
        elif kind == CORTEX:
            walk.reason = ENTERED_CORTEX
        elif kind == SUBCORTEX:
            choose_cut(walk, memory, volume, stopping, rules)
            memory.depth = memory.depth + 1
        elif memory.depth > 0:
            if (memory.began == 1) & (memory.freed == 0):
                memory.freed = 1
                memory.depth = 0
            else:
                walk.reason = LEFT_SUBCORTEX
        # from the grey side of the interface, a streamline goes one way, towards white matter
        if (memory.beyond == 1) & (walk.taken == 0):
            d = heading(stopping, walk.p, walk.ahead)
            if excess(stopping, walk.p, d, ASIDE) > excess(stopping, walk.p, d, 0.0 - ASIDE):
                walk.reason = NOT_GROWN


@stage
def choose_cut(walk: Walk, memory: ActMemory, volume: Volume, stopping: Act5, rules: Rules):
    """Say which of the points in subcortical grey matter so far a half would be cut back to."""
    if CUT == AT_ENTRY:
        if memory.depth == 0:
            memory.step = walk.taken
    if CUT == AT_EXIT:
        memory.step = walk.taken + 1
    if (CUT == AT_LEAST) | (CUT == BY_CHANCE):
        value = along(volume, walk.ahead, heading(stopping, walk.p, walk.ahead))
    if CUT == AT_LEAST:
        if (memory.depth == 0) | (value < memory.least):
            memory.least = value
            memory.step = walk.taken + 1
    if CUT == BY_CHANCE:
        cut_by_chance(walk, memory, value, rules)


@stage
def cut_by_chance(walk: Walk, memory: ActMemory, value: real, rules: Rules):
    """Draw one of the points by weights, which rise exponentially as the value falls; of those without a value, any.

    The new point takes the place of the one drawn so far with its share of all weights.  ``least`` is the sum of the weights,
    or less than 0: minus the number of points without a value.
    """
    before = where(memory.depth == 0, 0.0, memory.least)
    weight = where(value > 0.0, exp(maximum(1.0 - value * SHARPNESS, -80.0)), 1.0)
    total = before + weight
    if value <= 0.0:
        total = minimum(before, 0.0) - 1.0
    elif before < 0.0:
        total = before
    w = philox(walk.seed, u32(walk.taken + 1), walk.branch, u32(STOPPING << STREAM), u32(rules.key[0]), u32(rules.key[1]))
    counts = where((value > 0.0) & (before < 0.0), 0, 1)
    if (counts == 1) & (uniform(w[0]) * absolute(total) < weight):
        memory.step = walk.taken + 1
    memory.least = total


@stage
def rejects_end(walk: Walk, memory: ActMemory) -> i32:
    """1 if a half has ended in fluid, or without a direction outside subcortical grey matter and pathological tissue."""
    lost = (walk.status == NO_DIRECTION) & (memory.depth == 0) & (memory.pathology == 0)
    return where(lost | (walk.status == INVALID_END), 1, 0)


@stage
def judge_end(walk: Walk, memory: ActMemory, stopping: Act5, rules: Rules):
    """Say whether an end without a direction is valid; cut a half back that has left subcortical grey matter."""
    if (walk.status == NO_DIRECTION) | (walk.status == OUTSIDE_IMAGE):
        if memory.depth > 0:
            walk.status = IN_SUBCORTEX
        elif (walk.status == NO_DIRECTION) & (memory.pathology == 1):
            walk.status = VALID_END
    if walk.status == LEFT_SUBCORTEX:
        if CUT == AT_RANDOM:
            w = philox(walk.seed, u32(walk.taken), walk.branch, u32(STOPPING << STREAM), u32(rules.key[0]), u32(rules.key[1]))
            memory.step = walk.taken - i32(real(memory.depth) * uniform(w[0]) + 0.5)
        walk.taken = memory.step
    if (walk.status == NOT_GROWN) & (memory.beyond == 1):
        walk.taken = 0
    # a streamline that has not left the grey matter of its seed has met no white matter
    if (memory.last == 1) & (memory.began == 1) & (memory.freed == 0):
        walk.status = INVALID_END


# Ends in the cortex that are moved to its interface with white matter (MRtrix3's ``tckgen -crop_at_gmwmi``).
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
                excess = excess_at(stopping, cropped_end(trail, middle))
                low = where(excess < 0.0, middle, low)
                high = where(excess < 0.0, high, middle)
                low = where((excess >= 0.0) & (excess < NEAR), high, low)
    halves.cropped[half] = where(high < PARTS, high, 0)
