"""iFOD2: a step is an arc, whose probability is the product of the FOD's amplitudes along it (Tournier et al. 2010).

An arc is drawn from all that turn by at most the greatest angle, by rejection. The most probable arc of a grid of arcs
bounds the probability, and the first of the random arcs that is accepted is followed, as in MRtrix3's tckgen.  The team
tries AT_ONCE arcs together, of which each lane has one part.  Stopping rules and regions look at each point of an arc,
so a step of the engine is one of its ARC parts. All of them have the number of the accepted arc as their code: the host
draws the same arc from it.
"""

from ...linker.lang import *
from ...linker.maths import exp, log, quarter_turn, reciprocal_root
from ...linker.rng import uniform
from ..halves import *
from ..interpolate import Volume
from ..lanes import either, everywhere, normalised
from ..orientation.peaks import LEAVES, NONE
from .fod import *
from .shared import HeadingScratch, counter_of_try, counter_offset, draw_alone, recovery_of, try_code, try_number

# Arcs of circles, in parts of one length: how far a part leads, and the direction at its end.
QUARTER = 0.6366197723675814  # quarter turns in a radian


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
def rotate_towards(cosine: real, d: vec3, sine: real, s: vec3) -> vec3:
    """The direction at an angle from ``d`` towards ``s``."""
    return vec3(cosine * d[0] + sine * s[0], cosine * d[1] + sine * s[1], cosine * d[2] + sine * s[2])


SHUNS_FLUID = Constant("1: no arc ends where there is more fluid than anything else")
fluid_at = Hole("share of fluid at each lane's point, above 1 outside the image of tissues")
MOST_FLUID = 0.5
IMPOSSIBLE = -1.0e30  # logarithm of the probability of an arc along which the FOD is too small
LEFT = 1.0e30  # instead of it where an arc leaves the image


class Arc(Record):
    """The state of a half.

    ``d``, the direction at the begin of its last arc, or, after the last part of that, the one at its end; ``s``, the
    direction across it that the arc bends to; ``turn``, what :func:`half_part` says of the arc; ``cosine`` and ``sine`` of the
    angle by which the arc has turned; ``part``, the number of the next part, 0 for that of a new arc; ``tried``, what a recovery
    had added to the counter when the arc was drawn.
    """

    d: vec3
    s: vec3
    turn: vec3
    cosine: real
    sine: real
    part: i32
    tried: i32


class ArcScratch(HeadingScratch):
    """Team memory; ``shares`` has the logarithm of each lane's amplitude, and the verdict on each lane's point."""

    shares: Reals

    @staticmethod
    def sizes(getter):
        return HeadingScratch.sizes(getter) | {"shares": 64}


# ------------------------------------------------------------------------------------------------------------- an arc
@func
def arc_of_lane() -> i32:
    """Which of the arcs that the team tries at once each lane has a part of; lanes that are left over repeat the last arc."""
    return minimum((lane() * (1023 // ARC + 1)) >> 10, AT_ONCE - 1)  # lane // ARC, as lane values are not divided


@func
def likelihood(
    method: Fod, volume: Volume, stopping: Stopping, scratch: ArcScratch, centre: vec3, d: vec3, s: vec3, turn: vec3, rules: Rules
) -> real:
    """Logarithm of the probability of each lane's arc without the amplitude at its begin, which all have in common.

    The lanes of an arc look at the end of one of its parts each, and then add up what all of them have found.
    """
    part_of_lane = minimum(lane() - ARC * arc_of_lane(), ARC - 1)
    p = everywhere(centre)
    q = p
    c = lanes(1.0)
    b = lanes(0.0)
    along = c
    aside = b
    for part in rolled(ARC):
        middle = onward(c, b, turn)
        way = rotate_towards(middle[0], d, middle[1], s)
        p = vec3(
            p[0] + (turn[2] * rules.step_x) * way[0], p[1] + (turn[2] * rules.step_y) * way[1],
            p[2] + (turn[2] * rules.step_z) * way[2],
        )
        ahead = onward(middle[0], middle[1], turn)
        c = ahead[0]
        b = ahead[1]
        here = where(part_of_lane == part, 1, 0)
        q = either(here, p, q)
        along = where(here > 0, c, along)
        aside = where(here > 0, b, aside)
    value = amplitude(volume, centre, q, rotate_towards(along, d, aside, s))
    share = where(part_of_lane == ARC - 1, 0.5, 1.0) * log(maximum(value, method.threshold))
    share = where(value == OUTSIDE, LEFT, where(value < method.threshold, IMPOSSIBLE, share))
    return whole(share, no_arc_into(stopping, q), scratch)


@func
def no_arc_into(stopping: Stopping, p: vec3) -> real:
    """LEFT or IMPOSSIBLE in the lanes at whose point no arc may end, else 0."""
    verdict = lanes(0.0)
    if SHUNS_FLUID:
        fluid = fluid_at(stopping, p)
        verdict = where(fluid > 1.0, LEFT, where(fluid >= MOST_FLUID, IMPOSSIBLE, 0.0))
    return verdict


@func
def whole(share: real, verdict: real, scratch: ArcScratch) -> real:
    """The likelihood of each lane's arc, from those of all parts and the verdict on its end."""
    barrier()
    put(scratch.shares, 0, share)
    put(scratch.shares, 32, verdict)
    barrier()
    first = ARC * arc_of_lane()
    total = lanes(0.0)
    for part in range(ARC):
        more = take(scratch.shares, first + part)
        more = where(absolute(more) >= LEFT, more, total + more)
        total = where(absolute(total) >= LEFT, total, more)
    at_end = take(scratch.shares, first + (31 + ARC))
    return where(absolute(at_end) >= LEFT, at_end, total)


# ------------------------------------------------------------------------------------------------------------- a step
@func
def value_of_lane(v: vec3, number: i32) -> vec3:
    """The vector that the lane with this number has."""
    return vec3(team_value(v[0], number), team_value(v[1], number), team_value(v[2], number))


@stage
def choose_arc(position: Position, run: Run) -> i32:
    """Number of the arc to follow, NONE, or LEAVES if an arc of the grid leaves the image; within an arc, that of the arc.

    The state is that at the begin of the arc, also if there is none.
    """
    chosen = position.code
    if (position.state.part == 0) | (position.state.tried != counter_offset(position.c2)):
        forward = heading_of(position.state)
        d = everywhere(forward)
        u = everywhere(across(forward))
        # here rather than below, where an arc is accepted, so that what the last arc was needs no registers meanwhile
        position.state.d = forward
        position.state.s = forward
        position.state.turn = forward
        position.state.cosine = 1.0
        position.state.sine = 0.0
        position.state.part = 0
        position.state.tried = counter_offset(position.c2)
        number = arc_of_lane() - GRID
        best = IMPOSSIBLE
        chosen = NONE
        going = 1
        chunk = 0
        while going == 1:
            w = draws_of(number, position.c0, position.c1, position.c2, run.rules)
            arc = draw_turn(run.method, w)
            if chunk < GRID_CHUNKS:
                arc = either(0 - number, of_grid(run.method, chunk), arc)
            turn = half_part(arc[0])
            s = sideways(d, u, arc[1], arc[2])
            fit = likelihood(run.method, run.volume, run.stopping, run.scratch, position.p, d, s, turn, run.rules)
            if chunk < GRID_CHUNKS:
                best = maximum(best, team_max(where(number < 0, fit, IMPOSSIBLE)))
            chunk = chunk + 1
            if chunk >= GRID_CHUNKS:
                lowest = first_fit(run.method, fit, best, uniform(w[2]), number)
                going = where((best > IMPOSSIBLE) & (best < LEFT) & (AT_ONCE * chunk < GRID + run.method.tries), 1, 0)
                if best == LEFT:
                    chosen = LEAVES
                elif (best > IMPOSSIBLE) & (lowest < 1.0e6):
                    chosen = try_code(i32(lowest), NUMBER_BITS, position.c2)
                    going = 0
                    by = ARC * (i32(lowest) - (AT_ONCE * (chunk - 1) - GRID))
                    position.state.s = value_of_lane(s, by)
                    position.state.turn = value_of_lane(turn, by)
            number = number + AT_ONCE
    return chosen


@func
def first_fit(method: Fod, likelihoods: real, best: real, share: real, number: i32) -> real:
    """The least number of a random arc that is accepted, given the likelihoods of all and of the best one of the grid."""
    odds = exp(maximum(minimum(method.power * (likelihoods - best), 80.0), -80.0))
    fit = (likelihoods < LEFT) & (likelihoods > IMPOSSIBLE) & (share * method.ratio < odds)
    return team_min(where(fit & (number >= 0) & (number < method.tries), real(number), 1.0e6))


@func
def heading_of(state: Arc) -> vec3:
    """The direction at the last point."""
    return either(state.part, normalised(rotate_towards(state.cosine, state.d, state.sine, state.s)), state.d)


@stage
def begin_arc(state: Arc, begins: i32, code: i32, method: Fod, c0: u32, c1: u32, c2: u32, rules: Rules):
    """Where ``begins`` is 1, draw the arc of a code, which begins in the direction at the last point."""
    state.d = either(begins, heading_of(state), state.d)
    w = draw_alone(c0, c1, counter_of_try(code, NUMBER_BITS, c2), try_number(code, NUMBER_BITS), rules.key)
    arc = draw_turn(method, w)
    state.turn = either(begins, half_part(arc[0]), state.turn)
    state.s = either(begins, sideways(state.d, across(state.d), arc[1], arc[2]), state.s)
    state.cosine = where(begins > 0, 1.0, state.cosine)
    state.sine = where(begins > 0, 0.0, state.sine)
    state.part = where(begins > 0, 0, state.part)
    state.tried = where(begins > 0, recovery_of(code, NUMBER_BITS), state.tried)


@stage
def move_along_arc(position: Position, run: Run) -> vec3:
    """The end of the next part of an arc."""
    begins = where((position.state.part == 0) | (position.state.tried != recovery_of(position.code, NUMBER_BITS)), 1, 0)
    if ABREAST:
        begin_arc(position.state, begins, position.code, run.method, position.c0, position.c1, position.c2, run.rules)
    elif begins == 1:
        begin_arc(position.state, 1, position.code, run.method, position.c0, position.c1, position.c2, run.rules)
    return move_to_part_end(position, run)


@stage
def move_to_part_end(position: Position, run: Run) -> vec3:
    """The end of the next part of the arc that the state describes."""
    middle = onward(position.state.cosine, position.state.sine, position.state.turn)
    way = rotate_towards(middle[0], position.state.d, middle[1], position.state.s)
    ahead = onward(middle[0], middle[1], position.state.turn)
    position.state.cosine = ahead[0]
    position.state.sine = ahead[1]
    chord = position.state.turn[2]
    position.state.part = position.state.part + 1
    ends = where(position.state.part == ARC, 1, 0)
    if ABREAST:
        position.state.d = either(ends, heading_of(position.state), position.state.d)
        position.state.part = where(ends == 1, 0, position.state.part)
    elif ends == 1:
        position.state.d = heading_of(position.state)
        position.state.part = 0
    return vec3(
        position.p[0] + (chord * run.rules.step_x) * way[0], position.p[1] + (chord * run.rules.step_y) * way[1], position.p[2] + (chord * run.rules.step_z) * way[2]
    )


# ------------------------------------------------------------------------------------------------------------- a half
@stage
def set_out_on_arc(position: Position, side: i32, first: i32, run: Run) -> i32:
    """Start in the seed's direction, a backward half against it."""
    position.state.d = initial_heading(position.code, side)
    position.state.s = position.state.d
    position.state.turn = position.state.d
    none = position.code & 0  # a lane value where 32 halves set out together
    position.state.cosine = real(none + 1)
    position.state.sine = real(none)
    position.state.part = none
    position.state.tried = none
    return position.code ^ side


@stage
def load_arc(state: Arc, scratch: ArcScratch, code: i32, held: Reals, place: i32, stride: i32):
    """Restore what the half carries."""
    state.d = vec3(held[place], held[place + stride], held[place + 2 * stride])
    state.s = vec3(held[place + 3 * stride], held[place + 4 * stride], held[place + 5 * stride])
    state.turn = vec3(held[place + 6 * stride], held[place + 7 * stride], held[place + 8 * stride])
    state.cosine = held[place + 9 * stride]
    state.sine = held[place + 10 * stride]
    state.part = i32(held[place + 11 * stride])
    state.tried = i32(held[place + 12 * stride])


@stage
def store_arc(state: Arc, scratch: ArcScratch, held: Reals, place: i32, stride: i32):
    """Store it."""
    for i in each(3):
        held[place + stride * i] = where(i == 0, state.d[0], where(i == 1, state.d[1], state.d[2]))
        held[place + stride * (3 + i)] = where(i == 0, state.s[0], where(i == 1, state.s[1], state.s[2]))
        held[place + stride * (6 + i)] = where(i == 0, state.turn[0], where(i == 1, state.turn[1], state.turn[2]))
    held[place + 9 * stride] = state.cosine
    held[place + 10 * stride] = state.sine
    held[place + 11 * stride] = real(state.part)
    held[place + 12 * stride] = real(state.tried)
