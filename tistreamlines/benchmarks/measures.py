"""What is measured of streamlines: lengths, crossings, density, agreement, and truth where it is known."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..io.tractogram import Space

if TYPE_CHECKING:
    from ..phantom.phantom import Phantom
    from .tracked import Tracked

Array = npt.NDArray[Any]
MIDDLE_MM = 2.0
BINS = 40


def lengths_mm(tracked: Tracked) -> Array:
    """Length of each streamline, mm."""
    steps = np.linalg.norm(np.diff(tracked.points.astype(float), axis=0), axis=1)
    # a step from one streamline to the next counts for neither
    steps[tracked.offsets[1:-1] - 1] = 0
    ends = np.concatenate([[0], np.cumsum(steps)])
    return ends[tracked.offsets[1:] - 1] - ends[tracked.offsets[:-1]]


def middle_of(space: Space) -> float:
    """The x, RASmm, of the image's middle."""
    return float(space.to_ras((np.asarray(space.shape) - 1) / 2)[0])


def crossings(tracked: Tracked, middle: float) -> tuple[int, int]:
    """Streamlines with points on both sides of the middle sagittal plane, and those whose ends are.

    A point counts as on a side if it is more than MIDDLE_MM from the plane; an end counts wherever it is, as in the
    published benchmark of cuslines.
    """
    if len(tracked.offsets) < 2:
        return 0, 0
    x = tracked.points[:, 0] - middle
    least = np.minimum.reduceat(x, tracked.offsets[:-1])
    greatest = np.maximum.reduceat(x, tracked.offsets[:-1])
    first, last = x[tracked.offsets[:-1]], x[tracked.offsets[1:] - 1]
    return int(((least < -MIDDLE_MM) & (greatest > MIDDLE_MM)).sum()), int((first * last < 0).sum())


def density(tracked: Tracked, space: Space) -> Array:
    """Streamlines that have a point in each voxel, (x, y, z) int64."""
    voxel = np.rint(space.to_voxel(tracked.points)).astype(np.int64)
    inside = ((voxel >= 0) & (voxel < space.shape)).all(axis=1)
    line = np.repeat(np.arange(len(tracked.offsets) - 1), np.diff(tracked.offsets))[inside]
    size = int(np.prod(space.shape))
    visits = line * size + np.ravel_multi_index(tuple(voxel[inside].T), space.shape)
    visits = visits[np.flatnonzero(np.diff(visits, prepend=-1))]  # most stay in a voxel for some points: less to sort
    return np.bincount(np.unique(visits) % size, minlength=size).reshape(space.shape)


def correlation(one: Array, other: Array, mask: Array) -> float:
    """Pearson's, of two density maps in the mask."""
    a, b = one[mask].astype(float), other[mask].astype(float)
    return float(np.corrcoef(a, b)[0, 1]) if a.std() and b.std() else float("nan")


def length_ks(one: Array, other: Array) -> float:
    """Greatest difference of two cumulative distributions of lengths, mm (Kolmogorov and Smirnov)."""
    if not (len(one) and len(other)):
        return float("nan")
    # whole numbers of steps are equal lengths, however they were added up
    one, other = np.round(one, 2), np.round(other, 2)
    every = np.concatenate([one, other])
    shares = [np.searchsorted(np.sort(some), every, side="right") / len(some) for some in (one, other)]
    return float(np.abs(shares[0] - shares[1]).max())


def identical(one: Tracked, other: Tracked) -> float:
    """Share of the streamlines of either that the other has, bit for bit."""
    a, b = (
        {hashlib.sha1(line.tobytes()).digest() for line in np.split(t.points, t.offsets[1:-1])}
        for t in (one, other)
    )
    return len(a & b) / max(len(a | b), 1)


def summary(tracked: Tracked, space: Space) -> dict[str, Any]:
    """Numbers of a run; see the schema in :mod:`tistreamlines.benchmarks`."""
    count, points = len(tracked.offsets) - 1, np.diff(tracked.offsets)
    mm = lengths_mm(tracked) if count else np.zeros(0)
    crossing, commissural = crossings(tracked, middle_of(space))

    def of(some: Array, figure: Any) -> float:
        return round(float(figure(some)), 3) if count else 0.0

    return {
        "streamlines": count, "points": int(points.sum()), "mean_points": of(points, np.mean),
        "median_points": of(points, np.median), "mean_mm": of(mm, np.mean), "median_mm": of(mm, np.median),
        "crossing": crossing, "commissural": commissural,
    }  # fmt: skip


# ----------------------------------------------------------------------------------------------------------- truth
def truth(phantom: Phantom, tracked: Tracked) -> dict[str, Any]:
    """Valid, invalid and no connections, bundles found, overlap and overreach (Maier-Hein et al. 2017).

    A connection is valid if its ends lie in the two end regions of one bundle, invalid if in those of two bundles.
    Overlap is the share of a bundle's voxels that its valid streamlines visit, overreach the voxels outside that they
    visit over those of the bundle; both are means over the bundles.
    """
    space = Space(phantom.affine, phantom.mask.shape)
    count = len(tracked.offsets) - 1
    ends = np.stack([tracked.points[tracked.offsets[:-1]], tracked.points[tracked.offsets[1:] - 1]])
    voxel = np.clip(np.rint(space.to_voxel(ends)).astype(int), 0, np.asarray(space.shape) - 1)
    at = [tuple(voxel[k].T) for k in range(2)]
    valid, near = np.zeros(count, bool), np.zeros((2, count), bool)
    found, overlap, overreach = 0, [], []
    for bundle in phantom.bundles:
        a, b = bundle.ends
        joins = (a[at[0]] & b[at[1]]) | (b[at[0]] & a[at[1]])
        valid |= joins
        near |= np.stack([(a | b)[place] for place in at])
        found += bool(joins.any())
        visited, inside = density(_some(tracked, joins), space) > 0, bundle.membership > 0
        overlap.append((visited & inside).sum() / inside.sum())
        overreach.append((visited & ~inside).sum() / inside.sum())
    invalid = near.all(axis=0) & ~valid
    shares = {"valid": valid.mean(), "invalid": invalid.mean(), "none": (~valid & ~invalid).mean()} if count else {}
    return {k: round(float(v), 4) for k, v in shares.items()} | {
        "bundles": found, "overlap": round(float(np.mean(overlap)), 4),
        "overreach": round(float(np.mean(overreach)), 4),
    }  # fmt: skip


def _some(tracked: Tracked, kept: Array) -> Tracked:
    """The streamlines that are kept."""
    lengths = np.diff(tracked.offsets)
    points = tracked.points[np.repeat(kept, lengths)]
    return replace(tracked, points=points, offsets=np.concatenate([[0], np.cumsum(lengths[kept])]))
