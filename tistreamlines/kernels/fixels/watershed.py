"""A watershed of an orientation function: each of its lobes is one bundle of fibres in a voxel (Smith et al. 2013).

The function is sampled on a dense half sphere.  Directions of positive amplitude are visited by falling amplitude.  A
direction without a neighbour in a lobe begins a lobe. If all its neighbours are in one lobe, it joins that. One between
lobes waits until all are visited and then joins that of the greatest peak, as in MRtrix3's ``fod2fixel``.  Negative
lobes are left out: they do not change positive ones, and nothing is made of them.
"""

from ...linker.lang import *
from ..orientation.amplitudes import harmonic
from ..orientation.peaks import NEIGHBOURS, VERTEX_CHUNKS, Sphere, dot, vertex, vertices_from

LOBES = Constant("most lobes of a voxel, at most 126, so that four numbers of lobes fit a word")
MERGES = Constant("1: lobes that a high enough bridge connects are one, 0: none are")
UNSEEN = -1  # of a direction that is not visited; one that waits for lobe k has WAITING - k
WAITING = -2
# of a word of ``visits``, to save shared memory: a direction in the lower bits, and a lobe plus FIRST in the others
LOW_BITS = 11
LOW_MASK = (1 << LOW_BITS) - 1
FIRST = 128


class Half(Record):
    """The half sphere: its directions, ``weights`` with which their sum is the integral over the sphere, and ``pattern``.

    The pattern has places in a disc of radius 1, 32 x then 32 y, by rising distance from its centre.
    """

    sphere: Sphere
    weights: Reals
    pattern: Reals

    @staticmethod
    def sizes(search):
        return {"weights": 32 * search.ball.vertex_chunks, "pattern": 64}


class LobeRule(Record):
    """Lobes are dropped if the amplitude of their peak, or their integral, is below a threshold.

    merge_ratio : two lobes are one where the amplitude between them exceeds this part of the lower peak.
    """

    peak_value: real
    integral: real
    merge_ratio: real


class LobeScratch(Record):
    """Team memory.

    ``row``: coefficients; ``amplitudes``: of each direction; ``visits``: the lobe of each direction, and beside it, in their
    order, the directions by falling amplitude;
    ``seeds``: direction with which a lobe begins; ``kept``: its number among those that are kept; ``integrals``: of those;
    ``sums``: of each lobe, its directions weighted by amplitude, and its integral.
    """

    row: Reals
    amplitudes: Reals
    visits: Ints
    seeds: Ints
    kept: Ints
    integrals: Reals
    sums: Reals

    @staticmethod
    def sizes(search):
        directions, lobes = 32 * search.ball.vertex_chunks, search.lobes
        return {
            "row": 32 * search.row_chunks, "amplitudes": directions, "visits": directions,
            "seeds": lobes, "kept": lobes, "integrals": lobes, "sums": 4 * lobes,
        }


@func
def lobe_of(scratch: LobeScratch, i: i32) -> i32:
    """The lobe of a direction."""
    return (scratch.visits[i] >> LOW_BITS) - FIRST


@func
def set_lobe(scratch: LobeScratch, i: i32, lobe: i32):
    """Put a direction in a lobe."""
    scratch.visits[i] = (scratch.visits[i] & LOW_MASK) | ((lobe + FIRST) << LOW_BITS)


@func
def lobes_from(scratch: LobeScratch, c: i32) -> i32:
    """The lobes of 32 directions, from number ``c`` on."""
    return (at(scratch.visits, c) >> LOW_BITS) - FIRST


@func
def put_lobes(scratch: LobeScratch, c: i32, lobes: i32):
    """Put 32 directions, from number ``c`` on, in lobes."""
    put(scratch.visits, c, (at(scratch.visits, c) & LOW_MASK) | ((lobes + FIRST) << LOW_BITS))


@func
def sample_lobes(half: Half, scratch: LobeScratch):
    """Amplitudes in all directions; nothing is visited."""
    for chunk in range(VERTEX_CHUNKS):
        c = 32 * chunk
        d = vertices_from(half.sphere, c)
        value = harmonic(scratch.row, 0, d[0], d[1], d[2])
        put(scratch.amplitudes, c, where(lane() + c < half.sphere.count, value, 0.0))
        put(scratch.visits, c, lanes((UNSEEN + FIRST) << LOW_BITS))
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

    The place of a direction is the number of those before it.  As in MRtrix3, there are none where the greatest size is that
    of a negative amplitude.
    """
    positive = 0
    highest = lanes(0.0)
    lowest = lanes(0.0)
    for chunk in range(VERTEX_CHUNKS):
        c = 32 * chunk
        amplitude = at(scratch.amplitudes, c)
        highest = maximum(highest, amplitude)
        lowest = minimum(lowest, amplitude)
        # of equal amplitudes, those of lower numbers come first: they are above the next smaller number
        place = count_above(scratch.amplitudes, 0, c, from_bits(bits(amplitude) - 1))
        place = place + count_above(scratch.amplitudes, c + 32, 32 * VERTEX_CHUNKS - c - 32, amplitude)
        for other in range(32):
            value = scratch.amplitudes[c + other]
            place = place + where((value > amplitude) | ((value == amplitude) & (other < lane())), 1, 0)
        positive = maximum(positive, i32(team_max(where(amplitude > 0.0, real(place + 1), 0.0))))
        # the others are written to the end, which is not read
        scratch.visits[where(amplitude > 0.0, place, 32 * VERTEX_CHUNKS - 1)] = (lane() + c) | ((UNSEEN + FIRST) << LOW_BITS)
    barrier()
    return where(team_max(highest) < team_max(0.0 - lowest), 0, positive)


@func
def neighbour(sphere: Sphere, i: i32, rank: i32) -> i32:
    """A neighbour of a direction."""
    both = sphere.neighbours[(rank >> 1) * (32 * VERTEX_CHUNKS) + i]
    return where(rank & 1 == 1, both >> 16, both & 0xFFFF)


@func
def sum_of(scratch: LobeScratch, lobe: i32) -> vec3:
    """The directions of a lobe, weighted by amplitude."""
    return vec3(scratch.sums[4 * lobe], scratch.sums[4 * lobe + 1], scratch.sums[4 * lobe + 2])


@func
def put_sum(scratch: LobeScratch, lobe: i32, v: vec3, integral: real):
    """Write the sum of a lobe's directions, and its integral."""
    barrier()
    scratch.sums[4 * lobe] = v[0]
    scratch.sums[4 * lobe + 1] = v[1]
    scratch.sums[4 * lobe + 2] = v[2]
    scratch.sums[4 * lobe + 3] = integral


@func
def join_lobe(half: Half, scratch: LobeScratch, lobe: i32, i: i32):
    """Add a direction to a lobe, or its opposite if that is on the side of the lobe's mean so far."""
    d = vertex(half.sphere, i)
    share = half.weights[i] * scratch.amplitudes[i]
    p = sum_of(scratch, lobe)
    side = where(dot(d, p) > 0.0, share, 0.0 - share)
    whole = scratch.sums[4 * lobe + 3] + share
    put_sum(scratch, lobe, vec3(p[0] + side * d[0], p[1] + side * d[1], p[2] + side * d[2]), whole)
    set_lobe(scratch, i, lobe)


@func
def begin_lobe(half: Half, scratch: LobeScratch, lobe: i32, i: i32):
    """Begin a lobe with a direction."""
    d = vertex(half.sphere, i)
    share = half.weights[i] * scratch.amplitudes[i]
    put_sum(scratch, lobe, vec3(share * d[0], share * d[1], share * d[2]), share)
    scratch.seeds[lobe] = i
    set_lobe(scratch, i, lobe)


@func
def merge_into(scratch: LobeScratch, lobe: i32, other: i32):
    """Add another lobe to a lobe, and let the directions that wait for that one wait for this one."""
    p = sum_of(scratch, lobe)
    q = sum_of(scratch, other)
    side = where(dot(p, q) > 0.0, 1.0, -1.0)
    whole = scratch.sums[4 * lobe + 3] + scratch.sums[4 * other + 3]
    put_sum(scratch, lobe, vec3(p[0] + side * q[0], p[1] + side * q[1], p[2] + side * q[2]), whole)
    for chunk in range(VERTEX_CHUNKS):
        of = lobes_from(scratch, 32 * chunk)
        of = where(of == other, lobe, of)
        put_lobes(scratch, 32 * chunk, where(of == WAITING - other, WAITING - lobe, of))
    barrier()


@func
def grow_lobes(half: Half, rule: LobeRule, scratch: LobeScratch, positive: i32) -> i32:
    """Visit the directions; return how many lobes have begun, numbered by falling peaks.

    Each lane has read the values that all lanes write before the barrier of that step.
    """
    count = 0
    waiting = 0
    for place in range(positive):
        i = scratch.visits[place] & LOW_MASK
        first = LOBES
        last = UNSEEN
        for rank in unrolled(NEIGHBOURS):
            lobe = lobe_of(scratch, neighbour(half.sphere, i, rank))
            first = minimum(first, where(lobe >= 0, lobe, LOBES))
            last = maximum(last, lobe)
        if MERGES:
            if (last > first) & (scratch.amplitudes[i] > rule.merge_ratio * scratch.amplitudes[scratch.seeds[maximum(last, 0)]]):
                for rank in range(NEIGHBOURS):
                    lobe = lobe_of(scratch, neighbour(half.sphere, i, rank))
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
            set_lobe(scratch, i, WAITING - first)
            # over a direction that was visited
            scratch.visits[waiting] = (scratch.visits[waiting] & ~LOW_MASK) | i
            waiting = waiting + 1
    for place in range(waiting):
        i = scratch.visits[place] & LOW_MASK
        join_lobe(half, scratch, WAITING - lobe_of(scratch, i), i)
    barrier()
    return count
