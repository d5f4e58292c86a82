"""What every target returns: the streamlines of a run, and how long they took."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass
class Tracked:
    """Streamlines of a run.

    Parameters
    ----------
    points, offsets : RASmm, end to end, and where each streamline begins and the last one ends; points may have been
        let go.
    seconds : from seeds to points in the host's memory.
    stages : seconds of its parts, where known.
    compile : seconds that were spent compiling before, where known.
    work : bytes read and operations done for a point, where counted.
    copied_bytes : from the device to the host, where counted.
    """

    points: Array
    offsets: Array
    seconds: float
    stages: dict[str, float] = field(default_factory=dict)
    compile: float | None = None
    work: tuple[float, float] | None = None
    copied_bytes: int | None = None

    def save(self, path: Path) -> None:
        """Write points and offsets."""
        np.savez(path, points=self.points, offsets=self.offsets)

    @classmethod
    def load(cls, path: Path) -> Tracked:
        """Read what :meth:`save` wrote; its seconds are 0."""
        with np.load(path) as stored:
            return cls(stored["points"], stored["offsets"], 0.0)


class Session(Protocol):
    """Tracks the first so many seeds of a problem; keeps the points, or may let them go as who writes them does."""

    def __call__(self, count: int, keep: bool = True) -> Tracked: ...


def joined(lines: Iterable[Any], seconds: float, **others: Any) -> Tracked:
    """Streamlines in one array; those of a single point left out, as ours are."""
    kept = [line for line in lines if len(line) > 1]
    offsets = np.concatenate([[0], np.cumsum([len(line) for line in kept])]).astype(np.int64)
    points = np.concatenate(kept).astype(np.float32) if kept else np.zeros((0, 3), np.float32)
    return Tracked(points, offsets, seconds, **others)
