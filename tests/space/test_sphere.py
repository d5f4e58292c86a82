"""The spheres of sampling directions, which are DIPY's, and their cells."""

import numpy as np
import pytest
from dipy.core.sphere import HemiSphere
from dipy.data import get_sphere

from tistreamlines.kernels.lanes import HALF_WIDTH
from tistreamlines.space.geodesic import half_sphere
from tistreamlines.space.sphere import SIZE, SPHERES, WORD, cell_table, load_sphere


@pytest.mark.parametrize("name", SPHERES)
def test_vertices_and_edges_are_dipys(name):
    source, half = SPHERES[name]
    sphere = get_sphere(name=source)
    expected = HemiSphere.from_sphere(sphere) if half else sphere
    vertices, edges = load_sphere(name)
    np.testing.assert_array_equal(vertices, expected.vertices)
    np.testing.assert_array_equal(np.signbit(vertices), np.signbit(expected.vertices))
    np.testing.assert_array_equal(edges, expected.edges)


@pytest.mark.parametrize("count", [1, 5, 6, 20, 1281])
def test_each_cell_lists_the_vertex_nearest_to_any_direction_in_it(count):
    rng = np.random.default_rng(count)
    vertices = half_sphere()[0] if count == 1281 else rng.normal(size=(count, 3))
    vertices = vertices / np.linalg.norm(vertices, axis=1, keepdims=True)
    cells, sizes = cell_table(vertices)
    words = np.stack([cells.first, *cells.further.reshape(-1, len(cells.first))])
    shifts = sizes.cell_bits * np.arange(WORD // sizes.cell_bits)
    listed = (words[..., None] >> shifts) & ((1 << sizes.cell_bits) - 1)  # (words, cells, together)
    directions = rng.normal(size=(20_000, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    face, rows = np.abs(directions).argmax(axis=1), np.arange(len(directions))
    directions *= np.sign(directions[rows, face])[:, None]
    aside = np.array([(1, 2), (0, 2), (0, 1)])[face]
    u, v = ((directions[rows, axis] + HALF_WIDTH) * (SIZE / (2 * HALF_WIDTH)) for axis in aside.T)
    near = listed[:, (face * SIZE + u.astype(int)) * SIZE + v.astype(int)]
    assert (near == np.abs(directions @ vertices.T).argmax(axis=1)[:, None]).any(axis=(0, 2)).all()
