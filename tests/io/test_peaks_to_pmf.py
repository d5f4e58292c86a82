"""Peaks as values at the vertices of a sphere: beside DIPY's choice of vertices, and how far a vertex may be."""

from types import SimpleNamespace

import numpy as np
import pytest
from dipy.core.sphere import Sphere
from dipy.direction import DeterministicMaximumDirectionGetter
from dipy.direction.pmf import SimplePmfGen
from random_peaks import SHAPE, random_directions, some_peaks

from tistreamlines.io.orientations import peaks_to_pmf
from tistreamlines.space.sphere import SPHERES, load_sphere

VERTICES = {name: load_sphere(name)[0] for name in SPHERES}
pytestmark = pytest.mark.filterwarnings("ignore:The legacy:PendingDeprecationWarning")


def covering_angle(vertices) -> float:
    """Return the largest angle between any direction and the nearest vertex or its opposite.

    Parameters
    ----------
    vertices : (n, 3)
        Unit vectors of a sphere or hemisphere.

    Returns
    -------
    angle : float, degrees
        The farthest directions are the normals of the facets of the convex hull of all vertices and their opposites;
        the cosine of their angle is the facet's distance from the centre.

    Raises
    ------
    ValueError
        If the vertices lie in one plane.
    """
    from scipy.spatial import ConvexHull, QhullError

    points = np.asarray(vertices, np.float64)
    try:
        hull = ConvexHull(np.concatenate([points, -points]))
    except QhullError as error:
        raise ValueError(f"{len(points)} vertices lie in one plane and cover no sphere") from error
    return float(np.degrees(np.arccos(-hull.equations[:, 3].max())))


def closest_by_dipy(directions, vertices):
    """Vertex that DIPY's ``find_closest`` takes, read off a pmf whose values are the vertices' numbers."""
    numbers = np.tile(np.arange(len(vertices), dtype=float), (2, 2, 2, 1))
    # DIPY's Sphere would recompute the vertices from angles, and ties would go
    pmf = SimplePmfGen(numbers, SimpleNamespace(vertices=vertices))
    return np.array([pmf.get_pmf_value(np.full(3, 0.5), direction) for direction in directions]).round().astype(int)


@pytest.mark.parametrize("sphere", SPHERES)
def test_peaks_go_where_dipy_finds_the_closest(sphere):
    vertices, rng = VERTICES[sphere], np.random.default_rng(6)
    between = vertices + vertices[rng.permutation(len(vertices))]
    directions = np.concatenate([random_directions(1500) * 3, vertices, -vertices, between])
    pmf = peaks_to_pmf(directions[:, None, None, None], vertices)[:, 0, 0]
    assert pmf.dtype == np.float32
    assert np.array_equal(pmf.argmax(axis=1), closest_by_dipy(directions, vertices))
    assert np.array_equal(pmf.max(axis=1), np.linalg.norm(directions, axis=1).astype(np.float32))
    assert (np.count_nonzero(pmf, axis=1) == 1).all()


def test_ties_go_to_the_first_vertex():
    axes = np.eye(3)
    ties = np.array([[1.0, 1, 0], [0, -1, 1], [-1, -1, -1], [1, 0, -1]])
    pmf = peaks_to_pmf(ties[:, None, None, None], axes)[:, 0, 0]
    assert pmf.argmax(axis=1).tolist() == closest_by_dipy(ties, axes).tolist() == [0, 1, 0, 0]
    # a whole sphere has each vertex twice
    doubled = np.concatenate([axes, -axes])
    assert peaks_to_pmf(-axes[:, None, None, None], doubled)[:, 0, 0].argmax(axis=1).tolist() == [0, 1, 2]


def test_amplitudes_at_one_vertex_add_up():
    peaks = np.zeros((1, 2, 1, 3, 3), np.float32)
    peaks[0, 1, 0] = [[2, 0.1, 0], [-1, 0, 0.1], [0, 0, 0.5]]
    pmf = peaks_to_pmf(peaks, np.eye(3))
    assert not pmf[0, 0].any()
    assert np.allclose(pmf[0, 1, 0], [np.hypot(2, 0.1) + np.hypot(1, 0.1), 0, 0.5], rtol=1e-7)


def test_blocks_leave_no_trace(monkeypatch):
    peaks = some_peaks()
    whole = peaks_to_pmf(peaks, VERTICES["small"])
    assert whole.shape == (*SHAPE, 181)
    assert np.allclose(whole.sum(axis=3), np.linalg.norm(peaks, axis=4).sum(axis=3), rtol=1e-6)
    monkeypatch.setattr("tistreamlines.io.orientations.BLOCK", 7)
    assert np.array_equal(peaks_to_pmf(peaks, VERTICES["small"]), whole)


def test_dipy_starts_along_the_peaks():
    peaks = some_peaks(1)
    peaks[::2] = some_peaks(1)[1]
    vertices = VERTICES["default"]
    pmf = peaks_to_pmf(peaks, vertices)
    getter = DeterministicMaximumDirectionGetter.from_pmf(pmf.astype(float), 60, Sphere(xyz=vertices))
    bound = np.cos(np.radians(covering_angle(vertices)))
    for voxel in np.ndindex(2, 3, 4):  # DIPY has no direction at the far faces
        directions = getter.initial_direction(np.array(voxel, float))
        unit = peaks[voxel][0] / np.linalg.norm(peaks[voxel])
        assert len(directions) == 1
        assert abs(directions[0] @ unit) >= bound


def test_no_peaks_give_an_empty_pmf():
    assert peaks_to_pmf(np.zeros((2, 2, 2, 0, 3)), np.eye(3)).shape == (2, 2, 2, 3)
    assert not peaks_to_pmf(np.zeros((2, 2, 2, 3, 3)), np.eye(3)).any()


@pytest.mark.parametrize(
    ("peaks", "vertices"), [((2, 2, 2, 9), (5, 3)), ((2, 2, 2, 3, 2), (5, 3)), ((1, 1, 1, 1, 3), (5,))]
)
def test_peaks_of_another_shape_are_refused(peaks, vertices):
    with pytest.raises(ValueError, match=r"peaks are \(x, y, z, k, 3\)"):
        peaks_to_pmf(np.ones(peaks), np.ones(vertices))


def icosahedron():
    golden = (1 + np.sqrt(5)) / 2
    points = np.array([[0, 1, golden], [0, -1, golden]])
    points = np.concatenate([np.roll(points, shift, axis=1) for shift in range(3)])
    return points / np.linalg.norm(points, axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("vertices", "angle"),
    [
        (np.eye(3), np.degrees(np.arccos(1 / np.sqrt(3)))),  # axes; the farthest is the cube's diagonal
        (np.array([[1, 1, 1], [-1, 1, 1], [1, -1, 1], [1, 1, -1]]) / np.sqrt(3), np.degrees(np.arccos(1 / np.sqrt(3)))),
        (icosahedron(), np.degrees(np.arctan(3 - np.sqrt(5)))),
    ],
    ids=["octahedron", "cube", "icosahedron"],
)
def test_covering_angle_of_solids(vertices, angle):
    assert covering_angle(vertices) == pytest.approx(angle, abs=1e-9)
    assert covering_angle(np.concatenate([vertices, -vertices])) == pytest.approx(angle, abs=1e-9)


@pytest.mark.parametrize(("sphere", "angle"), [("default", 5.51), ("full", 5.51), ("small", 6.93)])
def test_covering_angle_of_the_spheres(sphere, angle):
    vertices = VERTICES[sphere]
    bound = covering_angle(vertices)
    assert bound == pytest.approx(angle, abs=0.005)
    cosines = np.abs(random_directions(8000) @ vertices.T).max(axis=1)
    farthest = np.degrees(np.arccos(cosines.min()))
    assert bound - 0.5 < farthest <= bound


def test_a_plane_covers_no_sphere():
    flat = np.stack([np.cos([0, 1, 2, 3]), np.sin([0, 1, 2, 3]), np.zeros(4)], axis=1)
    with pytest.raises(ValueError, match="4 vertices lie in one plane"):
        covering_angle(flat)
