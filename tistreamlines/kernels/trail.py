"""A half that is followed again from its seed: what its steps have stored is enough to find its points once more."""

from ..linker.lang import *
from .growth import move, note_point, set_out
from .halves import *

note_step_again = Hole("the getter's part that notes what a step that is taken again does not tell, or None")
PARTS = 1024  # of a segment, at which an end may lie
PART = 1.0 / PARTS
TENSION = 0.05  # half of that of MRtrix3's Hermite curves
# factors of the curve's polynomials, computed here so that every device has the same ones
SLOPE, CUBIC, SQUARE, SQUARE_BEFORE = 0.5 - TENSION, 1.5 + TENSION, 2.0 + 2.0 * TENSION, 2.5 + TENSION


class Trail(Record):
    """Local variables: the point, the two before it (the seed, where there are fewer), and the code that led to the point."""

    p: vec3
    before: vec3
    earlier: vec3
    code: i32


@stage
def begin_again(trail: Trail, state: State, half: i32, c0: u32, c2: u32, run: Run):
    """Stand at the seed of a half, with the state that it begins with."""
    streamline = half >> 1
    place = 3 * run.halves.seed[streamline]
    trail.p = vec3(run.seeds.points[place], run.seeds.points[place + 1], run.seeds.points[place + 2])
    trail.before = trail.p
    first = first_code(half, run.halves, run.rules)
    seed = Position(trail.p, run.halves.initial[streamline], state, 0, c0, u32(0), c2)
    trail.code = set_out(seed, half & 1, first, run)


@func
def cropped_end(trail: Trail, part: i32) -> vec3:
    """A point between the last two of a trail, ``part / PARTS`` of the way, on the Hermite curve that MRtrix3 puts through them.

    The curve's fourth point continues the last three with the same curvature.
    """
    mu = real(part) * PART
    square = mu * mu
    cube = square * mu
    beyond = SLOPE * (cube - square)
    a = SLOPE * ((2.0 * square - cube) - mu) + beyond
    b = (CUBIC * cube + 1.0) - (SQUARE_BEFORE * square + 3.0 * beyond)
    c = (SQUARE * square + SLOPE * mu) - (CUBIC * cube - 3.0 * beyond)
    return vec3(
        (a * trail.earlier[0] + b * trail.before[0]) + c * trail.p[0],
        (a * trail.earlier[1] + b * trail.before[1]) + c * trail.p[1],
        (a * trail.earlier[2] + b * trail.before[2]) + c * trail.p[2],
    )


@stage
def take_again(trail: Trail, state: State, half: i32, k: i32, steps: i32, c0: u32, c2: u32, run: Run):
    """Take step ``k`` of a half again; after the last of its ``steps``, stand where its end has been moved to."""
    if CROPS:
        trail.earlier = trail.before
        trail.before = trail.p
    trail.code = run.halves.codes[code_place(half, k, run.rules)]
    here = Position(trail.p, trail.code, state, 0, c0, u32(k + 1), c2)
    trail.p = move(here, run)
    if CROPS:
        if (k == steps - 1) & (run.halves.cropped[half] > 0):
            trail.p = cropped_end(trail, run.halves.cropped[half])


@stage
def step_again(trail: Trail, state: State, half: i32, k: i32, count: i32, c0: u32, c2: u32, run: Run):
    """Take step ``k`` of ``count`` steps again, after which the half is to go on."""
    note_point(trail.p, k, half, run.halves)
    if k == count - 1:
        last = run.halves.codes[code_place(half, k, run.rules)]
        note_step_again(run.volume, trail.p, run.method, run.scratch, last, c0, u32(k + 1), c2, run.rules.key)
    take_again(trail, state, half, k, 0, c0, c2, run)


@stage
def go_back(walk: Walk, state: State, half: i32, count: i32, run: Run):
    """Bring a half back to where it was after ``count`` steps."""
    branch = u32(run.halves.branch[half >> 1] * 2 + (half & 1))
    trail = Trail()
    begin_again(trail, state, half, walk.seed, branch, run)
    for k in range(count):
        step_again(trail, state, half, k, count, walk.seed, branch, run)
    walk.p = trail.p
    walk.code = trail.code
