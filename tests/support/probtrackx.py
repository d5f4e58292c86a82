"""Tracking through samples of fibres as FSL's probtrackx2 describes it, in plain Python and from the same random words.

A step draws a voxel (along each axis the upper neighbour with a probability equal to the fraction) and one of its
samples, and takes the fibre nearest to the heading among those whose volume fraction is above LEAST.  Where its angle
to the heading is not below the greatest angle, the half ends; with ``use_f``, also with a probability of 1 - f.  The
first step of both halves is along a direction drawn at the seed.  Modified Euler draws again one step ahead, and steps
along the mean of both directions.

============= ==== ============================================= ==============================================
counter       draw words 0 to 2                                  word 3
============= ==== ============================================= ==============================================
step 0        0    upper neighbour along x, y, z at the seed     sample
step 0        1    word 0: fibre, if any may be the first        –
steps from 1  0    upper neighbour along x, y, z at the point    sample
steps from 1  1    word 0: whether the half goes on, with use_f  –
steps from 1  2    upper neighbour along x, y, z one step ahead  sample
============= ==== ============================================= ==============================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from tistreamlines.io.samples import Samples
from tistreamlines.linker.interpreted import dialect
from tistreamlines.linker.link import link
from tistreamlines.linker.rng import philox, uniform
from tistreamlines.linker.store import load

LEAST = 0.01  # volume fraction up to which a fibre does not count
LENGTH = "length"
NO_DIRECTION = "no direction"
OUTSIDE = "outside the mask"


@cache
def _random() -> Any:
    return load(link([philox, uniform], dialect(), {}).text)


def draw(seed: int, step: int, branch: int, number: int, key: Sequence[int]) -> tuple[int, ...]:
    """Four words of the stream STEPPING."""
    return tuple(int(word) for word in _random().philox(seed, step, branch, number, *key))


def unit_real(word: int) -> float:
    """A real in [0, 1)."""
    return float(_random().uniform(word))


class Choice(NamedTuple):
    """What a draw has chosen at a point."""

    voxel: tuple[int, int, int]
    sample: int
    fibre: int
    direction: np.ndarray  # unit vector along the voxel axes, in the sense of the heading
    fraction: float


@dataclass(frozen=True)
class Options:
    """Lengths in mm, the angle in degrees."""

    step_size: float = 0.5
    max_angle: float = 80.0
    max_steps: int = 2000
    use_f: bool = False
    modified_euler: bool = False
    random_fibre: bool = False
    one_way: bool = False
    key: tuple[int, int] = (1, 0)


class Half(NamedTuple):
    """Points of a half from its seed (n, 3), voxel, and why it ended."""

    points: np.ndarray
    reason: str


@dataclass(frozen=True)
class Probtrackx:
    """The oracle: streamlines through samples."""

    samples: Samples
    options: Options = field(default_factory=Options)

    def __post_init__(self) -> None:
        rows = np.full(self.samples.mask.shape, -1)
        rows[self.samples.mask] = np.arange(len(self.samples.values))
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "step", self.options.step_size / self.samples.space.voxel_sizes)
        object.__setattr__(self, "least_cosine", np.cos(np.radians(self.options.max_angle)))

    def in_mask(self, p: np.ndarray) -> bool:
        """Whether the voxel nearest to a point has samples."""
        voxel = np.floor(p + 0.5).astype(int)
        inside = (voxel >= 0).all() and (voxel < self.rows.shape).all()
        return bool(inside and self.rows[tuple(voxel)] >= 0)

    def sampled(self, p: np.ndarray, words: Sequence[int]) -> tuple[tuple[int, int, int], int, np.ndarray]:
        """Voxel (at the border the nearest one), number of the sample, and its fibres (fibres, 4); none outside."""
        low = np.floor(p)
        upper = np.array([unit_real(word) for word in words[:3]]) < p - low
        place = np.clip(low.astype(int) + upper, 0, np.array(self.rows.shape) - 1)
        voxel = (int(place[0]), int(place[1]), int(place[2]))
        count = self.samples.values.shape[1]
        number = (words[3] * count) >> 32
        row = self.rows[voxel]
        return voxel, number, self.samples.values[row, number].astype(float) if row >= 0 else np.zeros((0, 4))

    def initial(self, p: np.ndarray, seed: int) -> Choice | None:
        """The direction at a seed: fibre 1, or any that counts."""
        voxel, number, fibres = self.sampled(p, draw(seed, 0, 0, 0, self.options.key))
        count = len(fibres) if self.options.random_fibre else 1
        there = np.flatnonzero(fibres[:count, 3] > LEAST)
        if not len(there):
            return None
        fibre = int(there[(draw(seed, 0, 0, 1, self.options.key)[0] * len(there)) >> 32])
        return Choice(voxel, number, fibre, fibres[fibre, :3], fibres[fibre, 3])

    def nearest(self, p: np.ndarray, heading: np.ndarray, words: Sequence[int]) -> Choice | None:
        """The fibre of a random sample that is nearest to the heading, if it is within the greatest angle."""
        voxel, number, fibres = self.sampled(p, words)
        cosines = np.where(fibres[:, 3] > LEAST, np.abs(fibres[:, :3] @ heading), -1)
        if not len(fibres) or cosines.max() <= self.least_cosine:
            return None
        fibre = int(cosines.argmax())
        sense = 1 if fibres[fibre, :3] @ heading >= 0 else -1
        return Choice(voxel, number, fibre, sense * fibres[fibre, :3], fibres[fibre, 3])

    def direction(self, p: np.ndarray, heading: np.ndarray | Choice, seed: int, step: int, branch: int):
        """Direction of a step, or None where the half ends; the first step's heading is a choice, which is taken."""
        key = self.options.key
        words = draw(seed, step, branch, 0, key)
        chosen = heading if isinstance(heading, Choice) else self.nearest(p, heading, words)
        if chosen is None:
            return None
        if self.options.use_f and chosen.fraction <= unit_real(draw(seed, step, branch, 1, key)[0]):
            return None
        if not self.options.modified_euler:
            return chosen.direction
        ahead = p + self.step * chosen.direction
        later = self.nearest(ahead, chosen.direction, draw(seed, step, branch, 2, key))
        if later is None:  # nothing is known of the next point: the step is Euler's
            return chosen.direction
        mean = chosen.direction + later.direction
        return mean / np.linalg.norm(mean)

    def half(self, p: np.ndarray, initial: Choice, seed: int, side: int) -> Half:
        """Grow the half of a seed on one side, 0 along its initial direction and 1 against it."""
        points, heading = [np.asarray(p, float)], initial._replace(direction=(1 - 2 * side) * initial.direction)
        for step in range(1, self.options.max_steps + 1):
            heading = self.direction(points[-1], heading, seed, step, side)
            if heading is None:
                return Half(np.array(points), NO_DIRECTION)
            ahead = points[-1] + self.step * heading
            if not self.in_mask(ahead):
                return Half(np.array(points), OUTSIDE)
            points.append(ahead)
        return Half(np.array(points), LENGTH)

    def halves(self, seeds: np.ndarray) -> list[tuple[Half, ...]]:
        """Both halves, or with ``one_way`` the forward one, of each seed (n, 3), voxel; none where nothing starts."""
        pairs = []
        for number, p in enumerate(np.asarray(seeds, float)):
            initial = self.initial(p, number) if self.in_mask(p) else None
            sides = () if initial is None else (0,) if self.options.one_way else (0, 1)
            pairs.append(tuple(self.half(p, initial, number, side) for side in sides))
        return pairs
