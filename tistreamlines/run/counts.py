"""Number, length and ends of the streamlines of a run."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..aliases import Json
from ..kernels.stop_reasons import Stop
from ..space.batch import Batch
from ..tracking.growth.statistics import Statistics
from .record import dropped, stop_reasons


@dataclass
class Counts:
    """Histograms of streamlines, whose memory does not grow with the number of streamlines.

    Parameters
    ----------
    histogram : ndarray, (m,)
        Number of streamlines with 0, 1, ... m - 1 points.
    ends : ndarray
        Number of their halves by stop reason.
    """

    histogram: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))
    ends: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(Stop), np.int64))

    def add(self, batch: Batch) -> None:
        """Add the streamlines of a batch."""
        counts = np.bincount(batch.lengths, minlength=len(self.histogram))
        counts[: len(self.histogram)] += self.histogram
        self.histogram = counts
        self.ends += np.bincount(batch.stop_reasons.ravel(), minlength=len(Stop))

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
        """Mean number of points per streamline, 0 if there are none."""
        return self.points / max(self.streamlines, 1)

    @property
    def median(self) -> float:
        """Median number of points per streamline, 0 if there are none."""
        total = self.streamlines
        if total == 0:
            return 0.0
        ranks = np.array([(total + 1) // 2, total // 2 + 1])
        return float(np.searchsorted(np.cumsum(self.histogram), ranks).mean())

    def summary(self, step_mm: float, grown: Statistics) -> Json:
        """Return counts, lengths (mm) and ends by name; a streamline of n points has n - 1 steps of ``step_mm``.

        ``grown`` has the counts of seeds, and of all streamlines that were grown from them.
        """
        return {
            "seeds": grown.seeds,
            "streamlines": self.streamlines,
            "points": self.points,
            "mean_points": self.mean,
            "median_points": self.median,
            "mean_mm": max(self.mean - 1, 0.0) * step_mm,
            "median_mm": max(self.median - 1, 0.0) * step_mm,
            "stop_reasons": stop_reasons(grown.stop_reasons),
            "written_stop_reasons": stop_reasons(self.ends),
            "dropped": dropped(grown.verdicts),
        }
