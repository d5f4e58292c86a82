"""The density of streamlines in each fixel beside that of fibres, from which probabilities of seeds follow."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ...aliases import Array
from ...backends.numba.cache import Function, text_of
from ...devices.threads import in_threads
from .fixels import Fixels

_kernel = partial(Function, text_of(Path(__file__).with_name("comparison_kernels.py")))
_add_lengths, _find_probabilities = map(_kernel, ("add_lengths", "find_probabilities"))
BLOCK = 1 << 18  # fixels of a task
PROBABILITY = 1e-3  # of each fixel at first, so that it can become a thousand times as much
MASK_PARTS = 2**16  # how much a voxel counts is rounded to whole parts of 1, so that sums are exact
SMALL = 0.1  # fibre density below which a fixel keeps its probability


@dataclass(eq=False)
class Comparison:
    """The density of streamlines in each fixel, beside that of fibres, and the probability of a seed there.

    Parameters
    ----------
    fixels : Fixels
        The fixels.
    target : int, optional
        Streamlines that are wanted in the end; without it, twice as many as there are.
    threads : int, optional
        CPU threads; one per core by default.

    Attributes
    ----------
    probabilities : (fixels,) float64
        Of a seed in the next round, in proportion.
    """

    fixels: Fixels
    target: int | None = None
    threads: int | None = None
    streamlines: int = 0
    probabilities: npt.NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        counted = (masks := self.fixels.masks) * self.fixels.fibres
        self._masks = np.rint(masks * MASK_PARTS).astype(np.int64)
        self._fibres, self._small = math.fsum(counted), counted < SMALL
        self._units, self._lengths = np.zeros(self.fixels.table.count, np.int64), 0
        self._mean = np.full(self.fixels.table.count, PROBABILITY)
        self.probabilities = self._mean.copy()

    def add(self, units: Array, streamlines: int, probabilities: npt.NDArray[np.float64]) -> None:
        """Add streamlines: their lengths in each fixel, in units, and the probabilities of their seeds."""
        if not streamlines:
            return
        self.streamlines += streamlines
        share = streamlines / self.streamlines

        def add_some(part: slice) -> int:
            total, lengths = np.zeros(1, np.int64), (self._units[part], units[part])
            _add_lengths(*lengths, self._mean[part], probabilities[part], share, self._masks[part], total)
            return int(total[0])

        self._lengths = sum(in_threads(add_some, self._parts_of_fixels(), self.threads))  # of integers: in any order

    def compare(self) -> None:
        """Find the probabilities of the next round.

        A fixel whose streamlines are too few gets what makes them dense enough when the target is reached, if their
        density grows in proportion to the mean probability; one with too many gets none.
        """
        if not self._lengths:
            return
        count, fibres, probabilities = self.streamlines, self.fixels.fibres, np.empty_like(self._mean)
        target = 2 * count if self.target is None else max(min(self.target, 2 * count), count + 1)
        numbers = self._fibres / (self._lengths / MASK_PARTS), count, target, PROBABILITY

        def find_some(part: slice) -> None:
            values = self._units[part], fibres[part], self._mean[part], self._small[part]
            _find_probabilities(*values, *numbers, probabilities[part])

        in_threads(find_some, self._parts_of_fixels(), self.threads)
        self.probabilities = probabilities

    def _parts_of_fixels(self) -> list[slice]:
        return [slice(first, first + BLOCK) for first in range(0, len(self._units), BLOCK)]
