"""Particle filtering: where a half ends invalidly, particles look for a way on (DIPY's ``ParticleFilteringTracking``).

The half goes back some steps.  From there particles take their own steps.  In the end one particle is drawn by weight, and its
steps become the half's.  A particle steps in the loop of ``grow`` as a half does, one step at a time; ``send_particles`` is
asked after each of them.

Two details are those of DIPY's source: the last point of the chosen particle is left out, and also the point before it
where the particle leaves the image.  Girard et al. 2014.
"""

from ...linker.lang import *
from ...linker.rng import PARTICLE, TRIAL
from ..growth import load_state, store_state
from ..halves import *
from ..orientation.peaks import NONE
from ..stop_reasons import GROWING, INVALID_END, NO_DIRECTION, OUTSIDE_IMAGE, VALID_END
from ..stopping.row_maps import LEAST as NO_WHITE
from ..trail import *
from .particles import *

BACK_STEPS = Constant("steps that a half goes back, at most")
FRONT_STEPS = Constant("steps of a particle beyond those, at most")
TRIALS = Constant("how often particles may help a half")


@func
def counter_word(half: i32, halves: Halves, particle: i32, trials: i32) -> i32:
    """The third word of the random numbers' counter."""
    return (halves.branch[half >> 1] * 2 + (half & 1)) | (((particle + 1) << PARTICLE) | (trials << TRIAL))


@stage
def load_trials(walk: Walk, half: i32, halves: Halves, recovery: Particles):
    """Restore the number of trials and the share of white matter."""
    place = POINT * half + 3 + CARRIED + FOR_RULE
    trials = i32(halves.point[place])
    recovery.plan[NOW] = NONE
    recovery.plan[TRIED] = trials
    recovery.place[WHITE] = halves.point[place + 1]
    walk.branch = u32(counter_word(half, halves, NONE, trials))


@stage
def store_trials(half: i32, halves: Halves, recovery: Particles):
    """Store the number of trials and the share of white matter."""
    place = POINT * half + 3 + CARRIED + FOR_RULE
    halves.point[place] = real(recovery.plan[TRIED])
    halves.point[place + 1] = recovery.place[WHITE]


@stage
def ask_for_white(walk: Walk, scratch: Scratch, rules: Rules, recovery: Particles):
    """Let a half go on at a valid end until it has reached enough white matter."""
    if MIN_WHITE:
        if (recovery.plan[NOW] == NONE) & (walk.reason != OUTSIDE_IMAGE):
            white = white_matter(scratch.row)
            most = maximum(recovery.place[WHITE], white)
            recovery.place[WHITE] = most
            goes_on = (most < MIN_WHITE) & (white > NO_WHITE) & (walk.taken + 1 < rules.max_steps)
            if (walk.reason == VALID_END) & goes_on:
                walk.status = GROWING


@func
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


@func
def end_turn(half: i32, halves: Halves, rules: Rules, particles: Particles) -> i32:
    """Balance the weights after each particle's step; return the first particle that steps next, NONE if none does."""
    turn = particles.plan[TURN] + 1
    number = NONE
    seed = u32(halves.seed[half >> 1]) + rules.first_seed
    branch = u32(counter_word(half, halves, NONE, particles.plan[TRIED]))
    balance(particles, turn, seed, u32(particles.plan[FIRST] + turn), branch, rules.key)
    particles.plan[TURN] = turn
    if turn < particles.plan[TURNS]:
        number = next_growing(particles, NONE)
    barrier()
    return number


@func
def adopt(half: i32, halves: Halves, rules: Rules, particles: Particles) -> i32:
    """Replace the half's last steps by those of a particle that is drawn by weight; return how many the half has then."""
    first = particles.plan[FIRST]
    seed = u32(halves.seed[half >> 1]) + rules.first_seed
    branch = u32(counter_word(half, halves, NONE, particles.plan[TRIED]))
    numbers = draw_particle(particles, seed, u32(first + particles.plan[TURN]), branch, 32, rules.key)
    # the first lane's; with CUDA, Taichi would not make a whole number of ``team_value``, whose type it forgets
    chosen = i32(team_max(where(lane() == 0, real(numbers), -1.0)))
    steps = particles.taken[chosen]
    for k in range(maximum(steps - 1, 0)):
        halves.codes[code_place(half, first + k, rules)] = particles.codes[32 * (k + 1) + chosen]
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


@func
def outcome(walk: Walk, half: i32, run: Run) -> i32:
    """Note what a half or a particle that has stopped has come to, and plan what grows next.

    Return the number of steps to the point of the half from which it or the particles go on, NONE if the next particle does,
    or if there is none.
    """
    barrier()
    now = run.recovery.plan[NOW]
    run.recovery.plan[STATUS] = walk.status
    run.recovery.plan[TAKEN] = walk.taken
    run.recovery.plan[LAST] = walk.last
    count = NONE
    if now == NONE:
        able = (run.recovery.plan[TRIED] < TRIALS) & (walk.taken > 0) & (walk.taken < run.rules.max_steps)
        if able & ((walk.status == INVALID_END) | (walk.status == NO_DIRECTION)):
            count = begin_trial(half, walk.taken, walk.last, run.halves, run.rules, run.recovery)
            now = 0
    else:
        note_step(run.recovery, now, walk.p, walk.code, walk.status, run.scratch.row)
        now = next_growing(run.recovery, now)
        if now == NONE:
            now = end_turn(half, run.halves, run.rules, run.recovery)
        if now == NONE:
            count = adopt(half, run.halves, run.rules, run.recovery)
    barrier()
    run.recovery.plan[NOW] = now
    barrier()
    return count


@stage
def send_particles(walk: Walk, state: State, memory: Memory, half: i32, run: Run):
    """Go on with a particle, or with the half, where either has stopped, if there is a way.

    Particles that have begun always end in the same launch.
    """
    if walk.goes_on == 0:
        before = run.recovery.plan[NOW]
        if before >= 0:
            store_state(state, run.scratch, run.recovery.carried, before, 32)
        count = outcome(walk, half, run)
        now = run.recovery.plan[NOW]
        if count >= 0:
            go_back(walk, state, half, count, run)
            if now == 0:
                send_out(run.recovery, walk.code, walk.p)
                for i in range(PARTICLES):
                    store_state(state, run.scratch, run.recovery.carried, i, 32)
                barrier()
        walk.status = run.recovery.plan[STATUS]
        walk.taken = run.recovery.plan[TAKEN]
        walk.last = run.recovery.plan[LAST]
        walk.aside = 0
        if now >= 0:
            turn = run.recovery.plan[TURN]
            walk.goes_on = 1
            walk.aside = 1
            walk.status = GROWING
            walk.taken = run.recovery.plan[FIRST] + turn
            walk.last = run.recovery.plan[FIRST] + turn + 1
            walk.code = run.recovery.codes[32 * turn + now]
            walk.p = vec3(run.recovery.point[now], run.recovery.point[now + 32], run.recovery.point[now + 64])
            load_state(state, run.scratch, walk.code, run.recovery.carried, now, 32)
        elif count >= 0:
            if (walk.status == GROWING) & (run.recovery.plan[LEFT] > 0):
                walk.goes_on = 1
        walk.branch = u32(counter_word(half, run.halves, now, run.recovery.plan[TRIED]))
        walk.ahead = walk.p
        walk.moves = 0
        walk.attempt = 0
        barrier()
