"""The particles of particle filtering: their weights, steps and resampling; :mod:`.particle_filtering` sends them out.

A particle's weight is the product of the shares of tissue where ends are not forbidden, at its points.  Girard et al. 2014;
DIPY's ``_pft`` in ``localtrack.pyx``.
"""

from ...linker.lang import *
from ...linker.maths import divide
from ...linker.rng import RESAMPLING, STREAM, philox, uniform
from ..halves import CARRIED
from ..interpolate import STOP_CHANNEL
from ..orientation.peaks import NONE
from ..stop_reasons import GROWING, INVALID_END, MAX_LENGTH, NO_DIRECTION, OUTSIDE_IMAGE

PARTICLES = Constant("number of particles that find a way on where a half ends invalidly, at most 32")
MIN_WHITE = Constant("share of white matter that a half must reach before it may end validly; 0: none")

LEAST = 1.0e-16  # weights below this are 0
WHITE = 0  # in ``place``: the greatest share of white matter at the half's points, the seed excepted
STATUS, TAKEN, LAST, NOW, FIRST, TURN, TURNS, LEFT, TRIED = range(9)  # in ``plan``
PLAN = 9  # its length


class Particles(Record):
    """Team memory of the particles, one in each lane.

    ``codes`` : the code of each particle's heading before its first step, and of its steps [step][particle].  ``point`` :
    its last point, x..., y..., z...  ``carried`` : its state [number][particle].  ``white`` : the greatest share of white
    matter at its points except for the last one, and that at its last one.  ``place`` : the greatest share of white matter of
    the half.  ``plan`` : stop reason, steps and last step of the half or the particle that has stopped; the particle that steps
    now, NONE if the half itself does; steps of the half to the particles' first point; steps that the particles have taken and
    are to take; steps that the half may take in this launch; trials of the half so far.
    """

    codes: Ints
    point: Reals
    carried: Reals
    weight: Reals
    status: Ints
    taken: Ints
    white: Reals
    place: Reals
    plan: Ints

    @staticmethod
    def sizes(recovery, getter):
        return {
            "codes": 32 * (recovery.back_steps + recovery.front_steps + 1), "point": 96, "carried": 32 * getter.carried,
            "weight": 32, "status": 32, "taken": 32, "white": 64, "place": 1, "plan": PLAN,
        }


@func
def white_matter(row: Reals) -> real:
    """The share without tissue, where ends are neither valid nor invalid."""
    return (1.0 - row[STOP_CHANNEL]) - row[STOP_CHANNEL + 1]


@func
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


@func
def note_step(particles: Particles, particle: i32, p: vec3, code: i32, status: i32, row: Reals):
    """Note where a particle's step has led; ``row`` holds the maps at its new point."""
    turn = particles.plan[TURN]
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


@func
def next_growing(particles: Particles, after: i32) -> i32:
    """The first particle beyond number ``after`` that still grows, or NONE."""
    number = team_first((lane() > after) & (at(particles.status, 0) == GROWING))
    if number == 32:
        number = NONE
    return number


@func
def whole_weight(particles: Particles) -> real:
    """Sum of the weights."""
    total = 0.0
    for i in range(PARTICLES):
        total = total + particles.weight[i]
    return total


@func
def draw_particle(particles: Particles, c0: u32, c1: u32, c2: u32, draw: i32, key: Ints) -> i32:
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


@func
def copy_ints(array: Ints, start: i32, source: i32):
    """Each lane takes its source's number."""
    value = take(array, start + source)
    barrier()
    put(array, start, value)


@func
def copy_reals(array: Reals, start: i32, source: i32):
    """Each lane takes its source's number."""
    value = take(array, start + source)
    barrier()
    put(array, start, value)


@func
def resample(particles: Particles, turn: i32, source: i32):
    """Each particle becomes a copy of its source, and all weights are equal again."""
    for k in range(turn + 1):
        copy_ints(particles.codes, 32 * k, source)
    for axis in range(3):
        copy_reals(particles.point, 32 * axis, source)
    if CARRIED:
        for k in range(CARRIED):
            copy_reals(particles.carried, 32 * k, source)
    if MIN_WHITE:
        for k in range(2):
            copy_reals(particles.white, 32 * k, source)
    copy_ints(particles.taken, 0, source)
    status = take(particles.status, source)
    barrier()
    put(particles.status, 0, where(lane() < PARTICLES, status, INVALID_END))
    put(particles.weight, 0, where(lane() < PARTICLES, divide(1.0, real(PARTICLES)), 0.0))


@func
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
            resample(particles, turn, draw_particle(particles, c0, c1, c2, 0, key))
    barrier()
