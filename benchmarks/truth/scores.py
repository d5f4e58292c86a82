"""How the ends of streamlines are joined: valid, invalid and no connections."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Lines = Sequence[npt.NDArray[np.floating]]
Nodes = npt.NDArray[np.int64]


def nearest_ends(points: npt.ArrayLike, ends: Sequence[npt.ArrayLike], reach: float) -> Nodes:
    """Return the end of a bundle at which each point is.

    Parameters
    ----------
    points : (n, k), mm
    ends : sequence of (m, k), mm
        Places of each end; m may differ.
    reach : float, mm
        Farther points are at no end.

    Returns
    -------
    (n,) int64
        Index into ``ends``, or -1.
    """
    from scipy.spatial import KDTree

    node = np.repeat(np.arange(len(ends)), [len(np.asarray(end)) for end in ends])
    far, nearest = KDTree(np.concatenate(ends)).query(points, distance_upper_bound=reach)
    return np.where(np.isfinite(far), np.append(node, -1)[nearest], -1)


def outer_points(lines: Lines) -> npt.NDArray[np.float64]:
    """Return the first and last point of each streamline, (n, 2, 3) mm."""
    return np.array([(line[0], line[-1]) for line in lines], np.float64).reshape(-1, 2, 3)


def bundle_of(ends: Nodes, pairs: Sequence[tuple[int, int]]) -> Nodes:
    """Return the bundle that joins the two ends (n, 2) of each streamline, an index into ``pairs`` (n,), or -1."""
    count = 1 + max(max(pair) for pair in pairs)
    table = np.full((count + 1, count + 1), -1)  # the last row and column stand for no end
    for number, (first, second) in enumerate(pairs):
        table[first, second] = table[second, first] = number
    return table[ends[:, 0], ends[:, 1]]


def connections(lines: Lines, ends: Nodes, pairs: Sequence[tuple[int, int]]) -> dict[str, float]:
    """Score the connections of streamlines as Tractometer does.

    Parameters
    ----------
    lines : n streamlines (m, 3), mm
    ends : (n, 2) int64
        Ends of bundles that each one has reached, or -1.
    pairs : sequence of two int
        The ends that each bundle joins.

    Returns
    -------
    dict
        streamlines; VC, IC, NC : shares in % of those that join the two ends of a bundle, two others or one twice, and
        less than two; valid_bundles : % of the bundles with a valid streamline; mm, median_mm : lengths.

    Raises
    ------
    ValueError
        If there is no streamline.

    References
    ----------
    Côté, Girard, Boré, Garyfallidis, Houde, Descoteaux. Tractometer: towards validation of tractography pipelines.
    Medical Image Analysis 17, 2013.
    """
    if not lines:
        raise ValueError("there is no streamline of two points or more")
    bundle, joined = bundle_of(ends, pairs), (ends >= 0).all(axis=1)
    valid = bundle >= 0
    lengths = [np.linalg.norm(np.diff(line, axis=0), axis=1).sum() for line in lines]
    return {
        "streamlines": len(lines), "VC": 100 * valid.mean(), "IC": 100 * (joined & ~valid).mean(),
        "NC": 100 * (~joined).mean(), "valid_bundles": 100 * len(set(bundle[valid])) / len(pairs),
        "mm": float(np.mean(lengths)), "median_mm": float(np.median(lengths)),
    }
