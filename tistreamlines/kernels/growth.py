"""How a streamline grows: from a seed to its initial directions, and from each one step by step in both directions."""

from __future__ import annotations

from ..linker.lang import *
from ..linker.rng import SEEDING, STREAM, philox
from .interpolate import Volume, inside
from .orientation.peaks import NONE
from .selection.regions import (
    DISORDER,
    EXCLUDE,
    LIMIT,
    MET,
    MISSED_INCLUDE,
    MORE,
    all_beyond,
    beyond,
    fulfilled,
    gathered,
    spoiled,
)
from .stop_reasons import KEPT, KEPT_ENDS, Stop
from .verdicts import Verdict

Method = Hole("record of the direction getter")
Scratch = Hole("its team memory")
Stopping = Hole("record of the stopping rule")
begin = Hole("the method's initial directions at a seed")
read = Hole("reads what the method and the stopping rule need of the voxels' rows at a point")
depart = Hole("sets what a half carries at its seed, for methods that carry more than the last code")
choose = Hole("the method's choice of a step")
moved = Hole("the point that a step leads to")
classify = Hole("the stopping rule")
Filter = Hole("record of what is demanded of the points of streamlines, which extends Demands")
marks = Hole("bits of a point, see the module regions")
MARKS = Constant("1: points have bits, 0: nothing is demanded of points")
IN_TURN = Constant("1: a backward half grows when its forward half has ended, 0: both grow at the same time")
ONE_WAY = Constant("1: there are no backward halves, 2: forward halves take one of both senses at random, 0: both halves grow")
TRUNCATES = Constant("1: a streamline ends with its greatest number of steps, 0: both halves may have as many as rules allow")
CODE_BITS = Constant("bits of a step's code: 32 // CODE_BITS to a word")
CARRIED = Constant("number of reals, besides its point, that a half carries from step to step (0: its last code suffices)")
Particles = Hole("team memory of particle filtering")
recall = Hole("restores what a half remembers for particle filtering")
remember = Hole("stores it")
judged = Hole("the stop reason, or GROWING where a half may not end yet")
rescue = Hole("what comes next where a half or a particle has stopped")
bits_along = Hole("bits of the points of a half that has ended")
PARTICLES = Constant("number of particles that find a way on where a half ends invalidly, at most 32; 0: such ends stand")
REMEMBERED = Constant("number of reals that a half remembers for particle filtering, 0 without it")
ABREAST = Constant("0: a team works on one half; 1: on 32 halves, one in each lane, as the host does to lay out points")
DROPS_DEAD_END = Constant("1: the last point is dropped if the method finds no direction there, 0: it is kept")

GROWING = int(Stop.GROWING)
OUTSIDE_IMAGE = int(Stop.OUTSIDE_IMAGE)
NO_DIRECTION = int(Stop.NO_DIRECTION)
MAX_LENGTH = int(Stop.MAX_LENGTH)
OUTSIDE_LIMIT, REJECTED = int(Stop.OUTSIDE_LIMIT), int(Stop.REJECTED)
ALL_INCLUDED, NOT_GROWN = int(Stop.ALL_INCLUDED), int(Stop.NOT_GROWN)
EXCLUDED, OUT_OF_TURN = int(Verdict.EXCLUDED), int(Verdict.OUT_OF_TURN)
SEED_OUTSIDE_LIMIT = int(Verdict.SEED_OUTSIDE_LIMIT)

# in the particles' ``plan``: what ``rescue`` answers
STATUS, TAKEN, LAST, CODE, BRANCH = range(5)


class Seeds(Record):
    """Seeds of a chunk (voxel coordinates, x y z in turn) and their initial directions, at most ``most`` of each."""

    points: Reals
    counts: Ints
    peaks: Ints
    most: i32


class Halves(Record):
    """Half-streamlines: 2 s grows forwards and 2 s + 1 backwards from the seed of streamline s.

    For each streamline: ``seed``, its seed's number in the chunk; ``branch``, its number among the seed's directions;
    ``initial``, the code of its initial direction (with particles, of the forward half's first step once it is taken).  For
    each half: ``point``, its last point, what it carries and what it remembers; ``state``, steps taken and stop reason;
    ``codes``, one code a step; ``met``, the bits of all points but the last one, those of the last one, and for methods that
    drop dead ends those of the last but one; ``more``, what ``beyond`` keeps of it.
    """

    seed: Ints
    branch: Ints
    initial: Ints
    point: Reals
    state: Ints
    codes: Ints
    met: Ints
    more: Ints


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


@twin
def start(item: i32, seeds: Seeds, volume: Volume, method: Method, scratch: Scratch):
    """Find the initial directions of seed ``item``."""
    p = vec3(seeds.points[3 * item], seeds.points[3 * item + 1], seeds.points[3 * item + 2])
    count = 0
    if inside(volume, p) == 1:
        count = minimum(begin(volume, p, method, scratch), seeds.most)
        for i in each(count):
            seeds.peaks[item * seeds.most + i] = 2 * scratch.peaks.kept[i]
    seeds.counts[item] = count


@twin
def enlist(item: i32, slot: Ints, seeds: Seeds, halves: Halves, rules: Rules):
    """Create a streamline for each direction of seed ``item``, the first one with number ``slot[item]``."""
    for i in each(seeds.counts[item]):
        streamline = slot[item] + i
        halves.seed[streamline] = item
        halves.branch[streamline] = i
        initial = seeds.peaks[item * seeds.most + i]
        if ONE_WAY == 2:
            number = u32(item) + rules.first_seed
            w = philox(number, u32(0), u32(i + 1), u32(SEEDING << STREAM), u32(rules.key[0]), u32(rules.key[1]))
            initial = initial ^ i32(w[0] & u32(1))
        halves.initial[streamline] = initial
        for side in range(2):
            half = 2 * streamline + side
            halves.state[2 * half] = 0
            halves.state[2 * half + 1] = GROWING
            if MARKS:
                for k in range(2 + DROPS_DEAD_END):
                    halves.met[(2 + DROPS_DEAD_END) * half + k] = 0
                if MORE:
                    for k in range(MORE + 1):
                        halves.more[(MORE + 1) * half + k] = 0
            if ONE_WAY:
                halves.state[2 * half + 1] = where(side == 1, NOT_GROWN, GROWING)
            for axis in range(3):
                halves.point[(3 + CARRIED + REMEMBERED) * half + axis] = seeds.points[3 * item + axis]
            if REMEMBERED:
                for k in range(REMEMBERED):
                    halves.point[(3 + CARRIED + REMEMBERED) * half + 3 + CARRIED + k] = 0.0


@twin
def heading_code(half: i32, halves: Halves, rules: Rules) -> i32:
    """Direction of a half's last step, or of its start.

    As in DIPY's LocalTracking, the backward half starts opposite to the forward half's first step if there is one.  With
    particles, also if that step is taken back later, since the halves grow at the same time.
    """
    code = halves.initial[half >> 1]
    taken = halves.state[2 * half]
    if taken > 0:
        code = halves.codes[half * rules.max_steps + taken - 1]
    elif (half & 1) == 1:
        if PARTICLES == 0:
            if halves.state[2 * half - 2] > 0:
                code = halves.codes[(half - 1) * rules.max_steps]
        code = code ^ 1
    return code


@twin
def first_code(half: i32, halves: Halves, rules: Rules) -> i32:
    """For a backward half, code of the forward half's first step; NONE for a forward half, or if there is no such step."""
    code = NONE
    if (half & 1) == 1:
        if halves.state[2 * half - 2] > 0:
            code = halves.codes[(half - 1) * rules.max_steps]
    return code


@twin
def take_up(half: i32, c0: u32, c2: u32, halves: Halves, rules: Rules, method: Method, scratch: Scratch):
    """Restore what a half carries, or set it at the seed."""
    if halves.state[2 * half] > 0:
        for i in each(CARRIED):
            scratch.carried[i] = halves.point[(3 + CARRIED + REMEMBERED) * half + 3 + i]
    else:
        depart(method, scratch, halves.initial[half >> 1], half & 1, first_code(half, halves, rules), c0, c2, rules)
    barrier()


@twin
def lay_down(half: i32, p: vec3, taken: i32, status: i32, halves: Halves, scratch: Scratch, particles: Particles):
    """Store the state of a half."""
    place = (3 + CARRIED + REMEMBERED) * half
    if CARRIED:
        for i in each(CARRIED):
            halves.point[place + 3 + i] = scratch.carried[i]
    if PARTICLES:
        remember(half, halves, particles)
    for axis in each(3):
        halves.point[place + axis] = where(axis == 0, p[0], where(axis == 1, p[1], p[2]))
    halves.state[2 * half] = taken
    halves.state[2 * half + 1] = status


@twin
def stepped(p: vec3, d: vec3, rules: Rules) -> vec3:
    """The point one step on."""
    return vec3(p[0] + rules.step_x * d[0], p[1] + rules.step_y * d[1], p[2] + rules.step_z * d[2])


@twin
def visit(p: vec3, volume: Volume, stopping: Stopping, row: Reals, c0: u32, c1: u32, c2: u32, key: Ints) -> i32:
    """Read the rows at a point; return the reason to stop there, or GROWING."""
    reason = OUTSIDE_IMAGE
    barrier()
    if inside(volume, p) == 1:
        read(volume, p, row)
        barrier()
        reason = classify(stopping, volume, p, row, c0, c1, c2, key)
    return reason


@twin
def most_steps(half: i32, halves: Halves, rules: Rules) -> i32:
    """Greatest number of steps of a half."""
    most = rules.max_steps
    if TRUNCATES:
        most = minimum(most, rules.most)
        if (half & 1) == 1:
            most = minimum(most, rules.most - halves.state[2 * half - 2])
    return most


@twin
def met_before(half: i32, taken: i32, halves: Halves) -> i32:
    """Bits that a half has met; one that grows after the other begins with what that one has met."""
    met = halves.met[(2 + DROPS_DEAD_END) * half]
    if IN_TURN:
        if ((half & 1) == 1) & (taken == 0):
            met = halves.met[(2 + DROPS_DEAD_END) * (half - 1)]
            if MORE:
                for k in range(MORE + 1):
                    halves.more[(MORE + 1) * half + k] = halves.more[(MORE + 1) * (half - 1) + k]
                barrier()
    return met


@twin
def complete(half: i32, p: vec3, met: i32, here: i32, halves: Halves, filter: Filter) -> i32:
    """1 if a half that has met ``met`` has visited all regions with its point p, whose bits are ``here``, else 0."""
    found = 0
    if (gathered(filter, met, here) & filter.wanted) == filter.wanted:
        found = 1
        if MORE:
            if (beyond(filter, p, halves.more, (MORE + 1) * half, 0) & MET) == 0:
                found = 0
    return found


@twin
def grow(
    half: i32, steps: i32, seeds: Seeds, halves: Halves, rules: Rules, volume: Volume, stopping: Stopping,
    filter: Filter, method: Method, scratch: Scratch, particles: Particles,
):  # fmt: skip
    """Grow a half-streamline by at most ``steps`` steps."""
    if halves.state[2 * half + 1] == GROWING:
        code = heading_code(half, halves, rules)
        taken = halves.state[2 * half]
        last = taken + steps
        most = most_steps(half, halves, rules)
        place = (3 + CARRIED + REMEMBERED) * half
        p = vec3(halves.point[place], halves.point[place + 1], halves.point[place + 2])
        seed = u32(halves.seed[half >> 1]) + rules.first_seed
        branch = u32(halves.branch[half >> 1] * 2 + (half & 1))
        if CARRIED:
            take_up(half, seed, branch, halves, rules, method, scratch)
        keeps = KEPT
        if PARTICLES:
            keeps = KEPT | KEPT_ENDS
            branch = recall(half, halves, particles)
        status = GROWING
        if TRUNCATES:
            status = where(taken >= most, MAX_LENGTH, GROWING)
        met = 0  # bits of the points that certainly stay: all but p, which is dropped where it is a dead end
        here = 0  # bits of p
        before = 0  # bits of the point before p
        found = 0
        due = GROWING  # why the half ends at p if it finds a direction there: a dead end is dropped
        if MARKS:
            met = met_before(half, taken, halves)
            if DROPS_DEAD_END:
                before = halves.met[(2 + DROPS_DEAD_END) * half + 2]
            if MORE:
                stays = 1  # 0: p is a dead end, which is dropped
        attempt = 0
        ahead = p
        moves = 0  # 1: ahead is a step on from p, 0: it is p, whose row is read
        goes_on = 1
        while goes_on == 1:
            reason = visit(ahead, volume, stopping, scratch.row, seed, u32(taken + moves), branch, rules.key)
            if MARKS:
                found = marks(filter, ahead, 0)
            if moves == 1:
                status = reason
                if PARTICLES:
                    status = judged(reason, taken, scratch.row, rules, particles)
                if MARKS:
                    if filter.limited != 0:  # asked first: without limits no GPU need wait for found before the next step
                        if (status == GROWING) & ((found & LIMIT) == 0):
                            status = OUTSIDE_LIMIT
                if (keeps >> status) & 1 == 1:
                    p = ahead
                    if PARTICLES:
                        if (taken == 0) & ((half & 1) == 0):
                            halves.initial[half >> 1] = code
                    halves.codes[half * rules.max_steps + taken] = code
                    taken = taken + 1
                    if MARKS:
                        before = here
                        here = found
                        if filter.stops == 1:
                            if complete(half, p, met, here, halves, filter) == 1:
                                status = ALL_INCLUDED
                    if (status == GROWING) & (taken == most):
                        status = MAX_LENGTH
            else:
                if reason == OUTSIDE_IMAGE:
                    status = OUTSIDE_IMAGE
                if MARKS:
                    here = found
                    if (found & LIMIT) < filter.limited:
                        status = REJECTED  # a seed outside the limit mask
                    if DROPS_DEAD_END:
                        if (filter.stops == 1) & (taken > 0):
                            if complete(half, p, met, here, halves, filter) == 1:
                                status = ALL_INCLUDED
                    if ONE_WAY:
                        if taken == 0:
                            halves.met[(2 + DROPS_DEAD_END) * (half + 1) + 1] = here  # the other end is the seed
            if DROPS_DEAD_END & (TRUNCATES | MARKS):
                early = (status == MAX_LENGTH) & (taken > 0) & (taken < rules.max_steps)
                if early | (status == ALL_INCLUDED):
                    due = status
                    status = GROWING
            goes_on = 0
            if (status == GROWING) & (taken < last):
                choice = choose(volume, p, code, method, scratch, attempt, seed, u32(taken + 1), branch, rules.key)
                if choice == NONE:
                    status = NO_DIRECTION
                    if DROPS_DEAD_END:
                        if MARKS:
                            if taken > 0:
                                here = before
                                if MORE:
                                    stays = 0
                        taken = maximum(taken - 1, 0)
                else:
                    # for another draw the row of the same point is read again, since the method may have overwritten it
                    goes_on = 1
                    moves = 0
                    ahead = p
                    attempt = attempt + 1
                    if DROPS_DEAD_END & (TRUNCATES | MARKS):
                        if (due != GROWING) & (choice >= 0):
                            status = due
                            goes_on = 0
                            choice = NONE
                    if choice >= 0:
                        attempt = 0
                        code = choice
                        moves = 1
                        ahead = moved(p, code, method, scratch, seed, u32(taken + 1), branch, rules)
                        if MARKS & (PARTICLES == 0):
                            met = gathered(filter, met, here)
                            if MORE:
                                met = spoiled(met, beyond(filter, p, halves.more, (MORE + 1) * half, 1))
                            if (taken & 7) == 0:  # looking at the other half takes time
                                if halves.state[2 * (half ^ 1) + 1] == REJECTED:
                                    met = met | EXCLUDE
                            if (met & EXCLUDE) != 0:
                                status = REJECTED
                                goes_on = 0
            if PARTICLES:
                # a particle takes one step at a time as if it were a half; rescue says which half or particle is next
                if goes_on == 0:
                    goes_on = rescue(half, p, code, status, taken, last, seeds, halves, rules, method, scratch, particles)
                    p = vec3(particles.place[0], particles.place[1], particles.place[2])
                    status = particles.plan[STATUS]
                    taken = particles.plan[TAKEN]
                    last = particles.plan[LAST]
                    code = particles.plan[CODE]
                    branch = u32(particles.plan[BRANCH])
                    ahead = p
                    moves = 0
                    attempt = 0
        if MARKS:
            if status != GROWING:
                if PARTICLES:  # points that particles have visited, or that were taken back, do not count
                    met = bits_along(filter, half, taken, seeds, halves, rules, method, scratch)
                    here = marks(filter, p, 0)
                met = gathered(filter, met, here)
                if MORE:
                    if stays == 1:
                        met = spoiled(met, beyond(filter, p, halves.more, (MORE + 1) * half, 1))
                if (met & EXCLUDE) != 0:
                    status = REJECTED
            halves.met[(2 + DROPS_DEAD_END) * half] = met
            halves.met[(2 + DROPS_DEAD_END) * half + 1] = here
            if DROPS_DEAD_END:
                halves.met[(2 + DROPS_DEAD_END) * half + 2] = before
        lay_down(half, p, taken, status, halves, scratch, particles)


@twin
def advance(
    item: i32, stride: i32, offset: i32, steps: i32, seeds: Seeds, halves: Halves, rules: Rules, volume: Volume,
    stopping: Stopping, filter: Filter, method: Method, scratch: Scratch, particles: Particles,
):  # fmt: skip
    """Grow half ``item * stride + offset``."""
    grow(item * stride + offset, steps, seeds, halves, rules, volume, stopping, filter, method, scratch, particles)


@twin
def judge(item: i32, halves: Halves, filter: Filter, verdict: Ints):
    """Say of streamline ``item``, whose halves have ended, what the regions make of it."""
    a = (2 + DROPS_DEAD_END) * 2 * item
    b = a + 2 + DROPS_DEAD_END
    met = halves.met[a] | halves.met[b]
    found = SEED_OUTSIDE_LIMIT
    if (met & EXCLUDE) != 0:
        found = where((met & DISORDER) != 0, OUT_OF_TURN, EXCLUDED)
    elif (halves.state[4 * item + 1] != REJECTED) & (halves.state[4 * item + 3] != REJECTED):
        found = fulfilled(filter, met, halves.met[a + 1], halves.met[b + 1])
        if MORE:
            if all_beyond(filter, halves.more, (MORE + 1) * 2 * item, (MORE + 1) * (2 * item + 1)) == 0:
                found = MISSED_INCLUDE
    verdict[item] = found


@twin
def pack(item: i32, accepted: Ints, slot: Ints, halves: Halves, rules: Rules, out: Ints):
    """Copy the codes of a half of streamline ``accepted[item // 2]``, several to a word, to ``out`` from ``slot[item]``."""
    half = 2 * accepted[item >> 1] + (item & 1)
    n = halves.state[2 * half]
    base = half * rules.max_steps
    for i in each((n + 32 // CODE_BITS - 1) // (32 // CODE_BITS)):
        word = 0
        for k in unrolled(32 // CODE_BITS):
            place = minimum(i * (32 // CODE_BITS) + k, n - 1)
            word = word | (halves.codes[base + place] << (k * CODE_BITS))
        out[slot[item] + i] = word
