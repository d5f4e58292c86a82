"""Measures of streamlines: lengths, crossings, density, agreement, and comparison with the truth of a phantom."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, SupportsFloat

import numpy as np

from ..aliases import Array, Json
from ..space.batch import Space

if TYPE_CHECKING:
    from ..phantom.phantom import Phantom
    from .tracked import Tracked

MIDDLE_MM = 2.0
BINS = 40


def lengths_mm(tracked: Tracked) -> Array:
    """Return the length of each streamline, (n,) float64, mm."""
    steps = np.linalg.norm(np.diff(tracked.points.astype(float), axis=0), axis=1)
    # the step from one streamline to the next does not count
    steps[tracked.offsets[1:-1] - 1] = 0
    ends = np.concatenate([[0], np.cumsum(steps)])
    return ends[tracked.offsets[1:] - 1] - ends[tracked.offsets[:-1]]


def crossings(tracked: Tracked, middle: float) -> tuple[int, int]:
    """Count streamlines with points on both sides of the midsagittal plane, and those with ends on both sides.

    Points within MIDDLE_MM of the plane do not count as on a side; ends always do, as in the benchmark of cuslines.
    """
    if len(tracked.offsets) < 2:
        return 0, 0
    x = tracked.points[:, 0] - middle
    least = np.minimum.reduceat(x, tracked.offsets[:-1])
    greatest = np.maximum.reduceat(x, tracked.offsets[:-1])
    first, last = x[tracked.offsets[:-1]], x[tracked.offsets[1:] - 1]
    return int(((least < -MIDDLE_MM) & (greatest > MIDDLE_MM)).sum()), int((first * last < 0).sum())


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


def summary(tracked: Tracked, space: Space) -> Json:
    """Return the statistics of a run; see the schema in :mod:`tistreamlines.benchmarks`."""
    count, points = len(tracked.offsets) - 1, np.diff(tracked.offsets)
    mm = lengths_mm(tracked) if count else np.zeros(0)
    centre = space.to_ras((np.asarray(space.shape) - 1) / 2)
    crossing, commissural = crossings(tracked, float(centre[0]))

    def of(values: Array, figure: Callable[[Array], SupportsFloat]) -> float:
        return round(float(figure(values)), 3) if count else 0.0

    return {
        "streamlines": count, "points": int(points.sum()), "mean_points": of(points, np.mean),
        "median_points": of(points, np.median), "mean_mm": of(mm, np.mean), "median_mm": of(mm, np.median),
        "crossing": crossing, "commissural": commissural,
    }


# ----------------------------------------------------------------------------------------------------------- truth
def truth(phantom: Phantom, tracked: Tracked) -> Json:
    """Return the Tractometer measures of streamlines in a phantom (Maier-Hein et al. 2017).

    A connection is valid if its ends lie in the two end regions of one bundle, and invalid if they lie in end regions
    of two bundles. Overlap is the fraction of a bundle's voxels that its valid streamlines visit; overreach is the
    number of voxels that they visit outside the bundle, relative to its size. Both are means over the bundles.
    """
    space = Space(phantom.affine, phantom.mask.shape)
    count = len(tracked.offsets) - 1
    ends = np.stack([tracked.points[tracked.offsets[:-1]], tracked.points[tracked.offsets[1:] - 1]])
    voxel = np.clip(np.rint(space.to_voxel(ends)).astype(int), 0, np.asarray(space.shape) - 1)
    at = [tuple(voxel[k].T) for k in range(2)]
    valid, near = np.zeros(count, bool), np.zeros((2, count), bool)
    joined, overlap, overreach = 0, [], []
    for bundle in phantom.bundles:
        a, b = bundle.ends
        joins = (a[at[0]] & b[at[1]]) | (b[at[0]] & a[at[1]])
        valid |= joins
        near |= np.stack([(a | b)[place] for place in at])
        joined += bool(joins.any())
        visited, inside = density(_selected(tracked, joins), space) > 0, bundle.membership > 0
        overlap.append((visited & inside).sum() / inside.sum())
        overreach.append((visited & ~inside).sum() / inside.sum())
    invalid = near.all(axis=0) & ~valid
    shares = {"valid": valid.mean(), "invalid": invalid.mean(), "none": (~valid & ~invalid).mean()} if count else {}
    return {k: round(float(v), 4) for k, v in shares.items()} | {
        "bundles": joined, "overlap": round(float(np.mean(overlap)), 4),
        "overreach": round(float(np.mean(overreach)), 4),
    }


def _selected(tracked: Tracked, kept: Array) -> Tracked:
    """Return the streamlines selected by a boolean array (n,)."""
    lengths = np.diff(tracked.offsets)
    points = tracked.points[np.repeat(kept, lengths)]
    return replace(tracked, points=points, offsets=np.concatenate([[0], np.cumsum(lengths[kept])]))
