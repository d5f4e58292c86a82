"""Streamlines of a run, and what tells them apart."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from scipy.spatial import cKDTree

from tistreamlines.space.batch import Batch


def joined(batches) -> Batch:
    """All batches as one."""
    batches = list(batches)
    ends = np.cumsum([0, *(b.offsets[-1] for b in batches)])
    offsets = np.concatenate([[0], *(b.offsets[1:] + end for b, end in zip(batches, ends, strict=False))])
    names = ("seeds", "seed_number", "direction_number", "stop_reasons")
    points, *others = (np.concatenate([getattr(b, n) for b in batches]) for n in ("points", *names))
    return Batch(points, offsets, *others)


def lines(batch: Batch) -> list[np.ndarray]:
    return np.split(batch.points, batch.offsets[1:-1])


def fingerprint(batch: Batch) -> str:
    return hashlib.sha256(batch.points.tobytes() + batch.offsets.tobytes() + batch.stop_reasons.tobytes()).hexdigest()


def batch_of(lines) -> Batch:
    """A batch of arrays of points, (n, 3), RASmm."""
    n, offsets = len(lines), np.cumsum([0, *map(len, lines)])
    return Batch(np.concatenate(lines), offsets, np.zeros((n, 3)), np.zeros(n), np.zeros(n), np.zeros((n, 2)))


def lengths(lines) -> np.ndarray:
    """Length of each line, (n,), mm."""
    return np.array([np.linalg.norm(np.diff(np.asarray(line), axis=0), axis=1).sum() for line in lines])


def through(lines: Sequence[np.ndarray], points: np.ndarray, near: float = 1e-4) -> list[list[int]]:
    """Numbers of the lines of which a point lies at each of ``points`` (n, 3)."""
    numbers = np.repeat(np.arange(len(lines)), [len(line) for line in lines])
    places = cKDTree(np.concatenate(lines)).query_ball_point(points, near)
    return [sorted({int(numbers[place]) for place in each}) for each in places]


def pieces(line, space):
    """Voxel and vector (mm) of each piece of a line, cut at the borders of voxels."""
    to_voxel = np.linalg.inv(space.affine)
    for a, b in pairwise(line):
        p, q = (to_voxel[:3, :3] @ point + to_voxel[:3, 3] + 0.5 for point in (a, b))
        borders = [np.arange(np.ceil(min(pair)), np.floor(max(pair)) + 1) for pair in zip(p, q, strict=True)]
        cuts = [(border - p[k]) / (q[k] - p[k]) for k, border in enumerate(borders)]
        t = np.unique(np.concatenate([[0, 1], *cuts]))
        for voxel, share in zip(np.floor(p + np.outer((t[1:] + t[:-1]) / 2, q - p)), np.diff(t), strict=True):
            if (voxel >= 0).all() and (voxel < space.shape).all():
                yield tuple(voxel.astype(int)), share * (b - a)
