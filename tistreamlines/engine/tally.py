"""Counts and times of a run of the engine."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ..kernels.stop_reasons import Stop

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
    Stop.NOT_GROWN: "the seed of one-way tracking",
}


@dataclass
class Tally:
    """Counts of a run: seconds by stage, half-streamlines by stop reason, bytes copied from the device."""

    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    stop_reasons: npt.NDArray[Any] = field(default_factory=lambda: np.zeros(len(Stop), np.int64))
    seeds: int = 0
    streamlines: int = 0
    points: int = 0
    copied_bytes: int = 0

    @contextmanager
    def stage(self, name: str) -> Generator[None, None, None]:
        """Add the time that a block takes to a stage."""
        begun = time.perf_counter()
        yield
        self.seconds[name] += time.perf_counter() - begun
