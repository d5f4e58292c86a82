"""The first difference between two runs, whose streamlines are stored as arrays in two folders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...aliases import Array
from ...space.batch import Batch

# Type of the file for each field of a batch, and its number of columns if more than one.
MEMBERS = {"points": "<f4", "lengths": "<u4", "seeds": "<f4", "seed_number": "<u4", "direction_number": "<u2"}
WIDTHS = {"points": 3, "seeds": 3}
COMPARED_AT_ONCE = 1 << 20


def members(batch: Batch) -> Iterator[tuple[str, Array]]:
    """Yield the name and the array of each stored field of a batch, in the type of its file."""
    for name, dtype in MEMBERS.items():
        yield name, np.ascontiguousarray(getattr(batch, name), dtype)


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


def stored_run(folder: Path) -> dict[str, Array]:
    """Return the arrays of a run in a folder, memory-mapped: see MEMBERS; points and seeds have three columns."""
    arrays: dict[str, Array] = {}
    for name, dtype in MEMBERS.items():
        empty = (folder / name).stat().st_size == 0
        flat: Array = np.empty(0, dtype) if empty else np.memmap(folder / name, dtype, "r")
        arrays[name] = flat.reshape(-1, WIDTHS[name]) if name in WIDTHS else flat
    return arrays


def first_difference(a: dict[str, Array], b: dict[str, Array]) -> Difference | None:
    """Return the first streamline and step at which two runs differ in any bit; None if they are identical."""
    names = ("seed_number", "direction_number", "lengths")
    apart = {name: _first_unequal(a[name], b[name]) for name in names}
    row = min((i for i in apart.values() if i is not None), default=None)
    point = _first_unequal(a["points"], b["points"])
    ends = np.cumsum(a["lengths"], dtype=np.int64)
    if point is not None and (row is None or point < (ends[row - 1] if row else 0)):
        row = int(np.searchsorted(ends, point, side="right"))
    if row is None:
        return None
    keys = [(int(k["seed_number"][row]), int(k["direction_number"][row])) for k in (a, b) if row < len(k["lengths"])]
    if len(keys) < 2 or keys[0] != keys[1]:
        return Difference(row, *min(keys))
    first = int(ends[row]) - int(a["lengths"][row])
    pair = [k["points"][first : first + int(k["lengths"][row])] for k in (a, b)]
    half, step, points = _first_step(pair[0], pair[1], a["seeds"][row])
    return Difference(row, *keys[0], half, step, points)


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
