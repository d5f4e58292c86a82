"""Parallel transport tractography (Aydogan and Shi 2021; DIPY's ``PTTDirectionGetter``).

A half carries a frame, and each step bends it by two curvatures (k1, k2) drawn from a disc.  A candidate is accepted with
a probability proportional to its data support: the sum of the PMF along a probe, a short arc with these curvatures.  Each
lane, or each pair of lanes, tries one candidate.  The first SAMPLES candidates give the maximum support; twice that bounds
the rejection sampling.  Of the TRIES after them, the first accepted one is taken.  Its number is the step's code, from
which the host draws the same curvatures.
"""

from ...linker.lang import *
from ..growth import TRUNCATES
from ..halves import *
from ..interpolate import Volume
from ..lanes import cross, everywhere, normalised
from ..orientation.peaks import NONE, direction
from ..orientation.pmf import PmfScratch, initial_directions
from ..stop_reasons import ALL_INCLUDED, GROWING, MAX_LENGTH
from .probes import *
from .shared import counter_of_try, try_code, try_number

whole_sphere = Hole("amplitudes of the orientation function at one point, at all vertices of the sphere")
SAMPLES = 10
TRIES = 100
EVERY = -3.0e38
NUMBER_BITS = 7  # of a candidate's number, below SAMPLES + TRIES


class Frame(Record):
    """The state of a half lies in team memory, see ``PttScratch``."""


class PttScratch(PmfScratch):
    """Team memory besides: tangent, normal, binormal, the PMF at the end of the last accepted probe, and its curvatures."""

    carried: Reals

    @staticmethod
    def sizes(getter):
        return PmfScratch.sizes(getter) | {"carried": getter.carried + 2}


# ------------------------------------------------------------------------------------------------------- a step
@func
def choose_try(position: Position, run: Run) -> i32:
    """Code of the candidate to follow, or NONE; at the first step each candidate has its own normal and binormal."""
    here = everywhere(position.p)
    t = everywhere(held(run.scratch, 0))
    n = everywhere(held(run.scratch, 3))
    b = everywhere(held(run.scratch, 6))
    last = lanes(run.scratch.carried[9])
    bound = 0.0
    chosen = NONE
    turn = 0
    while (chosen == NONE) & (turn * (32 // PARTS) < SAMPLES + TRIES):
        number = (lane() & (32 // PARTS - 1)) + turn * (32 // PARTS)
        drawn = candidate(run.method, lanes(position.c0), lanes(position.c1), lanes(position.c2), u32(number), run.rules.key)
        if i32(position.c1) == 1:
            b = sideways(t, lanes(position.c0), lanes(position.c1), lanes(position.c2), u32(number), run.rules.key)
            n = cross(b, t)
            low = EVERY
            if STRICT:
                low = run.method.threshold
            last = heard(run.method, run.volume, here, t, n, b, low)
        support = data_support(run.method, run.volume, here, t, n, b, drawn, last, run.scratch.pmf)
        if turn == 0:
            bound = bound_of(run.method, team_max(where(number < SAMPLES, support[0], 0.0)))
        tried = (number >= SAMPLES) & (number < SAMPLES + TRIES)
        fit = is_accepted(drawn[2], bound, support[0]) == 1
        first = team_first(tried & fit)
        if first < 32:
            # of lanes that share a probe, the first one has the number of the candidate
            chosen = try_code(first + turn * (32 // PARTS), NUMBER_BITS, position.c2)
            end = team_value(support[1], first)
            k1 = team_value(drawn[0], first)
            k2 = team_value(drawn[1], first)
            barrier()
            run.scratch.carried[9] = end
            run.scratch.carried[10] = k1
            run.scratch.carried[11] = k2
            barrier()
        turn = turn + 1
    return chosen


@func
def held(scratch: PttScratch, first: i32) -> vec3:
    """Read a vector of the carried frame: 0 tangent, 3 normal, 6 binormal."""
    if ABREAST:
        c = 32 * first
        v = vec3(at(scratch.carried, c), at(scratch.carried, c + 32), at(scratch.carried, c + 64))
    else:
        v = vec3(scratch.carried[first], scratch.carried[first + 1], scratch.carried[first + 2])
    return v


@func
def hold(scratch: PttScratch, first: i32, v: vec3):
    """Write a vector of the frame."""
    for i in range(3):
        value = where(i == 0, v[0], where(i == 1, v[1], v[2]))
        if ABREAST:
            put(scratch.carried, 32 * (first + i), value)
        else:
            scratch.carried[first + i] = value


@func
def put_frame(scratch: PttScratch, t: vec3, n: vec3, b: vec3):
    """Write the frame to the team memory."""
    barrier()
    hold(scratch, 0, t)
    hold(scratch, 3, n)
    hold(scratch, 6, b)
    barrier()


@func
def carry_frame(
    method: Ptt, scratch: PttScratch, code: i32, k1: real, k2: real, c0: u32, c1: u32, c2: u32, key: Ints
) -> vec3:
    """Move the frame along an arc of these curvatures; return the displacement in mm (DIPY's ``propagate``)."""
    t = held(scratch, 0)
    n = held(scratch, 3)
    b = held(scratch, 6)
    if i32(c1) == 1:
        step = c1
        if ABREAST:
            step = lanes(c1)
        b = sideways(t, c0, step, counter_of_try(code, NUMBER_BITS, c2), try_number(code, NUMBER_BITS), key)
        n = cross(b, t)
    way = onward(method.step, k1, k2, t, n, b)
    ahead = tangent_after(method.step, k1, k2, t, n, b)
    n = normalised(cross(binormal_after(method.step, k1, k2, t, n, b), ahead))
    put_frame(scratch, ahead, n, cross(ahead, n))
    return way


@func
def transport(method: Ptt, scratch: PttScratch, code: i32, c0: u32, c1: u32, c2: u32, key: Ints) -> vec3:
    """Move the frame along the arc of the candidate with this code; see ``carry_frame``."""
    step = c1
    if ABREAST:
        step = lanes(c1)
    drawn = candidate(method, c0, step, counter_of_try(code, NUMBER_BITS, c2), try_number(code, NUMBER_BITS), key)
    return carry_frame(method, scratch, code, drawn[0], drawn[1], c0, c1, c2, key)


@func
def along(p: vec3, way: vec3, method: Ptt) -> vec3:
    """The point at a displacement in mm."""
    return vec3(p[0] + method.x * way[0], p[1] + method.y * way[1], p[2] + method.z * way[2])


@stage
def move_by_try(position: Position, run: Run) -> vec3:
    """The point after one step along the candidate with this code."""
    return along(position.p, transport(run.method, run.scratch, position.code, position.c0, position.c1, position.c2, run.rules.key), run.method)


@stage
def move_as_tried(position: Position, run: Run) -> vec3:
    """The point after the step that has just been chosen, whose curvatures need not be drawn again."""
    k1 = run.scratch.carried[10]
    k2 = run.scratch.carried[11]
    return along(position.p, carry_frame(run.method, run.scratch, position.code, k1, k2, position.c0, position.c1, position.c2, run.rules.key), run.method)


@func
def first_frame(method: Ptt, scratch: PttScratch, initial: i32, side: i32, first: i32, c0: u32, c2: u32, rules: Rules):
    """Start the tangent along the initial direction, that of a backward half opposite to the forward half's first step.

    DIPY takes the opposite of that step in voxels, which is another direction if voxels are not isotropic; here it is in mm.
    """
    d = direction(method.sphere, initial)
    put_frame(scratch, d, d, d)
    if side == 1:
        way = normalised(transport(method, scratch, maximum(first, 0), c0, u32(1), c2 - u32(1), rules.key))
        x = where(first >= 0, way[0], d[0])
        y = where(first >= 0, way[1], d[1])
        z = where(first >= 0, way[2], d[2])
        back = vec3(0.0 - x, 0.0 - y, 0.0 - z)
        put_frame(scratch, back, back, back)


@stage
def set_out_by_frame(position: Position, side: i32, first: i32, run: Run) -> i32:
    """See ``first_frame``."""
    first_frame(run.method, run.scratch, position.code, side, first, position.c0, position.c2, run.rules)
    return position.code


@stage
def load_frame(state: Frame, scratch: PttScratch, code: i32, held: Reals, place: i32, stride: i32):
    """Restore what the half carries."""
    barrier()
    for i in each(CARRIED):
        scratch.carried[i] = held[place + stride * i]
    barrier()


@stage
def store_frame(state: Frame, scratch: PttScratch, held: Reals, place: i32, stride: i32):
    """Store what the half carries."""
    for i in each(CARRIED):
        held[place + stride * i] = scratch.carried[i]


@func
def support_of(
    volume: Volume, p: vec3, method: Ptt, scratch: PttScratch, code: i32, c0: u32, c1: u32, c2: u32, key: Ints
):
    """Find the PMF at the end of the probe of a step that is taken again, which the step itself does not tell."""
    t = everywhere(held(scratch, 0))
    n = everywhere(held(scratch, 3))
    b = everywhere(held(scratch, 6))
    number = lanes(try_number(code, NUMBER_BITS))
    branch = lanes(counter_of_try(code, NUMBER_BITS, c2))
    if i32(c1) == 1:
        b = sideways(t, lanes(c0), lanes(c1), branch, number, key)
        n = cross(b, t)
    drawn = candidate(method, lanes(c0), lanes(c1), branch, number, key)
    support = data_support(method, volume, everywhere(p), t, n, b, drawn, lanes(0.0), scratch.pmf)
    end = team_value(support[1], 0)
    barrier()
    scratch.carried[9] = end
    barrier()


# ------------------------------------------------------------------------------------------------ reading rows
@func
def begin_by_lanes(volume: Volume, p: vec3, method: Ptt, scratch: PttScratch, c0: u32, key: Ints) -> i32:
    """Find the initial directions at a point; return their number (``scratch.peaks.kept`` lists the vertices)."""
    whole_sphere(volume, p, scratch.row)
    return initial_directions(method, scratch)


# Dead ends: points where a getter finds no direction are dropped, as in DIPY's PTT.
#
# So an end at such a point that has another reason counts only if a direction is found there.


@stage
def drop_last_point(walk: Walk, bits: Bits, half: i32, halves: Halves):
    """Drop the last point; a forward half that has none left but its seed has no first step."""
    if walk.taken > 0:
        bits.here = bits.before
        bits.stays = 0
    walk.taken = maximum(walk.taken - 1, 0)
    if TAKES_BACK:
        if (walk.taken == 0) & (walk.aside == 0) & ((half & 1) == 0):
            halves.first[half >> 1] = NONE


@stage
def put_off(walk: Walk, rules: Rules):
    """Put an end off that is not due to the stopping rule."""
    if TRUNCATES | HAS_BITS:
        early = (walk.status == MAX_LENGTH) & (walk.taken > 0) & (walk.taken < rules.max_steps)
        if early | (walk.status == ALL_INCLUDED):
            walk.due = walk.status
            walk.status = GROWING


@stage
def end_in_time(walk: Walk):
    """End a half for the reason that was put off, now that a direction is found."""
    if TRUNCATES | HAS_BITS:
        if (walk.due != GROWING) & (walk.choice >= 0):
            walk.status = walk.due
            walk.goes_on = 0
            walk.choice = NONE
