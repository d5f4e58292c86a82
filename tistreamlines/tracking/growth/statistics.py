"""Counts and times of a run of the engine."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from ...aliases import Array
from ...kernels.stop_reasons import Stop, Verdict

STAGES = ("compile", "track", "start", "grow", "pack", "unpack")


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
