"""iFOD2: a step is an arc, whose probability is the product of the FOD's amplitudes along it (Tournier et al. 2010).

An arc is drawn from all that turn by at most the greatest angle, by rejection: the most probable arc of a grid of arcs
bounds the probability, and the first of the random arcs that is accepted is followed, as in MRtrix3's tckgen.  Each lane
tries one arc.  Stopping rules and regions look at each point of an arc, so a step of the engine is one of its ARC parts, and
all of them have the number of the accepted arc as their code: the host draws the same arc from it.
"""

from __future__ import annotations

from ...linker.lang import *
from ...linker.maths import exp, log, quarter_turn, reciprocal_root
from ...linker.rng import philox, uniform
from ..halves import *
from ..interpolate import Volume
from ..lanes import either, everywhere, normalised
from ..orientation.peaks import LEAVES, NONE
from .fod import (
    GRID_CHUNKS,
    GRID_LAST,
    NUMBER_BITS,
    OUTSIDE,
    Fod,
    across,
    amplitude,
    drawn,
    draws_of,
    of_grid,
    root,
    sideways,
    start_of,
)
from .headings import HeadingScratch
from .tries import added_to, coded, drawn_with, recovery_of, try_number

SHUNS_FLUID = Constant("1: no arc ends where there is more fluid than anything else")
fluid_at = Hole("share of fluid at each lane's point, above 1 outside the image of tissues")
MOST_FLUID = 0.5
IMPOSSIBLE = -1.0e30  # logarithm of the probability of an arc along which the FOD is too small
LEFT = 1.0e30  # in place of it where an arc leaves the image
QUARTER = 0.6366197723675814  # quarter turns in a radian


class Arc(Record):
    """What a half carries.

    ``d``, the direction at the begin of its last arc; ``end``, that at its last point; ``part``, the number of the next part, 0 for
    that of a new arc; ``tried``, what a recovery had added to the counter when the arc was drawn.
    """

    d: vec3
    end: vec3
    part: i32
    tried: i32


# ------------------------------------------------------------------------------------------------------------- an arc
@func
def arc_sine(x: real) -> real:
    """Angle whose sine is ``x``, for 0 to 1/2 (the minimax polynomial of Cephes' ``asinf``, Moshier 1989)."""
    z = x * x
    y = 4.2163199048e-2 * z + 2.4181311049e-2
    y = y * z + 4.5470025998e-2
    y = y * z + 7.4953002686e-2
    y = y * z + 1.6666752422e-1
    return (y * z) * x + x


@func
def half_part(half_sine: real) -> vec3:
    """Cosine and sine of half the angle by which a part of an arc turns, and its chord, as a share of its length.

    ``half_sine`` is the sine of half the angle of the whole arc, at most sqrt(1/2); a quarter's is at most 0.39.
    """
    squared = half_sine * half_sine
    cosine = root(1.0 - squared)
    fourth = half_sine * reciprocal_root(2.0 * (1.0 + cosine))
    x = arc_sine(fourth) * (2.0 / real(ARC))
    t = quarter_turn(x * QUARTER)
    z = x * x
    chord = z * (z * (1.0 / 120.0 - z * (1.0 / 5040.0)) - 1.0 / 6.0) + 1.0
    return vec3(t[0], t[1], chord)


@func
def onward(cosine: real, sine: real, turn: vec3) -> vec3:
    """Cosine and sine of an angle, half a part of the arc farther."""
    return vec3(cosine * turn[0] - sine * turn[1], sine * turn[0] + cosine * turn[1], 0.0)


@func
def mixed(cosine: real, d: vec3, sine: real, s: vec3) -> vec3:
    """The direction at an angle from ``d`` towards ``s``."""
    return vec3(cosine * d[0] + sine * s[0], cosine * d[1] + sine * s[1], cosine * d[2] + sine * s[2])


@func
def likelihood(
    method: Fod, volume: Volume, stopping: Stopping, centre: vec3, d: vec3, u: vec3, arc: vec3, rules: Rules
) -> real:
    """Logarithm of the probability of each lane's arc without the amplitude at its begin, which all have in common."""
    turn = half_part(arc[0])
    s = sideways(d, u, arc[1], arc[2])
    p = everywhere(centre)
    c = lanes(1.0)
    b = lanes(0.0)
    total = lanes(0.0)
    for part in range(ARC):
        middle = onward(c, b, turn)
        way = mixed(middle[0], d, middle[1], s)
        p = vec3(
            p[0] + (turn[2] * rules.step_x) * way[0], p[1] + (turn[2] * rules.step_y) * way[1],
            p[2] + (turn[2] * rules.step_z) * way[2],
        )
        ahead = onward(middle[0], middle[1], turn)
        c = ahead[0]
        b = ahead[1]
        value = amplitude(volume, centre, p, mixed(c, d, b, s))
        share = where(part == ARC - 1, 0.5, 1.0)
        more = total + share * log(maximum(value, method.threshold))
        more = where(value == OUTSIDE, LEFT, where(value < method.threshold, IMPOSSIBLE, more))
        total = where(absolute(total) >= LEFT, total, more)
    if SHUNS_FLUID:
        fluid = fluid_at(stopping, p)
        total = where(fluid > 1.0, LEFT, where(fluid >= MOST_FLUID, IMPOSSIBLE, total))
    return total


# ------------------------------------------------------------------------------------------------------------- a step
@func
def choose_arc(
    volume: Volume, p: vec3, code: i32, state: Arc, method: Fod, scratch: HeadingScratch, attempt: i32, c0: u32, c1: u32,
    c2: u32, rules: Rules, stopping: Stopping,
) -> i32:  # fmt: skip
    """Number of the arc to follow, NONE, or LEAVES if an arc of the grid leaves the image; within an arc, that of the arc."""
    chosen = code
    if (state.part == 0) | (state.tried != added_to(c2)):
        d = everywhere(state.end)
        u = everywhere(across(state.end))
        best = IMPOSSIBLE
        for chunk in range(GRID_CHUNKS - 1):
            best = maximum(best, team_max(likelihood(method, volume, stopping, p, d, u, of_grid(method, chunk), rules)))
        number = lane() - GRID_LAST
        w = draws_of(number, c0, c1, c2, rules)
        arc = either(0 - number, of_grid(method, GRID_CHUNKS - 1), drawn(method, w))
        found = likelihood(method, volume, stopping, p, d, u, arc, rules)
        best = maximum(best, team_max(where(number < 0, found, IMPOSSIBLE)))
        chosen = where(best < LEFT, NONE, LEAVES)
        going = where((best > IMPOSSIBLE) & (best < LEFT), 1, 0)
        first = 0 - GRID_LAST  # number that the first lane tries
        while (going == 1) & (first < method.tries):
            odds = exp(maximum(minimum(method.power * (found - best), 80.0), -80.0))
            fit = (found < LEFT) & (found > IMPOSSIBLE) & (uniform(w[2]) * method.ratio < odds)
            fit = fit & (number >= 0) & (number < method.tries)
            lowest = team_min(where(fit, real(number), 1.0e6))
            if lowest < 1.0e6:
                chosen = coded(i32(lowest), NUMBER_BITS, c2)
                going = 0
            else:
                first = first + 32
                number = number + 32
                w = draws_of(number, c0, c1, c2, rules)
                found = likelihood(method, volume, stopping, p, d, u, drawn(method, w), rules)
    return chosen


@stage
def move_along_arc(
    state: Arc, scratch: HeadingScratch, p: vec3, code: i32, volume: Volume, method: Fod, c0: u32, c1: u32, c2: u32,
    rules: Rules,
) -> vec3:  # fmt: skip
    """The end of the next part of an arc; a new arc begins in the direction at the last point."""
    tried = recovery_of(code, NUMBER_BITS)
    part = where(tried == state.tried, state.part, 0)
    state.tried = tried
    state.part = where(part + 1 == ARC, 0, part + 1)
    begins = part == 0
    state.d = vec3(
        where(begins, state.end[0], state.d[0]), where(begins, state.end[1], state.d[1]), where(begins, state.end[2], state.d[2])
    )
    branch = drawn_with(code, NUMBER_BITS, c2)
    number = try_number(code, NUMBER_BITS)
    arc = drawn(method, philox(c0, c1 - u32(part), branch, number, u32(rules.key[0]), u32(rules.key[1])))
    turn = half_part(arc[0])
    s = sideways(state.d, across(state.d), arc[1], arc[2])
    c = real(1.0)
    b = real(0.0)
    for _ in range(part):
        middle = onward(c, b, turn)
        ahead = onward(middle[0], middle[1], turn)
        c = ahead[0]
        b = ahead[1]
    middle = onward(c, b, turn)
    way = mixed(middle[0], state.d, middle[1], s)
    ahead = onward(middle[0], middle[1], turn)
    state.end = normalised(mixed(ahead[0], state.d, ahead[1], s))
    return vec3(
        p[0] + (turn[2] * rules.step_x) * way[0], p[1] + (turn[2] * rules.step_y) * way[1], p[2] + (turn[2] * rules.step_z) * way[2]
    )


# ------------------------------------------------------------------------------------------------------------- a half
@stage
def set_out_on_arc(
    state: Arc, scratch: HeadingScratch, initial: i32, side: i32, first: i32, p: vec3, volume: Volume, method: Fod, c0: u32,
    c2: u32, rules: Rules,
) -> i32:  # fmt: skip
    """Start in the direction that was found at the seed, a backward half against it."""
    d = start_of(method, c0, u32(initial >> 1), rules.key)
    sense = where(((initial ^ side) & 1) == 1, real(-1.0), real(1.0))
    state.end = vec3(sense * d[0], sense * d[1], sense * d[2])
    state.d = state.end
    state.part = 0
    state.tried = 0
    return initial ^ side


@stage
def load_arc(state: Arc, scratch: HeadingScratch, code: i32, held: Reals, place: i32, stride: i32):
    """Restore what the half carries."""
    state.d = vec3(held[place], held[place + stride], held[place + 2 * stride])
    state.end = vec3(held[place + 3 * stride], held[place + 4 * stride], held[place + 5 * stride])
    state.part = i32(held[place + 6 * stride])
    state.tried = i32(held[place + 7 * stride])


@stage
def store_arc(state: Arc, scratch: HeadingScratch, held: Reals, place: i32, stride: i32):
    """Store it."""
    held[place + 6 * stride] = real(state.part)
    held[place + 7 * stride] = real(state.tried)
    for i in each(3):
        held[place + stride * i] = where(i == 0, state.d[0], where(i == 1, state.d[1], state.d[2]))
        held[place + stride * (3 + i)] = where(i == 0, state.end[0], where(i == 1, state.end[1], state.end[2]))
