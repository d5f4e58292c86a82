"""Why a streamline ended, and whether the point at which it ended is kept."""

from __future__ import annotations

from enum import IntEnum


class Stop(IntEnum):
    """State of one half of a streamline; everything but GROWING is a reason to stop."""

    GROWING = 0
    END_POINT = 1
    OUTSIDE_IMAGE = 2
    NO_DIRECTION = 3
    MAX_LENGTH = 4


KEEPS_LAST_POINT = {
    Stop.GROWING: True,
    Stop.END_POINT: False,  # DIPY's local_tracker returns the points before the one that ended it
    Stop.OUTSIDE_IMAGE: False,
    Stop.NO_DIRECTION: True,  # the last point was accepted; no step was taken from it
    Stop.MAX_LENGTH: True,
}

LABELS = {
    Stop.GROWING: "still growing",
    Stop.END_POINT: "stop map at or below its threshold",
    Stop.OUTSIDE_IMAGE: "left the image",
    Stop.NO_DIRECTION: "no direction within the angle",
    Stop.MAX_LENGTH: "maximum number of steps",
}
