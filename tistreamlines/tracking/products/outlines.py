"""Where no points are asked for: the numbers of points and the ends of streamlines, which the host knows anyway."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from ...linker.lang import Func
from ...space.batch import Outline, Space
from ..growth.chunk import Chunk
from ..growth.growth import Growth
from .products import Collector


class Outlines(Collector):
    """Hands chunks out without points, in the place of :class:`.products.Points`.

    Parameters
    ----------
    space : the image's space.
    """

    roots: Sequence[Func] = ()
    bytes = 0

    def __init__(self, space: Space) -> None:
        self.space = space
        self.waiting: deque[Outline] = deque()
        self.ended = True  # each batch is a chunk

    def compile(self, growth: Growth) -> None:
        """There is nothing to compile."""

    def collect(self, growth: Growth, accepted: Chunk) -> None:
        """Let a chunk be handed out as one batch."""
        self.waiting.append(Outline(np.empty((0, 3), np.float32), *accepted.told(self.space)[0]))

    def bring(self, growth: Growth) -> None:
        """Nothing is left on the device."""

    def undo(self, growth: Growth) -> None:
        """Forget the last chunk."""
        self.waiting.clear()

    def take(self, growth: Growth) -> None:
        """Return nothing: the batches are handed out."""

    def merge(self, delta: None) -> None:
        """Add nothing."""

    @property
    def chunks(self) -> int:
        """Number of chunks that are still to be handed out."""
        return len(self.waiting)

    def is_there(self, seconds: float) -> bool:
        """Return True: nothing is waited for."""
        return True

    def next(self, growth: Growth) -> Outline:
        """Return the next batch."""
        batch = self.waiting.popleft()
        growth.statistics.streamlines += len(batch)
        growth.statistics.points += int(batch.offsets[-1])
        return batch

    def cancel(self) -> None:
        """Forget the batches that nobody waits for any more."""
        self.waiting.clear()
