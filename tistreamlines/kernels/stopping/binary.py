"""Stop outside a mask (DIPY's ``BinaryStoppingCriterion``)."""

from __future__ import annotations

from ...linker.lang import *
from ..interpolate import STOP_CHANNEL, Volume, row_start
from ..stop_reasons import Stop

GROWING, VALID_END = int(Stop.GROWING), int(Stop.VALID_END)


class Binary(Record):
    """Streamlines go on where the map of the nearest voxel is above 0."""


@func
def classify(
    stopping: Binary, volume: Volume, p: vec3, row: Reals, c0: u32, c1: u32, c2: u32, key: Ints
) -> i32:
    """Stop reason at a point inside the image, or GROWING."""
    nearest = row_start(volume, i32(floor(p[0] + 0.5)), i32(floor(p[1] + 0.5)), i32(floor(p[2] + 0.5)))
    reason = VALID_END
    if volume.rows[nearest + STOP_CHANNEL] > 0.0:
        reason = GROWING
    return reason
