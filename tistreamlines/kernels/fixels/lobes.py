"""The lobes of a voxel, their peaks, and the lobe of each direction, as they are handed out to the host.

The peak of a lobe is the direction of its greatest amplitude, between the directions that were sampled.
"""

from ...linker.lang import *
from ..interpolate import ROW_CHUNKS
from ..lanes import cross, everywhere, normalised
from ..orientation.amplitudes import harmonic
from ..orientation.peaks import NEIGHBOURS, NONE, VERTEX_CHUNKS, dot, vertex, vertices_from
from .watershed import *

TABLE = Constant("1: the lobe of each direction is handed out")
DILATES = Constant("1: in that table, directions outside all lobes belong to a lobe nearby, 0: to none")
NO_LOBE = 127  # of a direction, in the results
VALUES = 8  # numbers of a lobe: mean direction, integral, amplitude of the peak, direction of the peak
# of the search, in radians: how far directions are tried at first, less than from which it ends
REACH, LEAST = 0.04, 0.0002
NARROWED = 0.4  # times the reach, where the best direction is not near the rim
INNER = 12  # last lane of the pattern that is not near the rim
MOST_TURNS = 50


class LobeSlots(Record):
    """Results: ``counts`` of lobes, -1 where there are more than LOBES; VALUES numbers, as bits, of each.

    Each voxel has room for ``slots`` lobes.  ``table`` has the lobe of each direction, four to a word.
    """

    counts: Ints
    values: Ints
    table: Ints
    slots: i32


@func
def amplitude(row: Reals, d: vec3) -> real:
    """Amplitude in each lane's direction."""
    return harmonic(row, 0, d[0], d[1], d[2])


@func
def climb(row: Reals, half: Half, start: vec3) -> vec3:
    """Direction of the peak to which the function rises from a direction.

    The best of 32 directions around is taken, until they lie close together.
    """
    d = start
    reach = REACH
    turn = 0
    while (reach > LEAST) & (turn < MOST_TURNS):
        along_x = absolute(d[0]) < 0.6
        u = normalised(cross(d, vec3(where(along_x, 1.0, 0.0), where(along_x, 0.0, 1.0), 0.0)))
        v = cross(d, u)
        a = reach * at(half.pattern, 0)
        b = reach * at(half.pattern, 32)
        around = normalised(vec3(d[0] + (a * u[0] + b * v[0]), d[1] + (a * u[1] + b * v[1]), d[2] + (a * u[2] + b * v[2])))
        value = amplitude(row, around)
        high = team_max(value)
        best = team_first(value >= high)
        p = reach * half.pattern[best]
        q = reach * half.pattern[32 + best]
        d = normalised(vec3(d[0] + (p * u[0] + q * v[0]), d[1] + (p * u[1] + q * v[1]), d[2] + (p * u[2] + q * v[2])))
        if best <= INNER:
            reach = NARROWED * reach
        turn = turn + 1
    return d


@func
def nearest_direction(half: Half, d: vec3) -> i32:
    """Number of the nearest direction of the half sphere."""
    here = everywhere(d)
    best = lanes(-1.0)
    nearest = lanes(0)
    for chunk in range(VERTEX_CHUNKS):
        c = 32 * chunk
        cosine = absolute(dot(vertices_from(half.sphere, c), here))
        nearest = where(cosine > best, lane() + c, nearest)
        best = maximum(best, cosine)
    return i32(team_min(where(best >= team_max(best), real(nearest), 32.0 * real(VERTEX_CHUNKS))))


@func
def peak_of_lobe(half: Half, scratch: LobeScratch, lobe: i32, count: i32) -> vec3:
    """Direction of the peak of a lobe; that with which it begins, if the function rises from there out of the lobe.

    A lobe that was merged has several peaks; the greatest, which is the first, may not end nearer to another one.
    """
    start = vertex(half.sphere, scratch.seeds[lobe])
    d = climb(scratch.row, half, start)
    inside = where(lobe_of(scratch, nearest_direction(half, d)) == lobe, 1, 0)
    if MERGES:
        cosine = absolute(dot(d, start))
        for other in range(count):
            if lobe_of(scratch, scratch.seeds[other]) == lobe:
                if absolute(dot(d, vertex(half.sphere, scratch.seeds[other]))) > cosine:
                    inside = 0
    if inside == 0:
        d = start
    return d


@func
def hand_out(scratch: LobeScratch, item: i32, lobes: LobeSlots, number: i32, mean: vec3, peak: vec3, high: real):
    """Write the numbers of a lobe."""
    if number < lobes.slots:
        place = VALUES * (lobes.slots * item + number)
        lobes.values[place] = bits(mean[0])
        lobes.values[place + 1] = bits(mean[1])
        lobes.values[place + 2] = bits(mean[2])
        lobes.values[place + 3] = bits(scratch.integrals[number])
        lobes.values[place + 4] = bits(high)
        lobes.values[place + 5] = bits(peak[0])
        lobes.values[place + 6] = bits(peak[1])
        lobes.values[place + 7] = bits(peak[2])


@func
def keep_lobes(item: i32, half: Half, rule: LobeRule, scratch: LobeScratch, lobes: LobeSlots, count: i32) -> i32:
    """Hand out the lobes that reach the thresholds, by falling peaks; return how many there are."""
    number = 0
    for lobe in range(count):
        seed = scratch.seeds[lobe]
        scratch.kept[lobe] = NO_LOBE
        # no peak is twice as high as the nearest direction, which is at most 2.8 degrees away
        if (lobe_of(scratch, seed) == lobe) & (2.0 * scratch.amplitudes[seed] >= rule.peak_value):
            mean = sum_of(scratch, lobe)
            whole = scratch.sums[4 * lobe + 3]
            if whole >= rule.integral:
                peak = peak_of_lobe(half, scratch, lobe, count)
                high = maximum(scratch.amplitudes[seed], team_value(amplitude(scratch.row, everywhere(peak)), 0))
                if high >= rule.peak_value:
                    scratch.kept[lobe] = number
                    scratch.integrals[number] = whole
                    hand_out(scratch, item, lobes, number, normalised(mean), peak, high)
                    number = number + 1
    return number


@func
def spread_lobes(half: Half, scratch: LobeScratch):
    """Give each direction without a lobe the lobe of a neighbour, ring by ring; of several, the one with the greatest
    integral."""
    left = 1
    while left == 1:
        rest = lanes(0)
        for chunk in range(VERTEX_CHUNKS):
            c = 32 * chunk
            lobe_here = lobes_from(scratch, c)
            best = lobe_here
            most = lanes(-1.0)
            for pair in unrolled(NEIGHBOURS // 2):
                both = at(half.sphere.neighbours, pair * (32 * VERTEX_CHUNKS) + c)
                for side in unrolled(2):
                    lobe = (take(scratch.visits, (both >> (16 * side)) & 0xFFFF) >> LOW_BITS) - FIRST
                    size = where(lobe < NO_LOBE, take(scratch.integrals, minimum(lobe, LOBES - 1)), -1.0)
                    best = where((lobe_here == NO_LOBE) & (size > most), lobe, best)
                    most = maximum(most, size)
            put(scratch.visits, c, best | ((lobe_here + FIRST) << LOW_BITS))
            rest = where((best == NO_LOBE) & (lane() + c < half.sphere.count), 1, rest)
        left = team_any(rest == 1)
        barrier()
        for chunk in range(VERTEX_CHUNKS):
            put_lobes(scratch, 32 * chunk, at(scratch.visits, 32 * chunk) & LOW_MASK)
        barrier()


@func
def hand_out_table(item: i32, half: Half, scratch: LobeScratch, lobes: LobeSlots):
    """Write the lobe of each direction."""
    for chunk in range(VERTEX_CHUNKS):
        lobe = lobes_from(scratch, 32 * chunk)
        kept = take(scratch.kept, maximum(lobe, 0))
        put_lobes(scratch, 32 * chunk, where(lobe >= 0, kept, NO_LOBE))
    barrier()
    if DILATES:
        spread_lobes(half, scratch)
    for k in each(8 * VERTEX_CHUNKS):
        low = lobe_of(scratch, 4 * k) | (lobe_of(scratch, 4 * k + 1) << 8)
        high = lobe_of(scratch, 4 * k + 2) | (lobe_of(scratch, 4 * k + 3) << 8)
        lobes.table[8 * VERTEX_CHUNKS * item + k] = low | (high << 16)


@func
def find_lobes(item: i32, coefficients: Reals, half: Half, rule: LobeRule, scratch: LobeScratch, lobes: LobeSlots):
    """Find the lobes of a voxel, whose function has ROW_CHUNKS * 32 coefficients of ``space.harmonics.monomials``."""
    barrier()
    for chunk in unrolled(ROW_CHUNKS):
        put(scratch.row, 32 * chunk, at(coefficients, 32 * (ROW_CHUNKS * item + chunk)))
    barrier()
    sample_lobes(half, scratch)
    count = grow_lobes(half, rule, scratch, sort_positive(half, scratch))
    number = NONE
    if count <= LOBES:
        number = keep_lobes(item, half, rule, scratch, lobes, count)
        if TABLE:
            if number > 0:
                hand_out_table(item, half, scratch, lobes)
    lobes.counts[item] = number
