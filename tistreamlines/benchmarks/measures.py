"""Measures of streamlines: lengths, density, and agreement."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, SupportsFloat

import numpy as np

from ..aliases import Array, Json
from ..space.batch import Space

if TYPE_CHECKING:
    from .tracked import Tracked



def lengths_mm(tracked: Tracked) -> Array:
    """Return the length of each streamline, (n,) float64, mm."""
    steps = np.linalg.norm(np.diff(tracked.points.astype(float), axis=0), axis=1)
    # the step from one streamline to the next does not count
    steps[tracked.offsets[1:-1] - 1] = 0
    ends = np.concatenate([[0], np.cumsum(steps)])
    return ends[tracked.offsets[1:] - 1] - ends[tracked.offsets[:-1]]


def density(tracked: Tracked, space: Space) -> Array:
    """Return the number of streamlines that visit each voxel, (x, y, z) int64."""
    voxel = np.rint(space.to_voxel(tracked.points)).astype(np.int64)
    inside = ((voxel >= 0) & (voxel < space.shape)).all(axis=1)
    line = np.repeat(np.arange(len(tracked.offsets) - 1), np.diff(tracked.offsets))[inside]
    size = int(np.prod(space.shape))
    visits = line * size + np.ravel_multi_index(tuple(voxel[inside].T), space.shape)
    visits = visits[np.flatnonzero(np.diff(visits, prepend=-1))]  # consecutive points share voxels: less to sort
    return np.bincount(np.unique(visits) % size, minlength=size).reshape(space.shape)


def correlation(one: Array, other: Array, mask: Array) -> float:
    """Return Pearson's correlation of two density maps in a mask."""
    a, b = one[mask].astype(float), other[mask].astype(float)
    return float(np.corrcoef(a, b)[0, 1]) if a.std() and b.std() else float("nan")


def length_ks(one: Array, other: Array) -> float:
    """Return the Kolmogorov-Smirnov statistic of two sets of lengths (n,) and (m,), mm."""
    if not (len(one) and len(other)):
        return float("nan")
    # rounded, so that equal numbers of steps give equal lengths
    one, other = np.round(one, 2), np.round(other, 2)
    every = np.concatenate([one, other])
    shares = [np.searchsorted(np.sort(lengths), every, side="right") / len(lengths) for lengths in (one, other)]
    return float(np.abs(shares[0] - shares[1]).max())


def identical(one: Tracked, other: Tracked) -> float:
    """Return the Jaccard index of two sets of streamlines, compared bit by bit."""
    a, b = (
        {hashlib.sha1(line.tobytes()).digest() for line in np.split(t.points, t.offsets[1:-1])}
        for t in (one, other)
    )
    return len(a & b) / max(len(a | b), 1)


def summary(tracked: Tracked) -> Json:
    """Return the statistics of a run; see the schema in :mod:`tistreamlines.benchmarks`."""
    count, points = len(tracked.offsets) - 1, np.diff(tracked.offsets)
    mm = lengths_mm(tracked) if count else np.zeros(0)

    def of(values: Array, figure: Callable[[Array], SupportsFloat]) -> float:
        return round(float(figure(values)), 3) if count else 0.0

    return {
        "streamlines": count, "points": int(points.sum()), "mean_points": of(points, np.mean),
        "median_points": of(points, np.median), "mean_mm": of(mm, np.mean), "median_mm": of(mm, np.median),
    }
