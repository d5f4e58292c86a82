"""Why a half-streamline ended, and whether its streamline keeps the point where it ended.

A stopping rule answers with any of these reasons.  A new reason is a member of ``Stop``, a line in ``KEEPS_LAST_POINT`` and
one in ``LABELS`` of :mod:`..tracking.growth.statistics`.
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
    OUTSIDE_LIMIT = 7
    REJECTED = 8
    ALL_INCLUDED = 9
    NOT_GROWN = 10
    ENTERED_CORTEX = 11
    LEFT_SUBCORTEX = 12
    IN_SUBCORTEX = 13


KEEPS_LAST_POINT = {
    Stop.GROWING: True,
    Stop.END_POINT: False,  # DIPY's local_tracker returns the points before the one that ended it
    Stop.OUTSIDE_IMAGE: False,
    Stop.NO_DIRECTION: True,  # the last point was accepted; no step was taken from it
    Stop.MAX_LENGTH: True,
    Stop.VALID_END: False,
    Stop.INVALID_END: False,
    Stop.OUTSIDE_LIMIT: False,  # as MRtrix3's -mask
    Stop.REJECTED: False,
    Stop.ALL_INCLUDED: True,
    Stop.NOT_GROWN: True,
    Stop.ENTERED_CORTEX: True,  # as MRtrix3's ENTER_CGM
    Stop.LEFT_SUBCORTEX: False,
    Stop.IN_SUBCORTEX: True,
}
# ends of streamlines that DIPY keeps if not return_all, and those that the user has asked for
VALID = (
    Stop.END_POINT, Stop.VALID_END, Stop.OUTSIDE_IMAGE, Stop.OUTSIDE_LIMIT, Stop.ALL_INCLUDED, Stop.NOT_GROWN,
    Stop.ENTERED_CORTEX, Stop.LEFT_SUBCORTEX, Stop.IN_SUBCORTEX,
)
KEPT = sum(1 << reason for reason, keeps in KEEPS_LAST_POINT.items() if keeps)  # the same, one bit a reason, for kernels
# DIPY's particle filtering keeps the points where the stopping rule ends a streamline
KEPT_ENDS = 1 << Stop.VALID_END | 1 << Stop.INVALID_END
