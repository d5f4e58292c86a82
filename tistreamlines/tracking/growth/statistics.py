"""Counts and times of a run of the engine."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from ...aliases import Array
from ...kernels.stop_reasons import Stop
from ...kernels.verdicts import Verdict

STAGES = ("compile", "track", "kernels", "start", "grow", "pack", "unpack")
LABELS = {
    Stop.GROWING: "still growing",
    Stop.END_POINT: "stop map at or below its threshold",
    Stop.OUTSIDE_IMAGE: "left the image",
    Stop.NO_DIRECTION: "no direction within the angle",
    Stop.MAX_LENGTH: "maximum number of steps",
    Stop.VALID_END: "the stopping rule found a valid end",
    Stop.INVALID_END: "the stopping rule found an invalid end",
    Stop.OUTSIDE_LIMIT: "left the limit mask",
    Stop.REJECTED: "rejected by a region",
    Stop.ALL_INCLUDED: "all include regions were visited",
    Stop.NOT_GROWN: "not grown: one-way tracking, or after an invalid end",
    Stop.ENTERED_CORTEX: "entered cortical grey matter",
    Stop.LEFT_SUBCORTEX: "left subcortical grey matter",
    Stop.IN_SUBCORTEX: "no direction in subcortical grey matter",
}
DROPPED = {
    Verdict.EXCLUDED: "a point in an exclude region",
    Verdict.OUT_OF_TURN: "an ordered region entered out of turn",
    Verdict.SEED_OUTSIDE_LIMIT: "a seed outside the limit mask",
    Verdict.NO_STEP: "no step from the seed",
    Verdict.TOO_LONG: "longer than the maximum length",
    Verdict.INVALID_ENDS: "an end that is not valid",
    Verdict.TOO_SHORT: "shorter than the minimum length",
    Verdict.MISSED_INCLUDE: "an include region not visited",
    Verdict.ENDS_ELSEWHERE: "no end in the end regions",
}


@dataclass
class Statistics:
    """Counts of a run.

    Parameters
    ----------
    seconds : by stage.
    counts : seeds, half-streamlines by stop reason and streamlines by verdict, all of them, one after the other.
    streamlines, points : accepted ones that have come back.
    copied_bytes : from the device.
    """

    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    counts: Array = field(default_factory=lambda: np.zeros(1 + len(Stop) + len(Verdict), np.int64))
    streamlines: int = 0
    points: int = 0
    copied_bytes: int = 0

    @property
    def seeds(self) -> int:
        """Number of seeds."""
        return int(self.counts[0])

    @property
    def stop_reasons(self) -> Array:
        """Number of half-streamlines by stop reason."""
        return self.counts[1 : 1 + len(Stop)]

    @property
    def verdicts(self) -> Array:
        """Number of streamlines by verdict."""
        return self.counts[1 + len(Stop) :]

    @contextmanager
    def stage(self, name: str) -> Generator[None, None, None]:
        """Add the time that a block takes to a stage."""
        begun = time.perf_counter()
        yield
        self.seconds[name] += time.perf_counter() - begun
