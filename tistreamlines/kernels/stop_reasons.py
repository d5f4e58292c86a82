"""Why a half-streamline ended, and whether its streamline keeps the point where it ended.

A stopping rule answers with any of these reasons.  A new reason is a member of ``Stop`` and a line in both tables.
"""

from __future__ import annotations

from enum import IntEnum


class Stop(IntEnum):
    """State of a half-streamline; every member but GROWING is a reason to stop."""

    GROWING = 0
    END_POINT = 1
    OUTSIDE_IMAGE = 2
    NO_DIRECTION = 3
    MAX_LENGTH = 4
    VALID_END = 5
    INVALID_END = 6


KEEPS_LAST_POINT = {
    Stop.GROWING: True,
    Stop.END_POINT: False,  # DIPY's local_tracker returns the points before the one that ended it
    Stop.OUTSIDE_IMAGE: False,
    Stop.NO_DIRECTION: True,  # the last point was accepted; no step was taken from it
    Stop.MAX_LENGTH: True,
    Stop.VALID_END: False,
    Stop.INVALID_END: False,
}
VALID = (Stop.END_POINT, Stop.VALID_END, Stop.OUTSIDE_IMAGE)  # ends of streamlines that DIPY keeps if not return_all
KEPT = sum(1 << reason for reason, keeps in KEEPS_LAST_POINT.items() if keeps)  # the same, one bit a reason, for kernels
# DIPY's particle filtering keeps the points where the stopping rule ends a streamline
KEPT_ENDS = 1 << Stop.VALID_END | 1 << Stop.INVALID_END

LABELS = {
    Stop.GROWING: "still growing",
    Stop.END_POINT: "stop map at or below its threshold",
    Stop.OUTSIDE_IMAGE: "left the image",
    Stop.NO_DIRECTION: "no direction within the angle",
    Stop.MAX_LENGTH: "maximum number of steps",
    Stop.VALID_END: "the stopping rule found a valid end",
    Stop.INVALID_END: "the stopping rule found an invalid end",
}
