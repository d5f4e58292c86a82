"""Trilinear interpolation against scipy and DIPY, at the border too."""

from __future__ import annotations

import numpy as np
import pytest
from dialects import DIALECTS, RELATIVE, ints, reals, run
from dipy.core.interpolation import trilinear_interpolate4d
from interpolate_kernels import sample
from scipy.ndimage import map_coordinates

from tistreamlines.tracking.growth.chunk import z_order

SHAPE = (5, 6, 7)
POINTS = 300


def interpolated(dialect: str, data: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether points are inside, and their rows; rows lie in the table in an order of their own."""
    chunks = data.shape[3] // 32
    order = np.random.default_rng(1).permutation(np.prod(SHAPE))
    rows = np.zeros((len(order) + 1, data.shape[3]))
    rows[order + 1] = data.reshape(len(order), -1)
    values = {
        "volume_index": ((order + 1) * chunks).astype(np.int32), "volume_rows": rows, "volume_shape": np.array(SHAPE),
        "points": points, "found": ints(len(points)), "out": reals(len(points) * 32 * chunks),
    }
    held = run(dialect, sample, len(points), values, {"ROW_CHUNKS": chunks}, {"row": ("reals", 32 * chunks)})
    return held["found"], held["out"].reshape(len(points), -1)


@pytest.fixture(scope="module")
def data() -> np.ndarray:
    return np.random.default_rng(0).normal(100, 30, (*SHAPE, 64)).astype(np.float32).astype(float)


def inner_points(rng) -> np.ndarray:
    points = rng.uniform(0, np.array(SHAPE) - 1, (POINTS, 3))
    points[:40] = np.round(points[:40])  # centres of voxels
    points[40] = 0
    points[41] = np.array(SHAPE) - 1
    return points.astype(np.float32).astype(float)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_inside_it_is_scipys(dialect, data):
    points = inner_points(np.random.default_rng(2))
    inside, rows = interpolated(dialect, data, points)
    assert inside.all()
    for channel in (0, 31, 32, 63):
        expected = map_coordinates(data[..., channel], points.T, order=1, mode="nearest")
        assert np.allclose(rows[:, channel], expected, rtol=RELATIVE[dialect], atol=0)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_at_the_border_it_is_dipys(dialect, data):
    rng = np.random.default_rng(3)
    points = rng.uniform(-0.5, np.array(SHAPE) - 0.5, (POINTS, 3))
    axis = rng.integers(3, size=POINTS)
    low = rng.random(POINTS) < 0.5
    outer = np.where(low, rng.uniform(-0.5, 0, POINTS), np.array(SHAPE)[axis] - 1 + rng.uniform(0, 0.499, POINTS))
    points[np.arange(POINTS), axis] = outer
    points[0] = -0.5
    points = np.clip(points.astype(np.float32).astype(float), -0.5, None)
    inside, rows = interpolated(dialect, data, points)
    assert inside.all()
    expected = np.array([trilinear_interpolate4d(data, p) for p in points])
    assert np.allclose(rows, expected, rtol=RELATIVE[dialect], atol=0)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_outside_is_where_dipy_says(dialect, data):
    rng = np.random.default_rng(4)
    points = rng.uniform(-1.5, np.array(SHAPE) + 0.5, (POINTS, 3))
    points[:6] = [
        (-0.5, 2, 2), (np.nextafter(np.float32(-0.5), -1), 2, 2), (4.5, 2, 2), (np.nextafter(np.float32(4.5), 0), 2, 2),
        (2, 5.5, 2), (2, 2, 6.5),
    ]
    points = points.astype(np.float32).astype(float)
    inside, _ = interpolated(dialect, data, points)
    expected = []
    for p in points:
        try:
            trilinear_interpolate4d(data, p)
            expected.append(1)
        except IndexError:
            expected.append(0)
    assert inside.tolist() == expected
    assert inside[:6].tolist() == [1, 0, 0, 1, 0, 0]
    assert 0 < inside.mean() < 1


@pytest.mark.parametrize("dialect", ["python", "numba32"])
def test_a_voxel_without_a_row_counts_as_zero(dialect):
    data = np.ones((*SHAPE, 32))
    values = {
        "volume_index": np.zeros(np.prod(SHAPE), np.int32), "volume_rows": np.concatenate([np.zeros(32), data.ravel()]),
        "volume_shape": np.array(SHAPE), "points": np.array([1.5, 2.0, 3.0]), "found": ints(1), "out": reals(32),
    }
    index = values["volume_index"].reshape(SHAPE)
    index[1, 2, 3] = 1
    held = run(dialect, sample, 1, values, {"ROW_CHUNKS": 1}, {"row": ("reals", 32)})
    assert np.array_equal(held["out"], np.full(32, 0.5))


def test_neighbours_in_space_are_put_together():
    points = np.random.default_rng(3).uniform(-0.5, 150, (4000, 3)).astype(np.float32)
    order = z_order(points)
    assert np.array_equal(np.sort(order), np.arange(4000))
    apart = np.linalg.norm(np.diff(points[order], axis=0), axis=1).mean()
    assert apart < 0.25 * np.linalg.norm(np.diff(points, axis=0), axis=1).mean()
    assert len(z_order(points[:0])) == 0
