"""Lobes of an orientation function, one for each bundle of fibres in a voxel (MRtrix3's ``fod2fixel``).

The function is sampled on a dense half sphere.  Directions of positive amplitude are visited by falling amplitude.  One that
has no neighbour in a lobe begins a lobe, one whose neighbours are in one lobe joins it, and one between lobes waits until
all are visited and then joins that of the greatest peak: a watershed (Smith et al. 2013, Appendix 2).  Negative lobes are
left out: they do not touch positive ones, and nothing is made of them.
"""

from __future__ import annotations

from ...linker.lang import *
from ..interpolate import ROW_CHUNKS
from ..lanes import cross, everywhere, normalised
from .harmonics import harmonic
from .peaks import NEIGHBOURS, NONE, VERTEX_CHUNKS, Sphere, dot, vertex

LOBES = Constant("most lobes of a voxel, at most 126, so that four numbers of lobes fit a word")
MERGES = Constant("1: lobes that a high enough bridge connects are one, 0: none are")
TABLE = Constant("1: the lobe of each direction is handed out")
UNSEEN = -1  # of a direction that is not visited; one that waits for lobe k has WAITING - k
WAITING = -2
NO_LOBE = 127  # of a direction, in what is handed out
VALUES = 8  # numbers of a lobe: mean direction, integral, amplitude of the peak, direction of the peak
# of the search of a peak, in radians: how far directions are tried at first, less than from which it ends
REACH, LEAST = 0.04, 0.0002
NARROWED = 0.4  # times the reach, where the best direction is not near the rim
INNER = 12  # last lane of the pattern that is not near the rim
MOST_TURNS = 50


class Half(Record):
    """The half sphere: its directions, ``weights`` with which their sum is the integral over the sphere, and ``pattern``.

    The pattern has places in a disc of radius 1, 32 x then 32 y, by rising distance from its centre.
    """

    sphere: Sphere
    weights: Reals
    pattern: Reals

    @staticmethod
    def sizes(fill):
        return {"weights": 32 * fill["VERTEX_CHUNKS"], "pattern": 64}


class LobeRule(Record):
    """Lobes are dropped if the amplitude of their peak, or their integral, is below a threshold.

    merge_ratio : two lobes are one where the amplitude between them exceeds this part of the lower peak.
    """

    peak_value: real
    integral: real
    merge_ratio: real


class LobeScratch(Record):
    """Team memory.

    ``row``: coefficients; ``amplitudes``, ``lobes``: of each direction; ``order``: directions by falling amplitude;
    ``seeds``: direction with which a lobe begins; ``kept``: its number among those that are kept; ``integrals``: of those;
    ``sums``: of each lobe, its directions weighted by amplitude, and its integral.
    """

    row: Reals
    amplitudes: Reals
    lobes: Ints
    order: Ints
    seeds: Ints
    kept: Ints
    integrals: Reals
    sums: Reals

    @staticmethod
    def sizes(fill):
        directions, lobes = 32 * fill["VERTEX_CHUNKS"], fill["LOBES"]
        return {
            "row": 32 * fill["ROW_CHUNKS"], "amplitudes": directions, "lobes": directions, "order": directions,
            "seeds": lobes, "kept": lobes, "integrals": lobes, "sums": 4 * lobes,
        }  # fmt: skip


class Found(Record):
    """What is handed out: ``counts`` of lobes, -1 where there are more than LOBES; VALUES numbers, as bits, of each.

    Each voxel has room for ``slots`` lobes.  ``table`` has the lobe of each direction, four to a word.
    """

    counts: Ints
    values: Ints
    table: Ints
    slots: i32


@func
def sample_lobes(half: Half, scratch: LobeScratch):
    """Amplitudes in all directions; nothing is visited."""
    for chunk in range(VERTEX_CHUNKS):
        c = 32 * chunk
        x = at(half.sphere.vertices, c)
        y = at(half.sphere.vertices, c + 32 * VERTEX_CHUNKS)
        z = at(half.sphere.vertices, c + 64 * VERTEX_CHUNKS)
        value = harmonic(scratch.row, 0, x, y, z)
        put(scratch.amplitudes, c, where(lane() + c < half.sphere.count, value, 0.0))
        put(scratch.lobes, c, lanes(UNSEEN))
    barrier()


@func
def count_above(amplitudes: Reals, first: i32, count: i32, than: real) -> i32:
    """How many of ``count`` amplitudes are positive and above that of each lane."""
    above = lanes(0)
    for k in range(count):
        value = amplitudes[first + k]
        if value > 0.0:
            above = above + where(value > than, 1, 0)
    return above


@func
def sort_positive(half: Half, scratch: LobeScratch) -> i32:
    """List the directions of positive amplitude by falling amplitude, equal ones by number; return how many there are.

    The place of a direction is the number of those before it.
    """
    positive = 0
    for chunk in range(VERTEX_CHUNKS):
        c = 32 * chunk
        own = at(scratch.amplitudes, c)
        # of equal amplitudes, those of lower numbers come first: they are above the next smaller number
        place = count_above(scratch.amplitudes, 0, c, from_bits(bits(own) - 1))
        place = place + count_above(scratch.amplitudes, c + 32, 32 * VERTEX_CHUNKS - c - 32, own)
        for other in range(32):
            value = scratch.amplitudes[c + other]
            place = place + where((value > own) | ((value == own) & (other < lane())), 1, 0)
        positive = maximum(positive, i32(team_max(where(own > 0.0, real(place + 1), 0.0))))
        # the others are written to the end, which is not read
        scratch.order[where(own > 0.0, place, 32 * VERTEX_CHUNKS - 1)] = lane() + c
    barrier()
    return positive


@func
def neighbour(sphere: Sphere, i: i32, rank: i32) -> i32:
    """A neighbour of a direction."""
    both = sphere.neighbours[(rank >> 1) * (32 * VERTEX_CHUNKS) + i]
    return where(rank & 1 == 1, both >> 16, both & 0xFFFF)


@func
def join_lobe(half: Half, scratch: LobeScratch, lobe: i32, i: i32):
    """Add a direction to a lobe, or its opposite if that is on the side of the lobe's mean so far."""
    d = vertex(half.sphere, i)
    share = half.weights[i] * scratch.amplitudes[i]
    x = scratch.sums[4 * lobe]
    y = scratch.sums[4 * lobe + 1]
    z = scratch.sums[4 * lobe + 2]
    whole = scratch.sums[4 * lobe + 3] + share
    side = where(dot(d, vec3(x, y, z)) > 0.0, share, 0.0 - share)
    barrier()
    scratch.sums[4 * lobe] = x + side * d[0]
    scratch.sums[4 * lobe + 1] = y + side * d[1]
    scratch.sums[4 * lobe + 2] = z + side * d[2]
    scratch.sums[4 * lobe + 3] = whole
    scratch.lobes[i] = lobe


@func
def begin_lobe(half: Half, scratch: LobeScratch, lobe: i32, i: i32):
    """Begin a lobe with a direction."""
    d = vertex(half.sphere, i)
    share = half.weights[i] * scratch.amplitudes[i]
    barrier()
    scratch.sums[4 * lobe] = share * d[0]
    scratch.sums[4 * lobe + 1] = share * d[1]
    scratch.sums[4 * lobe + 2] = share * d[2]
    scratch.sums[4 * lobe + 3] = share
    scratch.seeds[lobe] = i
    scratch.lobes[i] = lobe


@func
def merge_into(scratch: LobeScratch, lobe: i32, other: i32):
    """Add another lobe to a lobe, and let the directions that wait for that one wait for this one."""
    p = vec3(scratch.sums[4 * lobe], scratch.sums[4 * lobe + 1], scratch.sums[4 * lobe + 2])
    q = vec3(scratch.sums[4 * other], scratch.sums[4 * other + 1], scratch.sums[4 * other + 2])
    side = where(dot(p, q) > 0.0, 1.0, -1.0)
    whole = scratch.sums[4 * lobe + 3] + scratch.sums[4 * other + 3]
    barrier()
    scratch.sums[4 * lobe] = p[0] + side * q[0]
    scratch.sums[4 * lobe + 1] = p[1] + side * q[1]
    scratch.sums[4 * lobe + 2] = p[2] + side * q[2]
    scratch.sums[4 * lobe + 3] = whole
    for chunk in range(VERTEX_CHUNKS):
        of = at(scratch.lobes, 32 * chunk)
        of = where(of == other, lobe, of)
        put(scratch.lobes, 32 * chunk, where(of == WAITING - other, WAITING - lobe, of))
    barrier()


@func
def grow_lobes(half: Half, rule: LobeRule, scratch: LobeScratch, positive: i32) -> i32:
    """Visit the directions; return how many lobes have begun, numbered by falling peaks.

    What all lanes write, each of them has read before the barrier of that step.
    """
    count = 0
    waiting = 0
    for place in range(positive):
        i = scratch.order[place]
        first = LOBES
        last = UNSEEN
        for rank in unrolled(NEIGHBOURS):
            lobe = scratch.lobes[neighbour(half.sphere, i, rank)]
            first = minimum(first, where(lobe >= 0, lobe, LOBES))
            last = maximum(last, lobe)
        if MERGES:
            if (last > first) & (scratch.amplitudes[i] > rule.merge_ratio * scratch.amplitudes[scratch.seeds[maximum(last, 0)]]):
                for rank in range(NEIGHBOURS):
                    lobe = scratch.lobes[neighbour(half.sphere, i, rank)]
                    if lobe > first:
                        merge_into(scratch, first, lobe)
                last = first
        if last < 0:
            begin_lobe(half, scratch, minimum(count, LOBES - 1), i)
            count = count + 1
        elif first == last:
            join_lobe(half, scratch, first, i)
        else:
            barrier()
            scratch.lobes[i] = WAITING - first
            scratch.order[waiting] = i
            waiting = waiting + 1
    for place in range(waiting):
        i = scratch.order[place]
        join_lobe(half, scratch, WAITING - scratch.lobes[i], i)
    barrier()
    return count


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
        best = i32(team_min(where(value >= high, real(lane()), 32.0)))
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
    found = lanes(0)
    for chunk in range(VERTEX_CHUNKS):
        c = 32 * chunk
        cosine = absolute(dot(
            vec3(
                at(half.sphere.vertices, c), at(half.sphere.vertices, c + 32 * VERTEX_CHUNKS),
                at(half.sphere.vertices, c + 64 * VERTEX_CHUNKS),
            ), here,
        ))  # fmt: skip
        found = where(cosine > best, lane() + c, found)
        best = maximum(best, cosine)
    return i32(team_min(where(best >= team_max(best), real(found), 32.0 * real(VERTEX_CHUNKS))))


@func
def peak_of_lobe(half: Half, scratch: LobeScratch, lobe: i32, count: i32) -> vec3:
    """Direction of the peak of a lobe; that with which it begins, if the function rises from there out of the lobe.

    A lobe that was merged has several peaks; the greatest, which is the first, may not end nearer to another one.
    """
    start = vertex(half.sphere, scratch.seeds[lobe])
    d = climb(scratch.row, half, start)
    inside = where(scratch.lobes[nearest_direction(half, d)] == lobe, 1, 0)
    if MERGES:
        own = absolute(dot(d, start))
        for other in range(count):
            if scratch.lobes[scratch.seeds[other]] == lobe:
                if absolute(dot(d, vertex(half.sphere, scratch.seeds[other]))) > own:
                    inside = 0
    if inside == 0:
        d = start
    return d


@func
def hand_out(scratch: LobeScratch, item: i32, found: Found, number: i32, mean: vec3, peak: vec3, high: real):
    """Write the numbers of a lobe."""
    if number < found.slots:
        place = VALUES * (found.slots * item + number)
        found.values[place] = bits(mean[0])
        found.values[place + 1] = bits(mean[1])
        found.values[place + 2] = bits(mean[2])
        found.values[place + 3] = bits(scratch.integrals[number])
        found.values[place + 4] = bits(high)
        found.values[place + 5] = bits(peak[0])
        found.values[place + 6] = bits(peak[1])
        found.values[place + 7] = bits(peak[2])


@func
def keep_lobes(item: i32, half: Half, rule: LobeRule, scratch: LobeScratch, found: Found, count: i32) -> i32:
    """Hand out the lobes that reach the thresholds, by falling peaks; return how many there are."""
    number = 0
    for lobe in range(count):
        seed = scratch.seeds[lobe]
        scratch.kept[lobe] = NO_LOBE
        # no peak is twice as high as the nearest direction, which is at most 2.5 degrees away
        if (scratch.lobes[seed] == lobe) & (2.0 * scratch.amplitudes[seed] >= rule.peak_value):
            mean = vec3(scratch.sums[4 * lobe], scratch.sums[4 * lobe + 1], scratch.sums[4 * lobe + 2])
            whole = scratch.sums[4 * lobe + 3]
            if whole >= rule.integral:
                peak = peak_of_lobe(half, scratch, lobe, count)
                high = maximum(scratch.amplitudes[seed], team_max(amplitude(scratch.row, everywhere(peak))))
                if high >= rule.peak_value:
                    scratch.kept[lobe] = number
                    scratch.integrals[number] = whole
                    hand_out(scratch, item, found, number, normalised(mean), peak, high)
                    number = number + 1
    return number


@func
def spread_lobes(half: Half, scratch: LobeScratch):
    """Give each direction that is in no lobe that of a neighbour, ring by ring; of several, that of the greatest integral."""
    left = 1.0
    while left > 0.0:
        rest = lanes(0.0)
        for chunk in range(VERTEX_CHUNKS):
            c = 32 * chunk
            own = at(scratch.lobes, c)
            best = own
            most = lanes(-1.0)
            for pair in unrolled(NEIGHBOURS // 2):
                both = at(half.sphere.neighbours, pair * (32 * VERTEX_CHUNKS) + c)
                for side in unrolled(2):
                    lobe = take(scratch.lobes, (both >> (16 * side)) & 0xFFFF)
                    size = where(lobe < NO_LOBE, take(scratch.integrals, minimum(lobe, LOBES - 1)), -1.0)
                    best = where((own == NO_LOBE) & (size > most), lobe, best)
                    most = maximum(most, size)
            put(scratch.order, c, best)
            rest = maximum(rest, where((best == NO_LOBE) & (lane() + c < half.sphere.count), 1.0, 0.0))
        left = team_max(rest)
        barrier()
        for chunk in range(VERTEX_CHUNKS):
            put(scratch.lobes, 32 * chunk, at(scratch.order, 32 * chunk))
        barrier()


@func
def hand_out_table(item: i32, half: Half, scratch: LobeScratch, found: Found):
    """Write the lobe of each direction."""
    for chunk in range(VERTEX_CHUNKS):
        lobe = at(scratch.lobes, 32 * chunk)
        kept = take(scratch.kept, maximum(lobe, 0))
        put(scratch.lobes, 32 * chunk, where(lobe >= 0, kept, NO_LOBE))
    barrier()
    spread_lobes(half, scratch)
    for k in each(8 * VERTEX_CHUNKS):
        low = scratch.lobes[4 * k] | (scratch.lobes[4 * k + 1] << 8)
        high = scratch.lobes[4 * k + 2] | (scratch.lobes[4 * k + 3] << 8)
        found.table[8 * VERTEX_CHUNKS * item + k] = low | (high << 16)


@func
def find_lobes(item: i32, coefficients: Reals, half: Half, rule: LobeRule, scratch: LobeScratch, found: Found):
    """Find the lobes of a voxel, whose function has ROW_CHUNKS * 32 coefficients of ``polynomials.monomials``."""
    barrier()
    for chunk in unrolled(ROW_CHUNKS):
        put(scratch.row, 32 * chunk, at(coefficients, 32 * (ROW_CHUNKS * item + chunk)))
    barrier()
    sample_lobes(half, scratch)
    count = grow_lobes(half, rule, scratch, sort_positive(half, scratch))
    number = NONE
    if count <= LOBES:
        number = keep_lobes(item, half, rule, scratch, found, count)
        if TABLE:
            if number > 0:
                hand_out_table(item, half, scratch, found)
    found.counts[item] = number
