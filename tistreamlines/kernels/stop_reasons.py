"""Why a half-streamline ended, and whether a streamline that has grown is accepted, or else why it is dropped.

A stopping rule answers with any of the reasons to stop.  A new reason is a member of ``Stop`` or of ``Verdict``; kernels know
them by the numbers at the end.
"""

from __future__ import annotations

from enum import IntEnum


class Stop(IntEnum):
    """State of a half-streamline; every member but GROWING is a reason to stop.

    ``text`` has its words. ``keeps_last_point`` tells whether the streamline keeps the point where it ended, and
    ``valid`` whether this is the end of a streamline that DIPY keeps if not ``return_all``, or that options want.
    Reasons are those of DIPY's ``StreamlineStatus`` and of MRtrix3's ``tckgen``.

    Examples
    --------
    >>> import tistreamlines as ts
    >>> ts.Stop(2).text
    'left the image'
    >>> ts.Stop.NO_DIRECTION.keeps_last_point, ts.Stop.NO_DIRECTION.valid
    (True, False)
    """

    text: str
    keeps_last_point: bool
    valid: bool

    def __new__(cls, number: int, text: str, keeps_last_point: bool, valid: bool) -> Stop:
        """Return a member."""
        member = int.__new__(cls, number)
        member._value_, member.text, member.keeps_last_point, member.valid = number, text, keeps_last_point, valid
        return member

    GROWING = 0, "still growing", True, False
    # DIPY's local_tracker returns the points before the one that ended it
    END_POINT = 1, "stop map at or below its threshold", False, True
    OUTSIDE_IMAGE = 2, "left the image", False, True
    # the last point was accepted; no step was taken from it
    NO_DIRECTION = 3, "no direction within the angle", True, False
    MAX_LENGTH = 4, "maximum number of steps", True, False
    VALID_END = 5, "the stopping rule found a valid end", False, True
    INVALID_END = 6, "the stopping rule found an invalid end", False, False
    OUTSIDE_LIMIT = 7, "left the limit mask", False, True  # as MRtrix3's -mask
    REJECTED = 8, "rejected by a region", False, False
    ALL_INCLUDED = 9, "all include regions were visited", True, True
    NOT_GROWN = 10, "not grown: one-way tracking, or after an invalid end", True, True
    ENTERED_CORTEX = 11, "entered cortical grey matter", True, True  # as MRtrix3's ENTER_CGM
    LEFT_SUBCORTEX = 12, "left subcortical grey matter", False, True
    IN_SUBCORTEX = 13, "no direction in subcortical grey matter", True, True


class Verdict(IntEnum):
    """Reasons to drop a streamline, of which the lowest one that holds counts; the greatest number is no reason.

    The first three end a streamline early.  NO_STEP, TOO_LONG and INVALID_ENDS may keep its backward half from growing, or
    end it early.  In both cases its length is not known, so they come before TOO_SHORT.  ``text`` has the words.
    """

    text: str

    def __new__(cls, number: int, text: str) -> Verdict:
        """Return a member."""
        member = int.__new__(cls, number)
        member._value_, member.text = number, text
        return member

    EXCLUDED = 0, "a point in an exclude region"
    OUT_OF_TURN = 1, "an ordered region entered out of turn"
    SEED_OUTSIDE_LIMIT = 2, "a seed outside the limit mask"
    NO_STEP = 3, "no step from the seed"
    TOO_LONG = 4, "longer than the maximum length"
    INVALID_ENDS = 5, "an end that is not valid"
    TOO_SHORT = 6, "shorter than the minimum length"
    MISSED_INCLUDE = 7, "an include region not visited"
    ENDS_ELSEWHERE = 8, "no end in the end regions"
    ACCEPTED = 9, "accepted"


VALID = tuple(reason for reason in Stop if reason.valid)
KEPT = sum(1 << reason for reason in Stop if reason.keeps_last_point)  # one bit a reason, for kernels
KEPT_ENDS = 1 << Stop.VALID_END | 1 << Stop.INVALID_END  # DIPY's particle filtering keeps the points of these, too
DROPPED = tuple(Verdict)[:-1]
LAST_EARLY = Verdict.SEED_OUTSIDE_LIMIT
(
    GROWING, END_POINT, OUTSIDE_IMAGE, NO_DIRECTION, MAX_LENGTH, VALID_END, INVALID_END, OUTSIDE_LIMIT, REJECTED,
    ALL_INCLUDED, NOT_GROWN, ENTERED_CORTEX, LEFT_SUBCORTEX, IN_SUBCORTEX,
) = map(int, Stop)
(
    EXCLUDED, OUT_OF_TURN, SEED_OUTSIDE_LIMIT, NO_STEP, TOO_LONG, INVALID_ENDS, TOO_SHORT, MISSED_INCLUDE,
    ENDS_ELSEWHERE, ACCEPTED,
) = map(int, Verdict)
