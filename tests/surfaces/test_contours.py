"""Surfaces around masks, and their smoothing, against laws and MRtrix3's voxel2mesh and meshfilter."""

import re
import shutil
import subprocess

import nibabel as nib
import numpy as np
import pytest
from meshes import LIA
from scipy.spatial import cKDTree

from tistreamlines.io.surfaces import Surface
from tistreamlines.space.batch import Space
from tistreamlines.surfaces.contours import CODES, MOST, WAYS, _rings, contour
from tistreamlines.surfaces.enclosed import check_closed, enclosed
from tistreamlines.surfaces.smoothing import smooth

SIDE = 1.5
AFFINE = np.eye(4)
AFFINE[:3, :3], AFFINE[:3, 3] = LIA * SIDE, [10, 20, -30]


def blob(seed=3, size=10):
    """A mask of random voxels that touch each other in all ways, also at the border of the image."""
    return np.random.default_rng(seed).random((size, size + 1, size + 2)) < 0.4


def volume(surface):
    """The volume within a surface; positive if the triangles are counter-clockwise seen from outside."""
    return np.linalg.det(surface.vertices[surface.triangles]).sum() / 6


def test_each_edge_has_two_sides():
    """In all of the 256 cubes, most of which random voxels have."""
    for seed in range(6):
        surface = contour(blob(seed), Space(AFFINE, (10, 11, 12)))
        check_closed(surface)
        assert len(np.unique(surface.triangles)) == len(surface.vertices)
    rings = [_rings(code) for code in range(CODES)]
    assert max(sum(3 * (len(ring) - 2) for ring in of_code) for of_code in rings) == MOST
    assert sum(len(ring) > 3 for of_code in rings for ring in of_code) == len(WAYS)


@pytest.mark.parametrize("level", [0.001, 0.5, 0.9])
def test_level(level):
    """A block of voxels: its sides lie where the level says, and its corners and edges are cut."""
    mask = np.zeros((9, 9, 9), bool)
    mask[2:7, 3:7, 1:8] = True
    surface = contour(mask, Space(np.eye(4), mask.shape), level)
    beyond = 1 - level
    np.testing.assert_allclose(surface.vertices.min(axis=0), np.array([2, 3, 1]) - beyond)
    np.testing.assert_allclose(surface.vertices.max(axis=0), np.array([6, 6, 7]) + beyond)
    core, sides, edges = 4 * 3 * 6, 2 * (4 * 3 + 4 * 6 + 3 * 6), 4 * (4 + 3 + 6)
    expected = core + sides * beyond + edges * beyond**2 / 2 + 8 * beyond**3 / 6
    assert abs(volume(surface) - expected) < 1e-9


def test_storage_does_not_matter():
    """Axes in another order and sense give the same triangles."""
    mask = blob()
    image = nib.as_closest_canonical(nib.Nifti1Image(mask.astype(np.uint8), AFFINE))
    assert not np.allclose(image.affine, AFFINE)
    stored, canonical = (
        contour(values, Space(affine, values.shape))
        for values, affine in ((mask, AFFINE), (np.asarray(image.dataobj) > 0, image.affine))
    )
    assert np.array_equal(stored.triangles, canonical.triangles)
    np.testing.assert_allclose(stored.vertices, canonical.vertices, atol=1e-12)
    assert volume(stored) > 0


def test_what_is_too_small_to_smooth():
    mask = np.zeros((3, 3, 3), bool)
    space = Space(np.eye(4), mask.shape)
    nothing = smooth(contour(mask, space))
    assert not len(nothing.triangles)
    assert enclosed(nothing, space).values.size == 0
    mask[1, 1, 1] = True
    single = contour(mask, space)
    assert len(single.vertices) == 6
    assert smooth(single) is single


def test_smoothing_keeps_planes():
    """Far from its sides, a thick block stays as it is, and a noisy ball becomes rounder."""
    mask = np.zeros((40, 40, 12), bool)
    mask[2:38, 2:38, 3:9] = True
    smoothed = smooth(contour(mask, Space(np.eye(4), mask.shape)), extent=2.0)
    middle = (np.abs(smoothed.vertices[:, :2] - 19.5) < 5).all(axis=1)
    assert middle.sum() > 100
    assert np.abs(np.abs(smoothed.vertices[middle, 2] - 5.5) - 3).max() < 1e-6
    grid = np.stack(np.meshgrid(*[np.arange(30) - 14.5] * 3, indexing="ij"), axis=-1)
    ball = contour(np.linalg.norm(grid, axis=-1) < 12, Space(np.eye(4), (30, 30, 30)))
    rough, even = (np.linalg.norm(s.vertices - 14.5, axis=1).std() for s in (ball, smooth(ball)))
    assert even < rough / 4


def read_vtk(path):
    """Vertices and triangles of a file of MRtrix3's."""
    text = path.read_text()
    count, points, number, triangles = re.search(r"POINTS (\d+) \w+\n(.*)POLYGONS (\d+) \d+\n(.*)", text, re.S).groups()
    vertices = np.array(points.split(), float).reshape(int(count), 3)
    return vertices, np.array(triangles.split(), int).reshape(int(number), 4)[:, 1:]


@pytest.mark.skipif(shutil.which("meshfilter") is None, reason="MRtrix3's meshfilter is not installed")
def test_mrtrix_surfaces(tmp_path):
    """The same triangles, and the same vertices after smoothing."""
    mask = blob(size=7)
    nib.save(nib.Nifti1Image(mask.astype(np.uint8), AFFINE), tmp_path / "mask.nii")
    for words in ("voxel2mesh mask.nii -threshold 0.5 mesh.vtk", "meshfilter mesh.vtk smooth smooth.vtk"):
        subprocess.run([*words.split(), "-quiet"], cwd=tmp_path, check=True, capture_output=True, timeout=60)
    ours = contour(mask, Space(AFFINE, mask.shape))
    vertices, triangles = read_vtk(tmp_path / "mesh.vtk")
    apart, same = cKDTree(vertices).query(ours.vertices)
    assert apart.max() < 1e-4
    sets = [{tuple(sorted(corners)) for corners in surface.tolist()} for surface in (same[ours.triangles], triangles)]
    assert sets[0] == sets[1]
    theirs = read_vtk(tmp_path / "smooth.vtk")[0]
    assert np.abs(smooth(ours).vertices - theirs[same]).max() < 1e-4
    flipped = smooth(Surface(vertices, triangles[:, ::-1], ""))
    assert np.abs(flipped.vertices - theirs).max() < 1e-4
