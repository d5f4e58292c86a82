"""A chunk: streamlines that grow together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ...space.batch import Space

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Chunk:
    """Streamlines that grow together, in the order of their seeds and initial directions.

    Parameters
    ----------
    first_seed : number of the chunk's first seed in the run.
    seeds : (n, 3) float32, voxel coordinates.
    seed : (m,) int32, number of each streamline's seed in the chunk.
    branch : (m,) int32, number of its initial direction among those of the seed.
    number : (m,) int32, its number on the device: its halves are 2 * number (forward) and 2 * number + 1 (backward).
    state : (m, 2, 2) int32, of the forward half and of the backward half its steps and its stop reason.
    verdict : (m,) int32, what regions make of it, see :func:`...kernels.streamlines.judge`; (m, 0) where points have no
        bits.
    """

    first_seed: int
    seeds: Array
    seed: Array
    branch: Array
    number: Array
    state: Array
    verdict: Array

    @cached_property
    def steps(self) -> Array:
        """Steps of each streamline, both halves together, (m,)."""
        return self.state[:, 0, 0] + self.state[:, 1, 0]

    def told(self, space: Space) -> tuple[Array, Array, Array, Array]:
        """Return what a batch says of each streamline: seed (RASmm), numbers of seed and direction, stop reasons."""
        return (
            space.to_ras(self.seeds[self.seed]).astype(np.float32),
            (self.first_seed + self.seed.astype(np.int64)).astype(np.uint32), self.branch.astype(np.uint16),
            self.state[:, ::-1, 1].astype(np.uint8),
        )  # fmt: skip

    def first(self, count: int) -> Chunk:
        """Return the chunk with its first streamlines, and their seeds."""
        return replace(self.some(slice(count)), seeds=self.seeds[: int(self.seed[count - 1]) + 1])

    def some(self, places: Array | slice) -> Chunk:
        """Return the chunk with some of its streamlines."""
        named = {name: getattr(self, name)[places] for name in ("seed", "branch", "number", "state", "verdict")}
        return replace(self, **named)
