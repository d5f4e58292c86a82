"""Points that lie on a line between others, beside DIPY's compress_streamlines."""

import numpy as np
import pytest
from dipy.tracking.streamlinespeed import compress_streamlines

from tistreamlines.space.batch import Batch
from tistreamlines.tracking.products.points.compression import compress_batch


def batch_of(points, lengths):
    n = len(lengths)
    return Batch(
        points, np.cumsum([0, *lengths]), np.zeros((n, 3)), np.arange(n), np.zeros(n), np.zeros((n, 2)),
        data_per_point={"x": np.asarray(points)[:, 0]},
    )


def smooth(rng):
    """Curves of steps of 0.8 mm, as of a tracker."""
    lengths = rng.integers(1, 120, 400)
    turns = np.cumsum(rng.normal(0, 0.15, (lengths.sum(), 3)), axis=0)
    return np.cumsum(0.8 * turns / np.linalg.norm(turns, axis=1)[:, None], axis=0), lengths


def repeated(rng):
    """Streamlines of few places, which come again."""
    lengths = rng.integers(1, 9, 2000)
    return rng.integers(0, 3, (lengths.sum(), 3)), lengths


def straight(rng):
    lengths = np.full(50, 60)
    return np.outer(np.arange(lengths.sum()), rng.normal(size=3)), lengths


@pytest.mark.parametrize("kind", [smooth, repeated, straight])
@pytest.mark.parametrize(("tolerance", "longest"), [(0.1, 10.0), (0.01, 10.0), (0.5, 3.0), (1.0, 1.0), (1e-9, 1e9)])
def test_points_are_those_of_dipy(kind, tolerance, longest):
    batch = batch_of(*kind(np.random.default_rng(2)))
    ours, theirs = compress_batch(batch, tolerance, longest), compress_streamlines(list(batch), tolerance, longest)
    for points, expected in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(points, expected)
    np.testing.assert_array_equal(ours.data_per_point["x"], ours.points[:, 0])
    assert np.array_equal(ours.seed_number, batch.seed_number)


@pytest.mark.parametrize("lengths", [(), (0,), (1,), (2,), (0, 3, 0, 0, 1, 2, 0)])
def test_few_points(lengths):
    points = np.random.default_rng(0).normal(size=(sum(lengths), 3))
    kept = compress_batch(batch_of(points, lengths), 0.01, 10)
    assert kept.lengths.tolist() == list(lengths)
    np.testing.assert_array_equal(kept.points, points.astype(np.float32))
