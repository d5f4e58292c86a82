"""Whether a streamline that has grown is accepted, and else why it is dropped.

A new reason is a member of ``Verdict`` and a line in ``DROPPED`` of :mod:`..tracking.growth.statistics`.
"""

from __future__ import annotations

from enum import IntEnum


class Verdict(IntEnum):
    """Reasons to drop a streamline, of which the lowest one that holds counts; the greatest number is no reason.

    The first three end a streamline early.  NO_STEP, TOO_LONG and INVALID_ENDS may keep its backward half from growing, or
    end it early.  In both cases its length is not known, so they come before TOO_SHORT.
    """

    EXCLUDED = 0
    OUT_OF_TURN = 1
    SEED_OUTSIDE_LIMIT = 2
    NO_STEP = 3
    TOO_LONG = 4
    INVALID_ENDS = 5
    TOO_SHORT = 6
    MISSED_INCLUDE = 7
    ENDS_ELSEWHERE = 8
    ACCEPTED = 9


LAST_EARLY = Verdict.SEED_OUTSIDE_LIMIT
