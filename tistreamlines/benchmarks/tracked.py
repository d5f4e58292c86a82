"""The result of a target: the streamlines of a run, and its times."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from ..aliases import Array


@dataclass
class Tracked:
    """Streamlines of a run.

    Parameters
    ----------
    points : (p, 3) float32, RASmm
        Points of all streamlines, concatenated; empty if they were not kept.
    offsets : (n + 1,) int64
        Streamline ``i`` is ``points[offsets[i]:offsets[i + 1]]``.
    seconds : float
        Time from seeds to points in the host's memory.
    stages : dict of str to float
        Seconds of its parts, if known.
    compile : float, optional
        Seconds of compilation before, if known.
    work : pair of float, optional
        Bytes read and operations done per point, if counted.
    copied_bytes : int, optional
        Bytes copied from the device to the host, if counted.
    """

    points: Array
    offsets: Array
    seconds: float
    stages: dict[str, float] = field(default_factory=dict)
    compile: float | None = None
    work: tuple[float, float] | None = None
    copied_bytes: int | None = None

    def save(self, path: Path) -> None:
        """Save points and offsets as .npz."""
        np.savez(path, points=self.points, offsets=self.offsets)

    @classmethod
    def load(cls, path: Path) -> Tracked:
        """Load points and offsets from a file of :meth:`save`; ``seconds`` is 0."""
        with np.load(path) as stored:
            return cls(stored["points"], stored["offsets"], 0.0)


class Track(Protocol):
    """Tracks the first ``count`` seeds of a problem; without ``keep``, its points may be released at once."""

    def __call__(self, count: int, keep: bool = True) -> Tracked: ...


def timed(run: Callable[[int], object], lines: Callable[..., Iterable[Array]] = iter) -> Track:
    """Return a function that measures the time of ``run(count)``, and takes the streamlines from what it returns."""

    def track(count: int, keep: bool = True) -> Tracked:
        begun = time.perf_counter()
        tracks = run(count)
        seconds = time.perf_counter() - begun
        return joined(lines(tracks), seconds)

    return track


def joined(lines: Iterable[Array], seconds: float) -> Tracked:
    """Concatenate streamlines, without those of a single point, which tistreamlines does not return either."""
    kept = [line for line in lines if len(line) > 1]
    offsets = np.concatenate([[0], np.cumsum([len(line) for line in kept])]).astype(np.int64)
    points = np.concatenate(kept).astype(np.float32) if kept else np.zeros((0, 3), np.float32)
    return Tracked(points, offsets, seconds)
