"""The half sphere of MRtrix3's directions: its hull, its spacing, and what its weights integrate."""

import math

import numpy as np
import pytest
from scipy.spatial import ConvexHull

from tistreamlines.space.geodesic import BISECTIONS, ORDER, half_sphere, quadrature_weights
from tistreamlines.space.harmonics import degrees, sampling_matrix


def test_there_are_mrtrixs_1281_directions():
    """The first azimuths and elevations of ``tesselation_1281`` in MRtrix3, which has five digits of each."""
    directions, _ = half_sphere()
    assert directions.shape == (1281, 3)
    np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 1)
    for azimuth, elevation in ((0.55357, 1.57080), (2.58802, 1.57080), (0, 0.55357), (0, 2.58802), (1.57080, 1.01722)):
        there = math.sin(elevation) * np.array([math.cos(azimuth), math.sin(azimuth), 0]) + [0, 0, math.cos(elevation)]
        assert np.abs(directions @ there).max() > 1 - 1e-9


@pytest.mark.parametrize("bisections", [0, 1, BISECTIONS])
def test_neighbours_are_those_of_the_convex_hull(bisections):
    directions, edges = half_sphere(bisections)
    count = len(directions)
    assert count == 5 * 4**bisections + 1
    triangles = ConvexHull(np.concatenate([directions, -directions])).simplices % count
    expected = {tuple(sorted(pair)) for a, b, c in triangles.tolist() for pair in ((a, b), (b, c), (a, c))}
    assert set(map(tuple, edges.tolist())) == expected


def test_no_direction_is_far_from_the_nearest_one():
    directions, edges = half_sphere()
    angles = np.degrees(np.arccos(np.abs((directions[edges[:, 0]] * directions[edges[:, 1]]).sum(axis=1))))
    assert 3.5 < angles.min() < angles.max() < 5
    anywhere = np.random.default_rng(1).normal(size=(5000, 3))
    nearest = np.abs(anywhere @ directions.T).max(axis=1) / np.linalg.norm(anywhere, axis=1)
    assert np.degrees(np.arccos(nearest)).max() < 2.8


def test_weights_integrate_harmonics():
    weights, (directions, _) = quadrature_weights(), half_sphere()
    sums = weights @ sampling_matrix(directions, ORDER, "tournier07")
    expected = np.where(degrees(ORDER)[0] == 0, math.sqrt(4 * math.pi), 0)
    np.testing.assert_allclose(sums, expected, atol=1e-9)
    assert weights.min() > 0


def test_weights_integrate_another_function():
    """The integral of exp(x) over the sphere is 4 pi sinh(1), of which the half sphere sees the even part."""
    directions, _ = half_sphere()
    np.testing.assert_allclose(quadrature_weights() @ np.cosh(directions[:, 0]), 4 * math.pi * math.sinh(1), rtol=1e-12)
