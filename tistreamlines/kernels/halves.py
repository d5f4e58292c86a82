"""Half-streamlines: what of one lies in memory between launches, and what a kernel holds of it while it grows.

A streamline has two halves, which grow from its seed in opposite directions.  The direction getter owns the numbers
that a half carries from step to step (its ``State``), the selection the regions of its points (``Bits``), and the
recovery the numbers for another way.
"""

from __future__ import annotations  # since the linker reads the annotations of a Context as text

from ..linker.lang import *
from .interpolate import Volume
from .orientation.peaks import NONE

Method = Hole("record of the direction getter")
Scratch = Hole("its team memory")
State = Hole("record of the numbers that a half carries from step to step, besides its point")
Stopping = Hole("record of the stopping rule")
Memory = Hole("record of the stopping rule's memory of the points of a half")
Filter = Hole("record of the demands on points of streamlines, which extends Demands")
Recovery = Hole("team memory of the recovery")

ARC = Constant("parts of a step of the getter, with a point at the end of each; each is a step of the engine")
CODE_BITS = Constant("bits of a step's code: 32 // CODE_BITS to a word")
CARRIED = Constant("number of reals in which a state is stored (0: the code of the last step gives it)")
FOR_RULE = Constant("number of reals that a half keeps for the stopping rule, 0 at its seed")
FOR_RECOVERY = Constant("number of reals that a half keeps for the recovery, 0 at its seed")
POINT = Constant("number of reals that a half keeps: its point, its state, those for the rule, and those for the recovery")
HAS_BITS = Constant("1: points have bits that say which regions they lie in, 0: nothing is demanded of points")
WORDS = Constant("words that a half keeps of the bits of its points")
TAKES_BACK = Constant("1: the rule or a recovery may take points back, so bits are collected when a half has ended")
IN_TURN = Constant("1: a backward half grows when its forward half has ended, 0: both grow at the same time")
DROPS_DEAD_END = Constant("1: the last point is dropped if the getter finds no direction there, 0: it is kept")
DIRECTED = Constant("1: each seed has a given direction, near which the getter seeks the initial one; 0: the getter finds it alone")
CROPS = Constant("1: ends may lie within their last segments")
PAGED = Constant("1: codes of many halves share a page of memory, see code_place; 0: those of one half follow one another")
ABREAST = Constant("0: a team works on one half; 1: on 32 halves, one in each lane, as the host does to lay out points")

# if PAGED: as many codes of a half follow one another, and as many halves have theirs together, 4 KB of them
ROW_BITS, HALF_BITS = 6, 4
IN_A_ROW, HALVES_A_PAGE = 1 << ROW_BITS, 1 << HALF_BITS


class Seeds(Record):
    """Seeds of a chunk (voxel coordinates, x y z in turn) and their initial directions, at most ``most`` of each."""

    points: Reals
    counts: Ints
    peaks: Ints
    most: i32


class Halves(Record):
    """Half-streamlines: 2 s grows forwards and 2 s + 1 backwards from the seed of streamline s.

    For each streamline: ``seed``, its seed's number in the chunk; ``branch``, its number among the seed's directions;
    ``initial``, the code of its initial direction; ``first``, where steps may be taken back, the code of the forward
    half's first step, NONE where there is none.  For each half: ``point``, its last point, its state and what it keeps
    for the stopping rule and the recovery; ``state``, steps taken and stop reason; ``codes``, one code a step
    (:func:`code_place`); ``visited``, the bits of all points but the last one, of the last one, and for getters that
    drop dead ends of the last but one; ``more``, what ``beyond`` keeps of it; ``before``, where ends are
    cropped, the two points before the last one, that after an even number of steps first; ``cropped``, see
    :func:`.trail.cropped_end`.
    """

    seed: Ints
    branch: Ints
    initial: Ints
    first: Ints
    point: Reals
    state: Ints
    codes: Ints
    visited: Ints
    more: Ints
    before: Reals
    cropped: Ints


class Rules(Record):
    """Step size in voxels along each axis, maximum number of steps of a half and of a streamline that is truncated, RNG key,
    number of the chunk's first seed.

    The two words of the key are read from memory where they are used: if compilers kept them and the values derived from
    them in registers, a GPU could run only two thirds of its threads.
    """

    step_x: real
    step_y: real
    step_z: real
    max_steps: i32
    most: i32
    key: Ints
    first_seed: u32


class Run(Context):
    """Arguments of kernels: the seeds and halves of a chunk, and the tables of all parts."""

    seeds: Seeds
    halves: Halves
    rules: Rules
    volume: Volume
    stopping: Stopping
    filter: Filter
    method: Method
    scratch: Scratch
    recovery: Recovery


class Position(Context):
    """The place of a half where a getter chooses or takes a step.

    ``p``, its point; ``code``, that of the last step, or of the step that is taken; ``state``; ``attempt``, number of the
    getter's draw at p; ``c0``, ``c1`` and ``c2``, the first words of the random numbers' counter: the seed, the number of the
    step and the branch.
    """

    p: vec3
    code: i32
    state: State
    attempt: i32
    c0: u32
    c1: u32
    c2: u32


class Walk(Record):
    """Local variables of a half that grows.

    ``p``, its last point; ``ahead``, the point that is looked at, which is one step on if ``moves`` is 1, else p; ``seed`` and
    ``branch``, words of the random numbers' counter; ``taken``, its steps; ``last``, those after which the launch ends;
    ``most``, those that it may have; ``choice``, the getter's answer; ``code``, that of the last step; ``attempt``, number of the
    getter's draw at p; ``reason``, the stopping rule's answer; ``status``, its stop reason, or GROWING; ``due``, a stop reason
    that counts only if a direction is found at p; ``goes_on``, 1 while this launch has work; ``aside``, 1 while a particle
    steps in its place.
    """

    p: vec3
    ahead: vec3
    seed: u32
    branch: u32
    taken: i32
    last: i32
    most: i32
    choice: i32
    code: i32
    attempt: i32
    reason: i32
    status: i32
    due: i32
    moves: i32
    goes_on: i32
    aside: i32


class Bits(Record):
    """Local variables of a half: the bits of its points.

    ``visited``, those of the points that certainly stay: all but the last one, which may be dropped; ``here``, those of the last
    one; ``next``, those of the next point; ``before``, those of the last but one; ``stays``, 0 if the last point
    has been dropped.
    """

    visited: i32
    here: i32
    next: i32
    before: i32
    stays: i32


@func
def step_from(p: vec3, d: vec3, rules: Rules) -> vec3:
    """The point one step on."""
    return vec3(p[0] + rules.step_x * d[0], p[1] + rules.step_y * d[1], p[2] + rules.step_z * d[2])


@func
def code_place(half: i32, step: i32, rules: Rules) -> i32:
    """Where the code of a half's step lies; its first step has number 0.

    There is room for the greatest number of steps, but most halves end long before. If PAGED, the first 64 codes of 16 halves
    share a page of memory, and their next 64 codes another one. So most pages are never touched, and the system of a CPU need
    not provide them.
    """
    place = half * rules.max_steps + step
    if PAGED:
        page = (half >> HALF_BITS) * ((rules.max_steps + IN_A_ROW - 1) >> ROW_BITS) + (step >> ROW_BITS)
        row = (page << HALF_BITS) + (half & (HALVES_A_PAGE - 1))
        place = (row << ROW_BITS) + (step & (IN_A_ROW - 1))
    return place


@func
def first_code(half: i32, halves: Halves, rules: Rules) -> i32:
    """For a backward half, the code of the forward half's first step; NONE for a forward half, or if there is no such step.

    As in DIPY's LocalTracking, the backward half starts opposite to that step if there is one, also if that step is taken
    back later, since the halves grow at the same time.
    """
    code = NONE
    if (half & 1) == 1:
        if TAKES_BACK:
            code = halves.first[half >> 1]
        elif halves.state[2 * half - 2] > 0:
            code = halves.codes[code_place(half - 1, 0, rules)]
    return code


@func
def last_code(half: i32, taken: i32, halves: Halves, rules: Rules) -> i32:
    """Code of the last of ``taken`` steps of a half; that of its initial direction before the first."""
    code = halves.initial[half >> 1]
    if taken > 0:
        code = halves.codes[code_place(half, taken - 1, rules)]
    return code
