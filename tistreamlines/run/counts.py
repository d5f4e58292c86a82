"""How many streamlines a run has made, and how long they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ..io.tractogram import Batch


@dataclass
class Counts:
    """Counts streamlines by their number of points, so that its size does not grow with them."""

    histogram: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))

    def add(self, batch: Batch) -> None:
        """Count the streamlines of a batch."""
        counts = np.bincount(batch.lengths, minlength=len(self.histogram))
        counts[: len(self.histogram)] += self.histogram
        self.histogram = counts

    @property
    def streamlines(self) -> int:
        """Number of streamlines."""
        return int(self.histogram.sum())

    @property
    def points(self) -> int:
        """Number of points."""
        return int(self.histogram @ np.arange(len(self.histogram)))

    @property
    def mean(self) -> float:
        """Mean points of a streamline, 0 if there is none."""
        return self.points / max(self.streamlines, 1)

    @property
    def median(self) -> float:
        """Median points of a streamline, 0 if there is none."""
        total = self.streamlines
        if total == 0:
            return 0.0
        ranks = np.array([(total + 1) // 2, total // 2 + 1])
        return float(np.searchsorted(np.cumsum(self.histogram), ranks).mean())

    def summary(self, step_mm: float) -> dict[str, Any]:
        """Counts and lengths by name; a streamline of n points is n - 1 steps long."""
        return {
            "streamlines": self.streamlines,
            "points": self.points,
            "mean_points": self.mean,
            "median_points": self.median,
            "mean_mm": max(self.mean - 1, 0.0) * step_mm,
            "median_mm": max(self.median - 1, 0.0) * step_mm,
        }
