"""Filters: what decides which streamlines are accepted, and names the reason why others are dropped.

A filter looks at a chunk's streamlines when they have ended.  A filter that judges streamlines by the points that they
visit can also end them early: it links the stages of :mod:`...kernels.selection.bits`, and fills ``Filter`` (a record
that extends Demands), ``bits_at``, and HAS_BITS with 1.  Then ``bits_at`` is called with each point and returns its
bits, see :mod:`...kernels.selection.regions`, in the first word (0) and in MORE further ones.  An engine can have one
such filter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from ...backends.numba.cache import Function, text_of
from ...kernels.stop_reasons import VALID, Stop
from ...kernels.verdicts import Verdict
from ..growth.chunk import Chunk

Array = npt.NDArray[Any]


class Filter(Protocol):
    """Decides which streamlines are accepted.

    Attributes
    ----------
    fill : what the kernels are linked with, for a filter that ends streamlines early; else nothing.
    values : fields of its record by flat name (``filter_...``): numbers and arrays.
    """

    fill: Mapping[str, Any] = MappingProxyType({})
    values: Mapping[str, Any] = MappingProxyType({})

    def verdicts(self, chunk: Chunk) -> Array:
        """Return the :class:`...kernels.verdicts.Verdict` on each of the chunk's streamlines, (m,) integers."""
        ...


LENGTHS = (int(Verdict.ACCEPTED), int(Verdict.NO_STEP), int(Verdict.TOO_SHORT), int(Verdict.TOO_LONG))
_judge_lengths = Function(text_of(Path(__file__).with_name("filters_kernels.py")), "judge_lengths")


@dataclass(frozen=True)
class Length(Filter):
    """Accepts streamlines of ``fewest`` to ``most`` steps."""

    fewest: int
    most: int

    def verdicts(self, chunk: Chunk) -> Array:
        """Return the verdict on each of the chunk's streamlines, (m,)."""
        found = np.empty(len(chunk.state), np.int8)
        _judge_lengths(chunk.state, self.fewest, self.most, LENGTHS, found)
        return found


IN_VAIN = sum(1 << reason for reason in Stop if reason not in (*VALID, Stop.GROWING))


class ValidEnds(Filter):
    """Accepts streamlines with two valid ends, as DIPY's trackers do unless ``return_all``."""

    fill: ClassVar[Mapping[str, Any]] = {"IN_VAIN": IN_VAIN}

    def verdicts(self, chunk: Chunk) -> Array:
        """Return the verdict on each of the chunk's streamlines, (m,)."""
        first, second = np.isin(chunk.state[..., 1], VALID).T
        return np.where(first & second, Verdict.ACCEPTED, Verdict.INVALID_ENDS)
