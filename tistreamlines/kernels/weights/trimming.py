"""Visits without the room that nothing has used."""

from ...linker.lang import *
from .visits import VisitSlots


@func
def trim_visits(item: i32, slots: VisitSlots, begin: Ints, depth: Ints, visits: Ints):
    """Copy the visits of a team, the first ``depth`` of each lane, to ``begin``; words behind a lane's last one become 0."""
    first = slots.begin[item]
    place = begin[item]
    for i in each(32 * depth[item]):
        visits[place + i] = where(i >> 5 < slots.visited[32 * item + (i & 31)], slots.words[first + i], 0)
