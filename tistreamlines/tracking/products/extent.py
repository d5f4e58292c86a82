"""The extent of streamlines, and a grid that covers them where no image gives one."""

from __future__ import annotations

import numpy as np

from ...space.batch import Batch, Space
from .grid import MOST_SIDE

VOXEL_MM = 2.0  # of a map without an image
MOST_CELLS = 1 << 24  # beyond which its voxels are larger


class Extent:
    """The box around all points, and the longest distance between two points of a streamline.

    Attributes
    ----------
    low, high : (3,) corners of the box, mm; infinite without points.
    step_mm : the distance, mm.
    """

    def __init__(self) -> None:
        self.low, self.high = np.full(3, np.inf), np.full(3, -np.inf)
        self.step_mm = 0.0

    def add(self, batch: Batch) -> None:
        """Take the points of a batch into account."""
        columns = batch.points.T  # whose least and greatest are found faster than along the first axis
        self.low = np.minimum(self.low, columns.min(axis=1, initial=np.inf))
        self.high = np.maximum(self.high, columns.max(axis=1, initial=-np.inf))
        self.step_mm = max(self.step_mm, batch.longest_step)

    def grid(self) -> Space:
        """Return cubes that cover the box, of 2 mm unless they were too many; one if there is no point."""
        if not np.isfinite(self.low).all():
            return Space(np.eye(4), (1, 1, 1))
        size = self.high - self.low
        side = max(VOXEL_MM, float(np.cbrt(np.prod(size + VOXEL_MM) / MOST_CELLS)), float(size.max()) / (MOST_SIDE / 2))
        affine = np.diag([side, side, side, 1.0])
        affine[:3, 3] = self.low
        return Space(affine, tuple(int(n) for n in np.ceil(size / side) + 1))  # type: ignore[arg-type]
