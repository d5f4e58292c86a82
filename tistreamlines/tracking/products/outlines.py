"""Where no points are asked for: the numbers of points and the ends of streamlines, which the host knows anyway."""

from __future__ import annotations

from concurrent.futures import Future

import numpy as np

from ...space.batch import Batch, Outline, Space
from ..growth.chunk import Chunk
from ..growth.growth import Growth
from .products import Batches, LaidBatch


class Outlines(Batches):
    """Hands chunks out without points, in the place of :class:`.products.Points`.

    Parameters
    ----------
    space : the image's space.
    """

    def __init__(self, space: Space) -> None:
        super().__init__()
        self.space = space

    def collect(self, growth: Growth, accepted: Chunk) -> None:
        """Let a chunk be handed out as one batch."""
        self.begin_chunk()
        outline: Future[Batch] = Future()
        outline.set_result(Outline(np.empty((0, 3), np.float32), *accepted.told(self.space)[0]))
        self.waiting.append(LaidBatch(outline, None, True))
