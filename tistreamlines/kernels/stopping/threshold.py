"""Stop where an interpolated scalar map is not above a threshold (DIPY's ``ThresholdStoppingCriterion``)."""

from __future__ import annotations

from ...linker.lang import *
from ..interpolate import STOP_CHANNEL, Volume
from ..stop_reasons import Stop

GROWING = int(Stop.GROWING)
END_POINT = int(Stop.END_POINT)


class Threshold(Record):
    """Streamlines go on where the map is above ``threshold``."""

    threshold: real


@func
def classify(stopping: Threshold, volume: Volume, p: vec3, row: Reals, c0: u32, c1: u32, c2: u32, key: Ints) -> i32:
    """Stop reason at the point whose interpolated row is given, or GROWING."""
    reason = END_POINT
    if row[STOP_CHANNEL] > stopping.threshold:
        reason = GROWING
    return reason
