"""Filters: what decides which streamlines are accepted, and names the reason why others are dropped.

A filter looks at a chunk's streamlines when they have ended.  A filter that judges streamlines by the points that they
visit can also end them early. It demands the stages of :mod:`...kernels.selection.bits`, a record that extends Demands,
and ``bits_at``, which is called with each point and returns its bits, see :mod:`...kernels.selection.regions`, in the
first word (0) and in ``more`` further ones.  An engine can have one such filter.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from ...aliases import Array
from ...kernels.stop_reasons import VALID, Stop, Verdict
from ..growth.chunk import Chunk, judge_lengths
from ..parts import Selection


class Filter(Protocol):
    """Decides which streamlines are accepted."""

    def demand(self, selection: Selection) -> Selection:
        """Return what is demanded of streamlines while they grow, besides what is demanded already."""
        return selection

    def verdicts(self, chunk: Chunk) -> Array:
        """Return the :class:`...kernels.stop_reasons.Verdict` on each of the chunk's streamlines, (m,) integers."""
        ...


LENGTHS = (int(Verdict.ACCEPTED), int(Verdict.NO_STEP), int(Verdict.TOO_SHORT), int(Verdict.TOO_LONG))


@dataclass(frozen=True)
class Length(Filter):
    """Accepts streamlines of ``fewest`` to ``most`` steps."""

    fewest: int
    most: int

    def verdicts(self, chunk: Chunk) -> Array:
        """Return the verdict on each of the chunk's streamlines, (m,)."""
        verdicts = np.empty(len(chunk.state), np.int8)
        judge_lengths(chunk.state, self.fewest, self.most, LENGTHS, verdicts)
        return verdicts


IN_VAIN = sum(1 << reason for reason in Stop if reason not in (*VALID, Stop.GROWING))


class ValidEnds(Filter):
    """Accepts streamlines with two valid ends, as DIPY's trackers do unless ``return_all``."""

    def demand(self, selection: Selection) -> Selection:
        """Demand valid ends, too."""
        return replace(selection, in_vain=IN_VAIN)

    def verdicts(self, chunk: Chunk) -> Array:
        """Return the verdict on each of the chunk's streamlines, (m,)."""
        first, second = np.isin(chunk.state[..., 1], VALID).T
        return np.where(first & second, Verdict.ACCEPTED, Verdict.INVALID_ENDS)
