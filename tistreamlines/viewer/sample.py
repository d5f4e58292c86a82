"""An even sample of streamlines that are read once, in batches, whatever their number."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..io.tractograms import batch_of
from ..space.batch import Batch

MOST_STREAMLINES = 20_000
MOST_POINTS = 500_000  # NiiVue's tubes take about 280 bytes of the browser's memory for each
TOLERANCE_MM, SEGMENT_MM = 0.1, 10.0  # a point that is left out was this near to the line, whose pieces are no longer


class Sample:
    """Keeps every streamline, then every 2nd, 4th, 8th ... one, so that the bounds above are never exceeded.

    Points on an almost straight line between others are left out, with DIPY's ``compress_streamlines``.  Streamlines of
    one point, which cannot be drawn, are counted and not kept.

    Attributes
    ----------
    every : int
        Of the streamlines so far, each ``every``-th one is in the sample, the first one included.
    total : int
        Number of streamlines so far.
    """

    def __init__(self, most_streamlines: int = MOST_STREAMLINES, most_points: int = MOST_POINTS) -> None:
        self.every, self.total = 1, 0
        self._most = most_streamlines, most_points
        self._kept: list[npt.NDArray[np.float32]] = []

    def add(self, batch: Batch) -> None:
        """Take what the sample needs of a batch."""
        from dipy.tracking.streamlinespeed import compress_streamlines

        first = -self.total % self.every
        self.total += len(batch)
        if lines := [batch[i] for i in range(first, len(batch), self.every)]:
            self._kept += compress_streamlines(lines, tol_error=TOLERANCE_MM, max_segment_length=SEGMENT_MM)
        while len(self._kept) > self._most[0] or sum(map(len, self._kept)) > self._most[1]:
            self._kept, self.every = self._kept[::2], 2 * self.every

    def batch(self) -> Batch:
        """Return the sample."""
        drawn = [line for line in self._kept if len(line) > 1]
        points = np.concatenate(drawn) if drawn else np.empty((0, 3), np.float32)
        return batch_of(points, np.array([len(line) for line in drawn], np.int64))
