"""The length of streamlines in each fixel, all of them together."""

from ...linker.lang import *
from .visits import VisitSlots, fixel_of, units_of


@func
def sum_lengths(item: i32, slots: VisitSlots, lengths: Ints):
    """Add the visits of 32 streamlines to the lengths of their fixels, in units."""
    begin = slots.begin[item]
    for i in each(32 * slots.depth[item]):
        if i >> 5 < slots.visited[32 * item + (i & 31)]:
            visit = slots.words[begin + i]
            add(lengths, fixel_of(visit), units_of(visit))
