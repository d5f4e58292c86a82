"""A stopping rule for the tests, of two maps and a random draw; ``toys`` has its host side and its row."""

from __future__ import annotations

from tistreamlines.kernels.interpolate import STOP_CHANNEL, Volume
from tistreamlines.kernels.stop_reasons import Stop
from tistreamlines.linker.lang import *
from tistreamlines.linker.rng import STOPPING, STREAM, philox, uniform

GROWING, END_POINT, MAX_LENGTH = int(Stop.GROWING), int(Stop.END_POINT), int(Stop.MAX_LENGTH)


class Fading(Record):
    """Streamlines end where the first map is not above ``threshold``; elsewhere the second map is a chance to end."""

    threshold: real


@func
def classify(stopping: Fading, volume: Volume, p: vec3, row: Reals, c0: u32, c1: u32, c2: u32, key: Ints) -> i32:
    """Stop reason at the point whose interpolated row is given, or GROWING; a streamline that fades keeps its point."""
    w = philox(c0, c1, c2, u32(STOPPING << STREAM), u32(key[0]), u32(key[1]))
    reason = GROWING
    if uniform(w[0]) < row[STOP_CHANNEL + 1]:
        reason = MAX_LENGTH
    if row[STOP_CHANNEL] <= stopping.threshold:
        reason = END_POINT
    return reason
