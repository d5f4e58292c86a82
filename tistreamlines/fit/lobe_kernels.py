"""The search of :mod:`..kernels.fixels.lobes` for the CPU, which sorts directions by the digits of their amplitudes.

The result is the same. A CPU counts digits one after another in a tenth of the time in which it compares all amplitudes
with all others, as GPUs do.
"""

from ..kernels.fixels.lobes import TABLE, LobeSlots, hand_out_table, keep_lobes
from ..kernels.fixels.watershed import (
    FIRST,
    LOBES,
    LOW_BITS,
    UNSEEN,
    Half,
    LobeRule,
    LobeScratch,
    grow_lobes,
    sample_lobes,
)
from ..kernels.interpolate import ROW_CHUNKS
from ..kernels.orientation.peaks import NONE, VERTEX_CHUNKS
from ..linker.lang import *

DIGITS = 4  # of an amplitude, whose bits rise with it
BASE = 256  # of the digits


class SortScratch(LobeScratch):
    """Team memory.

    ``order``: directions in their order before and after a digit; ``places``: of each digit, how many directions have each
    value, then where the next one of these goes.
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
