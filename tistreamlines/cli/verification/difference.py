"""The first difference between the streamlines of two runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np

from ...aliases import Array
from ...space.batch import Batch

PointPair = tuple[list[float] | None, list[float] | None]  # of both runs; None where a streamline has ended


@dataclass(frozen=True)
class Difference:
    """The first difference between two runs.

    Attributes
    ----------
    streamline : int
        Index of the streamline in the first run.
    seed, direction : int
        Index of its seed, and of its initial direction at the seed.
    half : 'forward' or 'backward'
        None if only one run has the streamline.
    step : int
        First step that differs, counted from the seed, which is 0.
    points : pair of (3,) lists
        That point in both runs, RASmm; None if the streamline had ended.
    """

    streamline: int
    seed: int
    direction: int
    half: str | None = None
    step: int | None = None
    points: PointPair = (None, None)

    def __str__(self) -> str:
        """Describe the difference in one line."""
        text = f"streamline {self.streamline} (seed {self.seed}, direction {self.direction})"
        if self.step is None:
            return f"{text}, which only one run has"
        ends = ["no point" if p is None else "(" + " ".join(f"{x:.9g}" for x in p) + ") mm" for p in self.points]
        return f"{text}, step {self.step} {self.half}: {ends[0]} against {ends[1]}"


def first_difference(a: Iterable[Batch], b: Iterable[Batch]) -> Difference | None:
    """Return the first streamline and step at which two runs differ in any bit; None if they are identical.

    Parameters
    ----------
    a, b : the streamlines of both runs, in batches that begin with the same ones as long as these are equal.
    """
    first = 0
    for pair in zip_longest(a, b, fillvalue=Batch.concatenate([])):
        if (difference := _between(*pair)) is not None:
            return replace(difference, streamline=first + difference.streamline)
        first += len(pair[0])
    return None


def _between(a: Batch, b: Batch) -> Difference | None:
    """Return the first difference between two batches."""
    row = _first_unequal(*(np.column_stack([x.seed_number, x.direction_number, x.lengths]) for x in (a, b)))
    point = _first_unequal(a.points.view("<u4"), b.points.view("<u4"))
    if point is not None and (row is None or point < a.offsets[row]):
        row = int(np.searchsorted(a.offsets, point, side="right")) - 1
    if row is None:
        return None
    keys = [(int(x.seed_number[row]), int(x.direction_number[row])) for x in (a, b) if row < len(x)]
    if len(keys) < 2 or keys[0] != keys[1]:
        return Difference(row, *min(keys))
    half, step, points = _first_step(a[row], b[row], a.seeds[row])
    return Difference(row, *keys[0], half, step, points)


def _first_unequal(a: Array, b: Array) -> int | None:
    """Return the first row that differs, or that only one array has; None if there is none."""
    count = min(len(a), len(b))
    same = (a[:count] == b[:count]).all(axis=1)
    if not same.all():
        return int(np.argmin(same))
    return None if len(a) == len(b) else count


def _first_step(a: Array, b: Array, seed: Array) -> tuple[str, int, PointPair]:
    """Return the half, the step and the points at which two streamlines of one seed first differ."""
    differences = []
    middles = [int(((x.astype(float) - seed) ** 2).sum(axis=1).argmin()) for x in (a, b)]
    halves = {
        "forward": (a[middles[0] :], b[middles[1] :]),
        "backward": (a[middles[0] :: -1], b[middles[1] :: -1]),
    }
    for half, (p, q) in halves.items():
        step = _first_unequal(*(np.ascontiguousarray(line).view("<u4") for line in (p, q)))
        if step is not None:
            points = p[step].tolist() if step < len(p) else None, q[step].tolist() if step < len(q) else None
            differences.append((half, step, points))
    return min(differences, key=lambda difference: difference[1])
