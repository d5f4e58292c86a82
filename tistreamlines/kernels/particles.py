"""Particle filtering: where a half ends invalidly, particles look for a way on (DIPY's ``ParticleFilteringTracking``).

The half goes back some steps.  From there particles take their own steps, each with a weight, the product of the shares of
tissue where ends are not forbidden at its points.  In the end one particle is drawn by weight, and its steps become the half's.
A particle steps in the loop of ``grow`` as a half does, one step at a time; ``rescue`` is asked after each of them.

Two details are those of DIPY's source: the last point of the chosen particle is left out, and so is the point before it where
the particle leaves the image.

Girard et al. 2014.
"""

from __future__ import annotations

from ..linker.lang import *
from ..linker.maths import divide
from ..linker.rng import PARTICLE, RESAMPLING, STREAM, TRIAL, philox, uniform
from .interpolate import STOP_CHANNEL
from .peaks import NONE
from .propagate import (
    BRANCH,
    CARRIED,
    CODE,
    LAST,
    PARTICLES,
    REMEMBERED,
    STATUS,
    TAKEN,
    Filter,
    Halves,
    Method,
    Rules,
    Scratch,
    Seeds,
    marks,
    moved,
)  # fmt: skip
from .regions import gathered
from .stop_reasons import Stop

BACK_STEPS = Constant("steps that a half goes back, at most")
FRONT_STEPS = Constant("steps of a particle beyond those, at most")
TRIALS = Constant("how often particles may help a half")
MIN_WHITE = Constant("share of white matter that a half must reach before it may end validly; 0: none")

GROWING, NO_DIRECTION, MAX_LENGTH = int(Stop.GROWING), int(Stop.NO_DIRECTION), int(Stop.MAX_LENGTH)
VALID_END, INVALID_END, OUTSIDE_IMAGE = int(Stop.VALID_END), int(Stop.INVALID_END), int(Stop.OUTSIDE_IMAGE)
LEAST = 1.0e-16  # weights below this are 0
WHITE = 3  # in ``place``: the greatest share of white matter at the half's points, the seed excepted
NOW, FIRST, TURN, TURNS, LEFT, TRIED = range(5, 11)  # in ``plan``, after what ``grow`` reads
PLAN = 11  # its length


class Particles(Record):
    """Team memory of the particles, one in each lane.

    ``codes`` : the code of each particle's heading before its first step, and of its steps [step][particle].  ``point`` :
    its last point, x..., y..., z...  ``white`` : the greatest share of white matter at its points except for the last one, and
    that at its last one.  ``place`` : the point from which the half or a particle steps next, and the greatest share of white
    matter so far.  ``plan`` : state of that half or particle; the particle that steps now, NONE if the half itself does; steps
    of the half to the particles' first point; steps that the particles have taken and are to take; steps that the half may
    take in this launch; trials of the half so far.
    """

    codes: Ints
    point: Reals
    weight: Reals
    status: Ints
    taken: Ints
    white: Reals
    place: Reals
    plan: Ints


@twin
def counted(half: i32, halves: Halves, particle: i32, trials: i32) -> i32:
    """The third word of the random numbers' counter."""
    return (halves.branch[half >> 1] * 2 + (half & 1)) | (((particle + 1) << PARTICLE) | (trials << TRIAL))


@twin
def recall(half: i32, halves: Halves, particles: Particles) -> u32:
    """Restore the number of trials and the share of white matter; return the third word of the counter."""
    place = (3 + CARRIED + REMEMBERED) * half + 3 + CARRIED
    trials = i32(halves.point[place])
    particles.plan[NOW] = NONE
    particles.plan[TRIED] = trials
    particles.place[WHITE] = halves.point[place + 1]
    return u32(counted(half, halves, NONE, trials))


@twin
def remember(half: i32, halves: Halves, particles: Particles):
    """Store the number of trials and the share of white matter."""
    place = (3 + CARRIED + REMEMBERED) * half + 3 + CARRIED
    halves.point[place] = real(particles.plan[TRIED])
    halves.point[place + 1] = particles.place[WHITE]


@twin
def white_matter(row: Reals) -> real:
    """What is neither tissue where ends are valid nor tissue where they are not."""
    return (1.0 - row[STOP_CHANNEL]) - row[STOP_CHANNEL + 1]


@twin
def judged(reason: i32, taken: i32, row: Reals, rules: Rules, particles: Particles) -> i32:
    """The reason; but GROWING at a valid end of a half that has not reached enough white matter yet."""
    if MIN_WHITE:
        if (particles.plan[NOW] == NONE) & (reason != OUTSIDE_IMAGE):
            white = white_matter(row)
            most = maximum(particles.place[WHITE], white)
            particles.place[WHITE] = most
            if (reason == VALID_END) & (most < MIN_WHITE) & (white > 0.0) & (taken + 1 < rules.max_steps):
                reason = GROWING
    return reason


@twin
def seed_of(half: i32, seeds: Seeds, halves: Halves) -> vec3:
    """The point where a half begins."""
    place = 3 * halves.seed[half >> 1]
    return vec3(seeds.points[place], seeds.points[place + 1], seeds.points[place + 2])


@twin
def step_again(p: vec3, half: i32, k: i32, halves: Halves, rules: Rules, method: Method, scratch: Scratch) -> vec3:
    """The point to which step number ``k`` of a half has led from the point before it."""
    seed = u32(halves.seed[half >> 1]) + rules.first_seed
    branch = u32(counted(half, halves, NONE, 0))
    return moved(p, halves.codes[half * rules.max_steps + k], method, scratch, seed, u32(k + 1), branch, rules)


@twin
def retraced(
    half: i32, count: i32, seeds: Seeds, halves: Halves, rules: Rules, method: Method, scratch: Scratch
) -> vec3:
    """The point of a half after ``count`` steps."""
    p = seed_of(half, seeds, halves)
    for k in range(count):
        p = step_again(p, half, k, halves, rules, method, scratch)
    return p


@twin
def bits_along(
    filter: Filter, half: i32, count: i32, seeds: Seeds, halves: Halves, rules: Rules, method: Method, scratch: Scratch
) -> i32:
    """Bits of the points of a half before the last one."""
    met = 0
    p = seed_of(half, seeds, halves)
    for k in range(count):
        met = gathered(filter, met, marks(filter, p))
        p = step_again(p, half, k, halves, rules, method, scratch)
    return met


@twin
def send_out(particles: Particles, code: i32, p: vec3):
    """Put all particles at a point, with equal weights."""
    out = lane() < PARTICLES
    put(particles.codes, 0, lanes(code))
    put(particles.point, 0, lanes(p[0]))
    put(particles.point, 32, lanes(p[1]))
    put(particles.point, 64, lanes(p[2]))
    put(particles.weight, 0, where(out, divide(1.0, real(PARTICLES)), 0.0))
    put(particles.status, 0, where(out, GROWING, INVALID_END))
    put(particles.taken, 0, lanes(0))
    if MIN_WHITE:
        put(particles.white, 0, lanes(0.0))
        put(particles.white, 32, lanes(0.0))


@twin
def note_step(particles: Particles, particle: i32, turn: i32, p: vec3, code: i32, status: i32, row: Reals):
    """Note where a particle's step has led; ``row`` holds the maps at its new point."""
    weight = particles.weight[particle]
    if MIN_WHITE:
        before = maximum(particles.white[particle], particles.white[particle + 32])
        barrier()
        particles.white[particle] = before
        particles.white[particle + 32] = white_matter(row)
    barrier()
    if status == NO_DIRECTION:
        weight = 0.0
        status = INVALID_END
    else:
        particles.codes[32 * (turn + 1) + particle] = code
        particles.point[particle] = p[0]
        particles.point[particle + 32] = p[1]
        particles.point[particle + 64] = p[2]
        particles.taken[particle] = turn + 1
        if status != OUTSIDE_IMAGE:
            weight = weight * (1.0 - row[STOP_CHANNEL + 1])
        if weight < LEAST:
            weight = 0.0
        if ((status == INVALID_END) & (weight > 0.0)) | (status == MAX_LENGTH):
            status = GROWING
    particles.weight[particle] = weight
    particles.status[particle] = status
    barrier()


@twin
def next_growing(particles: Particles, after: i32) -> i32:
    """The first particle beyond number ``after`` that still grows, or NONE."""
    numbers = where((lane() > after) & (at(particles.status, 0) == GROWING), real(lane()), 32.0)
    number = i32(team_min(numbers))
    if number == 32:
        number = NONE
    return number


@twin
def whole_weight(particles: Particles) -> real:
    """Sum of the weights."""
    total = 0.0
    for i in range(PARTICLES):
        total = total + particles.weight[i]
    return total


@twin
def drawn(particles: Particles, c0: u32, c1: u32, c2: u32, draw: i32, key: Ints) -> i32:
    """In each lane a particle, drawn by weight; 0 if all weights are 0.

    It is the last particle of positive weight whose cumulative sum starts at or before a random fraction of the whole sum.
    """
    barrier()
    numbers = u32((RESAMPLING << STREAM) + draw) + u32(lane())
    w = philox(lanes(c0), lanes(c1), lanes(c2), numbers, u32(key[0]), u32(key[1]))
    place = uniform(w[0]) * whole_weight(particles)
    number = lanes(0)
    before = 0.0
    for i in range(PARTICLES):
        if particles.weight[i] > 0.0:
            number = where(before <= place, i, number)
            before = before + particles.weight[i]
    barrier()
    return number


@twin
def copy_ints(array: Ints, start: i32, source: i32):
    """Each lane takes the number of its source."""
    value = take(array, start + source)
    barrier()
    put(array, start, value)


@twin
def copy_reals(array: Reals, start: i32, source: i32):
    """Each lane takes the number of its source."""
    value = take(array, start + source)
    barrier()
    put(array, start, value)


@twin
def resample(particles: Particles, turn: i32, source: i32):
    """Each particle becomes a copy of its source, and all weights are equal again."""
    out = lane() < PARTICLES
    for k in range(turn + 2):
        copy_ints(particles.codes, 32 * k, source)
    for axis in range(3):
        copy_reals(particles.point, 32 * axis, source)
    if MIN_WHITE:
        for k in range(2):
            copy_reals(particles.white, 32 * k, source)
    copy_ints(particles.taken, 0, source)
    status = take(particles.status, source)
    barrier()
    put(particles.status, 0, where(out, status, INVALID_END))
    put(particles.weight, 0, where(out, divide(1.0, real(PARTICLES)), 0.0))


@twin
def balance(particles: Particles, turn: i32, c0: u32, c1: u32, c2: u32, key: Ints):
    """Normalise the weights, and resample where they are too uneven: where 1 / (sum of squares) < PARTICLES / 10."""
    barrier()
    total = whole_weight(particles)
    barrier()
    if total > 0.0:
        put(particles.weight, 0, at(particles.weight, 0) * divide(1.0, total))
        barrier()
        squares = 0.0
        for i in range(PARTICLES):
            squares = squares + particles.weight[i] * particles.weight[i]
        barrier()
        if real(PARTICLES) * squares > 10.0:
            resample(particles, turn, drawn(particles, c0, c1, c2, 0, key))
    barrier()


@twin
def adopt(half: i32, first: i32, chosen: i32, halves: Halves, rules: Rules, particles: Particles) -> i32:
    """Replace a half's steps from number ``first`` on by those of a particle; return how many the half has then."""
    steps = particles.taken[chosen]
    for k in range(maximum(steps - 1, 0)):
        halves.codes[half * rules.max_steps + first + k] = particles.codes[32 * (k + 1) + chosen]
    taken = first + steps - 1
    if particles.status[chosen] == OUTSIDE_IMAGE:
        taken = maximum(taken - 1, 0)
    return taken


@twin
def rescue(
    half: i32,
    p: vec3,
    code: i32,
    status: i32,
    taken: i32,
    last: i32,
    seeds: Seeds,
    halves: Halves,
    rules: Rules,
    method: Method,
    scratch: Scratch,
    particles: Particles,
) -> i32:
    """Decide what grows next where a half or a particle has stopped: 1 if there is something, 0 if the half stands still.

    The answer's details are in ``plan`` and ``place``.  Particles that have begun always end in the same launch.
    """
    barrier()
    now = particles.plan[NOW]
    first = particles.plan[FIRST]
    turn = particles.plan[TURN]
    turns = particles.plan[TURNS]
    left = particles.plan[LEFT]
    trials = particles.plan[TRIED]
    white = particles.place[WHITE]
    barrier()
    goes_on = 0
    count = NONE  # steps to a point that must be found again
    if now == NONE:
        invalid = (status == INVALID_END) | (status == NO_DIRECTION)
        if invalid & (trials < TRIALS) & (taken > 0) & (taken < rules.max_steps):
            back = minimum(taken, BACK_STEPS)
            first = taken + 1 - back
            turns = back + maximum(minimum(rules.max_steps - taken - back - 1, FRONT_STEPS), 0)
            turn = 0
            left = last - taken - PARTICLES * turns
            trials = trials + 1
            now = 0
            count = first
    else:
        note_step(particles, now, turn, p, code, status, scratch.row)
        now = next_growing(particles, now)
        if now == NONE:
            seed = u32(halves.seed[half >> 1]) + rules.first_seed
            branch = u32(counted(half, halves, NONE, trials))
            balance(particles, turn, seed, u32(first + turn + 1), branch, rules.key)
            turn = turn + 1
            if turn < turns:
                now = next_growing(particles, NONE)
            if now == NONE:
                numbers = drawn(particles, seed, u32(first + turn), branch, 32, rules.key)
                chosen = i32(team_max(where(lane() == 0, real(numbers), -1.0)))
                status = particles.status[chosen]
                taken = adopt(half, first, chosen, halves, rules, particles)
                last = taken + left
                if MIN_WHITE:
                    white = maximum(white, particles.white[chosen])
                if (status == GROWING) & (left > 0):
                    goes_on = 1
                count = taken
    if count >= 0:
        p = retraced(half, count, seeds, halves, rules, method, scratch)
        code = halves.codes[half * rules.max_steps + maximum(count - 1, 0)]
        if now == 0:
            send_out(particles, code, p)
            barrier()
    if now >= 0:
        goes_on = 1
        status = GROWING
        taken = first + turn
        last = taken + 1
        code = particles.codes[32 * turn + now]
        p = vec3(particles.point[now], particles.point[now + 32], particles.point[now + 64])
    particles.plan[STATUS] = status
    particles.plan[TAKEN] = taken
    particles.plan[LAST] = last
    particles.plan[CODE] = code
    particles.plan[BRANCH] = counted(half, halves, now, trials)
    particles.plan[NOW] = now
    particles.plan[FIRST] = first
    particles.plan[TURN] = turn
    particles.plan[TURNS] = turns
    particles.plan[LEFT] = left
    particles.plan[TRIED] = trials
    particles.place[WHITE] = white
    particles.place[0] = p[0]
    particles.place[1] = p[1]
    particles.place[2] = p[2]
    barrier()
    return goes_on
