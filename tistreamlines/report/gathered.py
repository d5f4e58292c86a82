"""What a report keeps of the streamlines as batches pass: their density, and an even sample of them."""

from __future__ import annotations

import numpy as np

from ..aliases import Array
from ..space.batch import Batch, Space
from ..tracking.products.density.density import Density

MOST = 16_000  # streamlines of the sample; when there are more, every other one is left out


class Gathered:
    """The density of the streamlines, and an even sample, whose size does not grow with their number.

    Parameters
    ----------
    space : grid of the image that is tracked.
    step_mm : the longest distance between two points of a streamline, mm.
    threads : how many threads count; None for as many as help.
    """

    def __init__(self, space: Space, step_mm: float, threads: int | None = None) -> None:
        self.space, self.step_mm = space, step_mm
        self._density, self._kept = Density(space, step_mm, threads), list[Batch]()
        self._seen, self._stride, self._count = 0, 1, 0

    def add(self, batch: Batch) -> None:
        """Take the streamlines of a batch into account."""
        self._density.add(batch)
        self._keep(batch[np.flatnonzero((self._seen + np.arange(len(batch))) % self._stride == 0)])
        self._seen += len(batch)
        while self._count > MOST:
            whole = Batch.concatenate(self._kept)
            self._kept, self._count, self._stride = [], 0, 2 * self._stride
            self._keep(whole[::2])

    def _keep(self, some: Batch) -> None:
        self._kept.append(some)
        self._count += len(some)

    def density(self) -> Array:
        """Wait for all batches; return how many streamlines pass each voxel, (x, y, z)."""
        return self._density.counts()

    def sample(self) -> Batch:
        """Return the streamlines of the sample, every so many of all."""
        return Batch.concatenate(self._kept)
