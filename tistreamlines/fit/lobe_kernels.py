"""The search of :mod:`..kernels.fixels.lobes` for the CPU: it sorts directions by digits, and spreads lobes from queues.

The bits are the same. The kernel of GPUs compares each amplitude with all others, and looks at all directions again for
each ring. For 34,220 voxels, this one takes 1.0 s of a CPU, and that of GPUs takes 7.1 s.
"""

from ..kernels.fixels.lobes import DILATES, NO_LOBE, TABLE, LobeSlots, keep_lobes
from ..kernels.fixels.watershed import (
    FIRST,
    LOBES,
    LOW_BITS,
    LOW_MASK,
    UNSEEN,
    Half,
    LobeRule,
    LobeScratch,
    grow_lobes,
    lobe_of,
    lobes_from,
    neighbour,
    put_lobes,
    sample_lobes,
    set_lobe,
)
from ..kernels.interpolate import ROW_CHUNKS
from ..kernels.orientation.peaks import NEIGHBOURS, NONE, VERTEX_CHUNKS
from ..linker.lang import *

DIGITS = 4  # of an amplitude, whose bits rise with it
BASE = 256  # of the digits
QUEUED = 126  # lobe of a direction that the next ring reaches; no voxel has so many


class SortScratch(LobeScratch):
    """Team memory.

    ``order`` has two lists of directions: before and after they are sorted by a digit, or those of a ring and of the
    next one. ``places`` has a number for each value of each digit: how many directions have it, and then the place in
    the list for the next direction that has it.
    """

    order: Ints
    places: Ints

    @staticmethod
    def sizes(search):
        order = 2 * 32 * search.ball.vertex_chunks
        return LobeScratch.sizes(search) | {"order": order, "places": DIGITS * BASE}


@func
def value_of(amplitude: real, digit: i32) -> i32:
    """A digit of a positive amplitude, the lowest one first; it falls as amplitudes rise."""
    return BASE - 1 - ((bits(amplitude) >> (8 * digit)) & (BASE - 1))


@func
def list_positive(scratch: SortScratch) -> i32:
    """List the directions of positive amplitude by number and count the values of digits; return how many there are."""
    for k in each(DIGITS * BASE):
        scratch.places[k] = 0
    positive = 0
    lowest = 0.0
    highest = 0.0
    for i in range(32 * VERTEX_CHUNKS):
        amplitude = scratch.amplitudes[i]
        lowest = minimum(lowest, amplitude)
        if amplitude > 0.0:
            highest = maximum(highest, amplitude)
            scratch.order[positive] = i
            positive = positive + 1
            for digit in unrolled(DIGITS):
                place = BASE * digit + value_of(amplitude, digit)
                scratch.places[place] = scratch.places[place] + 1
    return where(highest < 0.0 - lowest, 0, positive)


@func
def sort_by_digit(scratch: SortScratch, positive: i32, digit: i32):
    """Sort the directions by a digit; those of equal ones stay in their order."""
    total = 0
    for value in range(BASE):
        count = scratch.places[BASE * digit + value]
        scratch.places[BASE * digit + value] = total
        total = total + count
    before = 32 * VERTEX_CHUNKS * (digit & 1)
    after = 32 * VERTEX_CHUNKS - before
    for k in range(positive):
        i = scratch.order[before + k]
        place = BASE * digit + value_of(scratch.amplitudes[i], digit)
        scratch.order[after + scratch.places[place]] = i
        scratch.places[place] = scratch.places[place] + 1


@func
def best_lobe(half: Half, scratch: SortScratch, i: i32) -> i32:
    """The lobe with the greatest integral next to a direction, NO_LOBE if there is none."""
    best = NO_LOBE
    most = -1.0
    for rank in unrolled(NEIGHBOURS):
        lobe = lobe_of(scratch, neighbour(half.sphere, i, rank))
        size = where(lobe < QUEUED, scratch.integrals[minimum(lobe, LOBES - 1)], -1.0)
        best = where(size > most, lobe, best)
        most = maximum(most, size)
    return best


@func
def spread_lobes(half: Half, scratch: SortScratch):
    """Give each direction without a lobe the lobe of a neighbour, ring by ring, as the kernel of GPUs does."""
    count = 0
    for i in range(half.sphere.count):
        if lobe_of(scratch, i) == NO_LOBE:
            least = NO_LOBE
            for rank in unrolled(NEIGHBOURS):
                least = minimum(least, lobe_of(scratch, neighbour(half.sphere, i, rank)))
            if least < QUEUED:
                scratch.order[count] = i
                count = count + 1
                set_lobe(scratch, i, QUEUED)
    here = 0
    while count > 0:
        for k in range(count):
            i = scratch.order[here + k]
            scratch.visits[i] = (scratch.visits[i] & ~LOW_MASK) | best_lobe(half, scratch, i)
        for k in range(count):
            i = scratch.order[here + k]
            set_lobe(scratch, i, scratch.visits[i] & LOW_MASK)
        there = 32 * VERTEX_CHUNKS - here
        reached = 0
        for k in range(count):
            i = scratch.order[here + k]
            for rank in unrolled(NEIGHBOURS):
                j = neighbour(half.sphere, i, rank)
                if lobe_of(scratch, j) == NO_LOBE:
                    scratch.order[there + reached] = j
                    reached = reached + 1
                    set_lobe(scratch, j, QUEUED)
        here = there
        count = reached


@func
def hand_out_table(item: i32, half: Half, scratch: SortScratch, lobes: LobeSlots):
    """Write the lobe of each direction."""
    for chunk in range(VERTEX_CHUNKS):
        lobe = lobes_from(scratch, 32 * chunk)
        put_lobes(scratch, 32 * chunk, where(lobe >= 0, take(scratch.kept, maximum(lobe, 0)), NO_LOBE))
    if DILATES:
        spread_lobes(half, scratch)
    for k in range(8 * VERTEX_CHUNKS):
        low = lobe_of(scratch, 4 * k) | (lobe_of(scratch, 4 * k + 1) << 8)
        high = lobe_of(scratch, 4 * k + 2) | (lobe_of(scratch, 4 * k + 3) << 8)
        lobes.table[8 * VERTEX_CHUNKS * item + k] = low | (high << 16)


@func
def find_lobes(item: i32, coefficients: Reals, half: Half, rule: LobeRule, scratch: SortScratch, lobes: LobeSlots):
    """Find the lobes of a voxel, as the kernel of that name of :mod:`..kernels.fixels.lobes`."""
    for chunk in unrolled(ROW_CHUNKS):
        put(scratch.row, 32 * chunk, at(coefficients, 32 * (ROW_CHUNKS * item + chunk)))
    sample_lobes(half, scratch)
    positive = list_positive(scratch)
    for digit in range(DIGITS):
        sort_by_digit(scratch, positive, digit)
    for k in range(positive):
        scratch.visits[k] = scratch.order[k] | ((UNSEEN + FIRST) << LOW_BITS)
    count = grow_lobes(half, rule, scratch, positive)
    number = NONE
    if count <= LOBES:
        number = keep_lobes(item, half, rule, scratch, lobes, count)
        if TABLE:
            if number > 0:
                hand_out_table(item, half, scratch, lobes)
    lobes.counts[item] = number
