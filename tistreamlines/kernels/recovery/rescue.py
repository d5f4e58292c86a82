"""Particle filtering: where a half ends invalidly, particles look for a way on (DIPY's ``ParticleFilteringTracking``).

The half goes back some steps.  From there particles take their own steps.  In the end one particle is drawn by weight, and its
steps become the half's.  A particle steps in the loop of ``grow`` as a half does, one step at a time; ``rescue`` is asked
after each of them.

Two details are those of DIPY's source: the last point of the chosen particle is left out, and so is the point before it where
the particle leaves the image.  Girard et al. 2014.
"""

from __future__ import annotations

from ...linker.lang import *
from ...linker.rng import PARTICLE, TRIAL
from ..growth import *
from ..orientation.peaks import NONE
from ..selection.regions import MORE, beyond, gathered, spoiled
from ..stop_reasons import Stop
from ..stopping.cmc import LEAST as NO_WHITE
from .particles import *

BACK_STEPS = Constant("steps that a half goes back, at most")
FRONT_STEPS = Constant("steps of a particle beyond those, at most")
TRIALS = Constant("how often particles may help a half")
VALID_END = int(Stop.VALID_END)


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
def judged(reason: i32, taken: i32, row: Reals, rules: Rules, particles: Particles) -> i32:
    """The reason; but GROWING at a valid end of a half that has not reached enough white matter yet."""
    if MIN_WHITE:
        if (particles.plan[NOW] == NONE) & (reason != OUTSIDE_IMAGE):
            white = white_matter(row)
            most = maximum(particles.place[WHITE], white)
            particles.place[WHITE] = most
            if (reason == VALID_END) & (most < MIN_WHITE) & (white > NO_WHITE) & (taken + 1 < rules.max_steps):
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
        met = gathered(filter, met, marks(filter, p, 0))
        if MORE:
            met = spoiled(met, beyond(filter, p, halves.more, (MORE + 1) * half, 1))
        p = step_again(p, half, k, halves, rules, method, scratch)
    return met


@twin
def begin_trial(half: i32, taken: i32, last: i32, halves: Halves, rules: Rules, particles: Particles) -> i32:
    """Plan how far the half goes back and how far particles go; return the number of steps to the point between."""
    back = minimum(taken, BACK_STEPS)
    turns = back + maximum(minimum(rules.max_steps - taken - back - 1, FRONT_STEPS), 0)
    trials = particles.plan[TRIED] + 1
    barrier()
    particles.plan[TRIED] = trials
    particles.plan[FIRST] = taken + 1 - back
    particles.plan[TURN] = 0
    particles.plan[TURNS] = turns
    particles.plan[LEFT] = last - taken - PARTICLES * turns
    return taken + 1 - back


@twin
def end_turn(half: i32, halves: Halves, rules: Rules, particles: Particles) -> i32:
    """Balance the weights after each particle's step; return the first particle that steps next, NONE if none does."""
    turn = particles.plan[TURN] + 1
    number = NONE
    seed = u32(halves.seed[half >> 1]) + rules.first_seed
    branch = u32(counted(half, halves, NONE, particles.plan[TRIED]))
    balance(particles, turn, seed, u32(particles.plan[FIRST] + turn), branch, rules.key)
    particles.plan[TURN] = turn
    if turn < particles.plan[TURNS]:
        number = next_growing(particles, NONE)
    barrier()
    return number


@twin
def adopt(half: i32, halves: Halves, rules: Rules, particles: Particles) -> i32:
    """Replace the half's last steps by those of a particle that is drawn by weight; return how many the half has then."""
    first = particles.plan[FIRST]
    seed = u32(halves.seed[half >> 1]) + rules.first_seed
    branch = u32(counted(half, halves, NONE, particles.plan[TRIED]))
    numbers = drawn(particles, seed, u32(first + particles.plan[TURN]), branch, 32, rules.key)
    chosen = i32(team_max(where(lane() == 0, real(numbers), -1.0)))
    steps = particles.taken[chosen]
    for k in range(maximum(steps - 1, 0)):
        halves.codes[half * rules.max_steps + first + k] = particles.codes[32 * (k + 1) + chosen]
    taken = first + steps - 1
    if particles.status[chosen] == OUTSIDE_IMAGE:
        taken = maximum(taken - 1, 0)
    if MIN_WHITE:
        white = maximum(particles.place[WHITE], particles.white[chosen])
        barrier()
        particles.place[WHITE] = white
    particles.plan[STATUS] = particles.status[chosen]
    particles.plan[TAKEN] = taken
    particles.plan[LAST] = taken + particles.plan[LEFT]
    return taken


@twin
def rescue(
    half: i32, p: vec3, code: i32, status: i32, taken: i32, last: i32, seeds: Seeds, halves: Halves, rules: Rules,
    method: Method, scratch: Scratch, particles: Particles,
) -> i32:  # fmt: skip
    """Decide what grows next where a half or a particle has stopped: 1 if there is something, 0 if the half stands still.

    The answer's details are in ``plan`` and ``place``.  Particles that have begun always end in the same launch.
    """
    barrier()
    now = particles.plan[NOW]
    particles.plan[STATUS] = status
    particles.plan[TAKEN] = taken
    particles.plan[LAST] = last
    count = NONE  # steps to a point that must be found again
    if now == NONE:
        able = (particles.plan[TRIED] < TRIALS) & (taken > 0) & (taken < rules.max_steps)
        if able & ((status == INVALID_END) | (status == NO_DIRECTION)):
            count = begin_trial(half, taken, last, halves, rules, particles)
            now = 0
    else:
        note_step(particles, now, p, code, status, scratch.row)
        now = next_growing(particles, now)
        if now == NONE:
            now = end_turn(half, halves, rules, particles)
        if now == NONE:
            count = adopt(half, halves, rules, particles)
    barrier()
    if count >= 0:
        p = retraced(half, count, seeds, halves, rules, method, scratch)
        code = halves.codes[half * rules.max_steps + maximum(count - 1, 0)]
        if now == 0:
            send_out(particles, code, p)
            barrier()
    goes_on = 0
    if now >= 0:
        goes_on = 1
        turn = particles.plan[TURN]
        particles.plan[STATUS] = GROWING
        particles.plan[TAKEN] = particles.plan[FIRST] + turn
        particles.plan[LAST] = particles.plan[FIRST] + turn + 1
        code = particles.codes[32 * turn + now]
        p = vec3(particles.point[now], particles.point[now + 32], particles.point[now + 64])
    elif count >= 0:
        if (particles.plan[STATUS] == GROWING) & (particles.plan[LEFT] > 0):
            goes_on = 1
    particles.plan[NOW] = now
    particles.plan[CODE] = code
    particles.plan[BRANCH] = counted(half, halves, now, particles.plan[TRIED])
    particles.place[0] = p[0]
    particles.place[1] = p[1]
    particles.place[2] = p[2]
    barrier()
    return goes_on
