"""Dead ends: points where a getter finds no direction are dropped, as in DIPY's PTT.

So an end at such a point that has another reason counts only if a direction is found there.
"""

from __future__ import annotations

from ...linker.lang import *
from ..growth import MAX_LENGTH, TRUNCATES
from ..halves import *
from ..orientation.peaks import NONE
from ..stop_reasons import Stop

ALL_INCLUDED = int(Stop.ALL_INCLUDED)


@stage
def drop_last_point(walk: Walk, bits: Bits, half: i32, halves: Halves):
    """Drop the last point; a forward half that has none left but its seed has no first step."""
    if walk.taken > 0:
        bits.here = bits.before
        bits.stays = 0
    walk.taken = maximum(walk.taken - 1, 0)
    if TAKES_BACK:
        if (walk.taken == 0) & (walk.aside == 0) & ((half & 1) == 0):
            halves.first[half >> 1] = NONE


@stage
def put_off(walk: Walk, rules: Rules):
    """Put an end off that is not due to the stopping rule."""
    if TRUNCATES | HAS_BITS:
        early = (walk.status == MAX_LENGTH) & (walk.taken > 0) & (walk.taken < rules.max_steps)
        if early | (walk.status == ALL_INCLUDED):
            walk.due = walk.status
            walk.status = GROWING


@stage
def end_in_time(walk: Walk):
    """End a half for the reason that was put off, now that a direction is found."""
    if TRUNCATES | HAS_BITS:
        if (walk.due != GROWING) & (walk.choice >= 0):
            walk.status = walk.due
            walk.goes_on = 0
            walk.choice = NONE
