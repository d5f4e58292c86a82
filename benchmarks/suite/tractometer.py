"""What streamlines connect: the sides of the middle, and the ends of the bundles of a phantom."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tistreamlines.aliases import Array, Json
from tistreamlines.benchmarks.streamlines import RunStreamlines, density
from tistreamlines.phantom.phantom import Phantom
from tistreamlines.space.batch import Space

MIDDLE_MM = 2.0


def crossings(tracked: RunStreamlines, space: Space) -> Json:
    """Count streamlines with points on both sides of the midsagittal plane, and those with ends on both sides.

    Points within MIDDLE_MM of the plane do not count as on a side; ends always do, as in the benchmark of cuslines.
    """
    if len(tracked.offsets) < 2:
        return {"crossing": 0, "commissural": 0}
    x = tracked.points[:, 0] - float(space.to_ras((np.asarray(space.shape) - 1) / 2)[0])
    least = np.minimum.reduceat(x, tracked.offsets[:-1])
    greatest = np.maximum.reduceat(x, tracked.offsets[:-1])
    first, last = x[tracked.offsets[:-1]], x[tracked.offsets[1:] - 1]
    return {
        "crossing": int(((least < -MIDDLE_MM) & (greatest > MIDDLE_MM)).sum()),
        "commissural": int((first * last < 0).sum()),
    }


def truth(phantom: Phantom, tracked: RunStreamlines) -> Json:
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


def _selected(tracked: RunStreamlines, kept: Array) -> RunStreamlines:
    """Return the streamlines selected by a boolean array (n,)."""
    lengths = np.diff(tracked.offsets)
    points = tracked.points[np.repeat(kept, lengths)]
    return replace(tracked, points=points, offsets=np.concatenate([[0], np.cumsum(lengths[kept])]))
