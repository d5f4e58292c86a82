"""DIPY's particle filtering in plain Python, with the kernels' random numbers, and a small method to compare it with.

``track`` follows ``_pft_tracker`` and ``_pft`` of DIPY's ``localtrack.pyx`` line by line.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from scipy.ndimage import map_coordinates

from tistreamlines.kernels.halves import Position, Run
from tistreamlines.kernels.interpolate import STOP_CHANNEL
from tistreamlines.kernels.stop_reasons import Stop
from tistreamlines.linker.lang import Reals, Record, func, i32, stage, u32, vec3, where
from tistreamlines.linker.rng import philox, uniform

STEP, STRAIGHT, RESAMPLING = 0.5, 0.6, 3 << 28
Point = tuple[float, float, float]


class Walk(Record):
    """A method that mostly goes straight on along an axis, and else turns; a code is twice the axis, plus the sense."""


class WalkMemory(Record):
    """Team memory of it."""

    row: Reals

    @staticmethod
    def sizes(getter):
        return {"row": 32 * getter.row.row_chunks}


@func
def choose_walk(position: Position, run: Run) -> i32:
    """The next code; none with the chance that the map before the stopping rule's gives."""
    w = philox(position.c0, position.c1, position.c2, u32(0), u32(run.rules.key[0]), u32(run.rules.key[1]))
    turn = i32(4.0 * uniform(w[2]))
    axis = ((position.code >> 1) + 1 + (turn >> 1)) % 3
    choice = where(uniform(w[1]) < STRAIGHT, position.code, 2 * axis + (turn & 1))
    if uniform(w[0]) < run.scratch.row[STOP_CHANNEL - 1]:
        choice = -1
    return choice


@stage
def move_walk(position: Position, run: Run) -> vec3:
    """The point one step on."""
    s = where((position.code & 1) == 1, -1.0, 1.0) * STEP
    axis = position.code >> 1
    x = where(axis == 0, s, 0.0)
    y = where(axis == 1, s, 0.0)
    z = where(axis == 2, s, 0.0)
    return vec3(position.p[0] + x, position.p[1] + y, position.p[2] + z)


def random_words(counter: tuple[int, int, int, int], key: tuple[int, int]) -> list[float]:
    """Four uniform numbers of Philox4x32-10."""
    (c0, c1, c2, c3), (k0, k1), low = counter, key, 0xFFFFFFFF
    for _ in range(10):
        a, b = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (b >> 32) ^ c1 ^ k0, b & low, (a >> 32) ^ c3 ^ k1, a & low
        k0, k1 = (k0 + 0x9E3779B9) & low, (k1 + 0xBB67AE85) & low
    return [(word >> 8) * 2.0**-24 for word in (c0, c1, c2, c3)]


def at_half_voxels(maps: np.ndarray) -> np.ndarray:
    """Maps (x, y, z, k) at the points where halves stand: (2 x - 1, 2 y - 1, 2 z - 1, k)."""
    sides = [2 * side - 1 for side in maps.shape[:3]]
    places = np.indices(sides).reshape(3, -1) / 2
    return np.stack([map_coordinates(maps[..., k], places, order=1).reshape(sides) for k in range(maps.shape[-1])], -1)


@dataclass
class Tracker:
    """What tracks one half: the maps at half voxels (:func:`at_half_voxels`), the counters, and the options."""

    halfway: np.ndarray
    seed: int
    branch: int
    key: tuple[int, int]
    max_steps: int
    back: int
    front: int
    trials: int
    count: int
    least_white: float = 0.0
    resampled: int = 0

    def at(self, p: Point, channel: int) -> float:
        x, y, z = (min(max(int(2 * c), 0), side - 1) for c, side in zip(p, self.halfway.shape[:3], strict=True))
        return float(self.halfway[x, y, z, channel])

    def check(self, p: Point) -> Stop:
        if any(x < -0.5 or x >= side / 2 for x, side in zip(p, self.halfway.shape[:3], strict=True)):
            return Stop.OUTSIDE_IMAGE
        if self.at(p, 1) > 0.5:
            return Stop.VALID_END
        return Stop.INVALID_END if self.at(p, 2) > 0.5 else Stop.GROWING

    def white(self, p: Point) -> float:
        return 1 - self.at(p, 1) - self.at(p, 2)

    def words(self, steps: int, trial: int, particle: int, number: int = 0) -> list[float]:
        tag = self.branch | (particle + 1) << 17 | trial << 23
        return random_words((self.seed, steps, tag, number), self.key)

    def next(self, p: Point, code: int, steps: int, trial: int, particle: int = -1) -> tuple[Point, int] | None:
        """The point after the step of number ``steps``, and the step's code; None if there is no direction."""
        u = self.words(steps, trial, particle)
        if u[0] < self.at(p, 0):
            return None
        if u[1] >= STRAIGHT:
            turn = int(4 * u[2])
            code = 2 * ((code // 2 + 1 + turn // 2) % 3) + turn % 2
        ahead = list(p)
        ahead[code // 2] += STEP * (1 - 2 * (code % 2))
        return tuple(ahead), code


def track(half: Tracker, seed: Point, heading: int) -> tuple[list[int], Stop]:
    """DIPY's ``_pft_tracker``; returns the codes of the steps, and the status at the end."""
    points, codes, status, trial, most_white = [seed], [heading], Stop.GROWING, 0, 0.0
    length = half.max_steps + 1
    while len(points) < length:
        ahead = half.next(points[-1], codes[-1], len(points), trial)
        if ahead is None:
            status = Stop.INVALID_END
        else:
            points.append(ahead[0])
            codes.append(ahead[1])
            status = half.check(ahead[0])
        white = half.white(points[-1])
        most_white = max(most_white, white if len(points) > 1 else 0.0)
        if status == Stop.GROWING or (status == Stop.VALID_END and most_white < half.least_white and white > 0):
            continue
        i = len(points)
        if status == Stop.INVALID_END and trial < half.trials and 1 < i < length:
            trial += 1
            back = min(i - 1, half.back)
            steps = back + max(0, min(length - i - back - 1, half.front))
            points, codes, status = filtered(half, points, codes, i - back, steps, trial)
            most_white = max([most_white, *map(half.white, points[1:])])
            if status == Stop.GROWING:
                continue
        break
    else:
        status = status or Stop.MAX_LENGTH
    drop = status == Stop.OUTSIDE_IMAGE and len(points) > 1
    return codes[1 : len(codes) - drop], status


def filtered(
    half: Tracker, points: list[Point], codes: list[int], start: int, steps: int, trial: int
) -> tuple[list[Point], list[int], Stop]:
    """DIPY's ``_pft``: points and codes with those of one particle from ``start`` on, and its status."""
    count = half.count
    paths, dirs = [[points[start]] for _ in range(count)], [[codes[start]] for _ in range(count)]
    weights, states = np.full(count, 1 / count), [Stop.GROWING] * count
    for s in range(steps):
        for p in range(count):
            if states[p] != Stop.GROWING:
                continue
            ahead = half.next(paths[p][-1], dirs[p][-1], start + s + 1, trial, p)
            if ahead is None:
                states[p], weights[p] = Stop.INVALID_END, 0
                continue
            point, code = ahead
            paths[p] = [*paths[p], point]
            dirs[p] = [*dirs[p], code]
            states[p] = half.check(point)
            weights[p] *= 1 if states[p] == Stop.OUTSIDE_IMAGE else 1 - half.at(point, 2)
            weights[p] *= weights[p] >= 1e-16
            if states[p] == Stop.INVALID_END and weights[p] > 0:
                states[p] = Stop.GROWING
        if weights.sum() > 0:
            weights /= weights.sum()
            if 1 / (weights**2).sum() < count / 10:
                half.resampled += 1
                numbers = [half.words(start + s + 1, trial, -1, RESAMPLING + p)[0] for p in range(count)]
                sources = [drawn(weights, u) for u in numbers]
                paths, dirs, states = ([old[q] for q in sources] for old in (paths, dirs, states))
                weights[:] = 1 / count
        if Stop.GROWING not in states:
            break
    u = half.words(start + s + 1, trial, -1, RESAMPLING + 32)[0]
    p = drawn(weights, u) if weights.sum() > 0 else 0
    taken = len(paths[p]) - 1
    end = start + taken  # of the points, which leaves out the particle's last one
    return (points[: start + 1] + paths[p][1:])[:end], (codes[: start + 1] + dirs[p][1:])[:end], states[p]


def drawn(weights: np.ndarray, u: float) -> int:
    """DIPY's ``where_to_insert`` of a share of the cumulative sum."""
    return int(np.searchsorted(list(accumulate(weights)), u * sum(weights), "right"))


