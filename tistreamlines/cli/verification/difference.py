"""The first difference between two runs, whose streamlines are stored in two folders."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...aliases import Array
from ...space.batch import Batch

POINTS, ROWS = "points", "rows"  # files of a folder
ROW = np.dtype([("seed", "<u4"), ("direction", "<u2"), ("length", "<u4"), ("place", "<f4", 3)])  # of a streamline
KEYS = ("seed", "direction", "length")  # fields that are compared
COMPARED_AT_ONCE = 1 << 20


def rows_of(batch: Batch) -> Array:
    """Return what is stored of each streamline of a batch besides its points."""
    rows = np.empty(len(batch), ROW)
    rows["seed"], rows["direction"], rows["place"] = batch.seed_number, batch.direction_number, batch.seeds
    rows["length"] = batch.lengths
    return rows


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


def stored_run(folder: Path) -> tuple[Array, Array]:
    """Return the rows and the points of the streamlines of a run in a folder; points are memory-mapped."""
    file = folder / POINTS
    points = np.memmap(file, "<f4", "r") if file.stat().st_size else np.empty(0, "<f4")
    return np.fromfile(folder / ROWS, ROW), points.reshape(-1, 3)


def first_difference(a: Path, b: Path) -> Difference | None:
    """Return the first streamline and step at which two runs in folders differ in any bit; None if they are the same.

    Parameters
    ----------
    a, b : the folders.
    """
    runs = stored_run(a), stored_run(b)
    row = _first_unequal(*(np.stack([rows[name] for name in KEYS], axis=1) for rows, _ in runs))
    point = _first_unequal(*(points for _, points in runs))
    ends = np.cumsum(runs[0][0]["length"], dtype=np.int64)
    if point is not None and (row is None or point < (ends[row - 1] if row else 0)):
        row = int(np.searchsorted(ends, point, side="right"))
    if row is None:
        return None
    pair = [(rows[row], points) for rows, points in runs if row < len(rows)]
    keys = [(int(streamline["seed"]), int(streamline["direction"])) for streamline, _ in pair]
    if len(keys) < 2 or keys[0] != keys[1]:
        return Difference(row, *min(keys))
    first = int(ends[row]) - int(pair[0][0]["length"])
    lines = [points[first : first + int(streamline["length"])] for streamline, points in pair]
    half, step, place = _first_step(lines[0], lines[1], pair[0][0]["place"])
    return Difference(row, *keys[0], half, step, place)


def _first_unequal(a: Array, b: Array) -> int | None:
    """Return the first row whose bits differ, or that only one array has; None if there is none."""
    for first in range(0, min(len(a), len(b)), COMPARED_AT_ONCE):
        last = min(first + COMPARED_AT_ONCE, len(a), len(b))
        same = _bits(a[first:last]) == _bits(b[first:last])
        rows = same.all(axis=1) if same.ndim > 1 else same
        if not rows.all():
            return first + int(np.argmin(rows))
    return None if len(a) == len(b) else min(len(a), len(b))


def _bits(x: Array) -> Array:
    return x.view("<u4") if x.dtype.kind == "f" else x


def _first_step(a: Array, b: Array, seed: Array) -> tuple[str, int, PointPair]:
    """Return the half, the step and the points at which two streamlines of one seed first differ."""
    differences = []
    middles = [int(((x.astype(float) - seed) ** 2).sum(axis=1).argmin()) for x in (a, b)]
    halves = {
        "forward": (a[middles[0] :], b[middles[1] :]),
        "backward": (a[middles[0] :: -1], b[middles[1] :: -1]),
    }
    for half, (p, q) in halves.items():
        step = _first_unequal(np.ascontiguousarray(p), np.ascontiguousarray(q))
        if step is not None:
            points = p[step].tolist() if step < len(p) else None, q[step].tolist() if step < len(q) else None
            differences.append((half, step, points))
    return min(differences, key=lambda difference: difference[1])
