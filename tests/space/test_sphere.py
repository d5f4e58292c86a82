"""The spheres of sampling directions, which are DIPY's."""

import numpy as np
import pytest
from dipy.core.sphere import HemiSphere
from dipy.data import get_sphere

from tistreamlines.space.sphere import SPHERES, load_sphere


@pytest.mark.parametrize("name", SPHERES)
def test_vertices_and_edges_are_dipys(name):
    source, half = SPHERES[name]
    sphere = get_sphere(name=source)
    expected = HemiSphere.from_sphere(sphere) if half else sphere
    vertices, edges = load_sphere(name)
    np.testing.assert_array_equal(vertices, expected.vertices)
    np.testing.assert_array_equal(np.signbit(vertices), np.signbit(expected.vertices))
    np.testing.assert_array_equal(edges, expected.edges)
