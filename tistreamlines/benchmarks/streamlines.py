"""The result of a target: the streamlines of a run, its times, and measures: lengths, density, and agreement."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, SupportsFloat

import numpy as np

from ..aliases import Array, Json
from ..space.batch import Space


@dataclass
class RunStreamlines:
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
    def load(cls, path: Path) -> RunStreamlines:
        """Load points and offsets from a file of :meth:`save`; ``seconds`` is 0."""
        with np.load(path) as stored:
            return cls(stored["points"], stored["offsets"], 0.0)


class Track(Protocol):
    """Tracks the first ``count`` seeds of a problem; without ``keep``, its points may be released at once."""

    def __call__(self, count: int, keep: bool = True) -> RunStreamlines: ...


def timer_of(run: Callable[[int], object], lines: Callable[..., Iterable[Array]] = iter) -> Track:
    """Return a function that measures the time of ``run(count)``, and takes the streamlines from its result."""

    def track(count: int, keep: bool = True) -> RunStreamlines:
        begun = time.perf_counter()
        tracks = run(count)
        seconds = time.perf_counter() - begun
        return concatenate_lines(lines(tracks), seconds)

    return track


def concatenate_lines(lines: Iterable[Array], seconds: float) -> RunStreamlines:
    """Concatenate streamlines, without those of a single point, which tistreamlines does not return either."""
    kept = [line for line in lines if len(line) > 1]
    offsets = np.concatenate([[0], np.cumsum([len(line) for line in kept])]).astype(np.int64)
    points = np.concatenate(kept).astype(np.float32) if kept else np.zeros((0, 3), np.float32)
    return RunStreamlines(points, offsets, seconds)


def lengths_mm(tracked: RunStreamlines) -> Array:
    """Return the length of each streamline, (n,) float64, mm."""
    steps = np.linalg.norm(np.diff(tracked.points.astype(float), axis=0), axis=1)
    # the step from one streamline to the next does not count
    steps[tracked.offsets[1:-1] - 1] = 0
    ends = np.concatenate([[0], np.cumsum(steps)])
    return ends[tracked.offsets[1:] - 1] - ends[tracked.offsets[:-1]]


def density(tracked: RunStreamlines, space: Space) -> Array:
    """Return the number of streamlines that visit each voxel, (x, y, z) int64."""
    voxel = np.rint(space.to_voxel(tracked.points)).astype(np.int64)
    inside = ((voxel >= 0) & (voxel < space.shape)).all(axis=1)
    line = np.repeat(np.arange(len(tracked.offsets) - 1), np.diff(tracked.offsets))[inside]
    size = int(np.prod(space.shape))
    visits = line * size + np.ravel_multi_index(tuple(voxel[inside].T), space.shape)
    visits = visits[np.flatnonzero(np.diff(visits, prepend=-1))]  # consecutive points share voxels: less to sort
    return np.bincount(np.unique(visits) % size, minlength=size).reshape(space.shape)


def correlation(ours: Array, theirs: Array, mask: Array) -> float:
    """Return Pearson's correlation of two density maps in a mask."""
    a, b = ours[mask].astype(float), theirs[mask].astype(float)
    return float(np.corrcoef(a, b)[0, 1]) if a.std() and b.std() else float("nan")


def length_ks(ours: Array, theirs: Array) -> float:
    """Return the Kolmogorov-Smirnov statistic of two sets of lengths (n,) and (m,), mm."""
    if not (len(ours) and len(theirs)):
        return float("nan")
    # rounded, so that equal numbers of steps give equal lengths
    ours, theirs = np.round(ours, 2), np.round(theirs, 2)
    every = np.concatenate([ours, theirs])
    shares = [np.searchsorted(np.sort(lengths), every, side="right") / len(lengths) for lengths in (ours, theirs)]
    return float(np.abs(shares[0] - shares[1]).max())


def identical(ours: RunStreamlines, theirs: RunStreamlines) -> float:
    """Return the Jaccard index of two sets of streamlines, compared bit by bit."""
    a, b = (
        {hashlib.sha1(line.tobytes()).digest() for line in np.split(t.points, t.offsets[1:-1])}
        for t in (ours, theirs)
    )
    return len(a & b) / max(len(a | b), 1)


def summary(tracked: RunStreamlines) -> Json:
    """Return the statistics of a run; see the schema in :mod:`tistreamlines.benchmarks`."""
    count, points = len(tracked.offsets) - 1, np.diff(tracked.offsets)
    mm = lengths_mm(tracked) if count else np.zeros(0)

    def of(values: Array, figure: Callable[[Array], SupportsFloat]) -> float:
        return round(float(figure(values)), 3) if count else 0.0

    return {
        "streamlines": count, "points": int(points.sum()), "mean_points": of(points, np.mean),
        "median_points": of(points, np.median), "mean_mm": of(mm, np.mean), "median_mm": of(mm, np.median),
    }
