"""Shares of voxels within closed surfaces, against closed forms along z: balls, rings and folded sheets."""

import shutil
import subprocess

import nibabel as nib
import numpy as np
import pytest
from meshes import icosphere, save_freesurfer, sheet, torus

from tistreamlines.errors import InputError
from tistreamlines.io.surfaces import Surface
from tistreamlines.space.batch import Space
from tistreamlines.surfaces.enclosed import check_closed, enclosed

GRID = Space(np.eye(4), (24, 25, 26))
MIDDLE = np.array([11.6, 12.3, 12.9])
OBLIQUE = np.array([[0.9, 0.3, 0.1, 4], [-0.2, 1.1, 0.3, -5], [0.1, -0.2, 0.8, 6], [0, 0, 0, 1]])
SAMPLES = 16  # along x and y of a voxel
SIDES = (2.25, 20.75), (3.125, 21.375)  # between samples


def fold(x, y):
    """The height of a sheet with gyri 8 voxels apart."""
    return MIDDLE[2] + 3 * np.sin(x * np.pi / 4) * np.cos(y * np.pi / 5)


def ball(x, y):
    return 0 * x + MIDDLE[2], np.sqrt(np.maximum(81 - (x - MIDDLE[0]) ** 2 - (y - MIDDLE[1]) ** 2, 0))


def ring(x, y):
    across = np.hypot(x - MIDDLE[0], y - MIDDLE[1]) - 7
    return 0 * x + MIDDLE[2], np.sqrt(np.maximum(3.2**2 - across**2, 0))


def folded(x, y):
    (left, right), (front, back) = SIDES
    return fold(x, y), np.where((x > left) & (x < right) & (y > front) & (y < back), 1.3, 0)


SHAPES = {
    "ball": (icosphere(5, 9.0, MIDDLE), ball),
    "ring": (torus(7.0, 3.2, MIDDLE), ring),
    "folded sheet": (sheet(fold, 2.6, SIDES), folded),
}


def shares_of(interval):
    """The share of each voxel of GRID in a shape whose middle and half height along z are known for any x and y."""
    x, y = (np.arange(count * SAMPLES) / SAMPLES - 0.5 + 0.5 / SAMPLES for count in GRID.shape[:2])
    middle, half = interval(*np.meshgrid(x, y, indexing="ij"))
    bottoms = np.arange(GRID.shape[2]) - 0.5
    low, high = ((middle + sign * half)[..., None] - bottoms for sign in (-1, 1))
    columns = high.clip(0, 1) - low.clip(0, 1)
    return columns.reshape(GRID.shape[0], SAMPLES, GRID.shape[1], SAMPLES, -1).mean(axis=(1, 3))


def spread(shares, shape):
    values = np.zeros(shape, np.float32)
    values[shares.box] = shares.values
    return values


def inside(vertices, triangles, space=GRID):
    return spread(enclosed(Surface(vertices, triangles, "test"), space), space.shape)


@pytest.mark.parametrize("name", SHAPES)
def test_closed_forms(name):
    (vertices, triangles), interval = SHAPES[name]
    expected = shares_of(interval)
    values = inside(vertices, triangles)
    assert ((expected > 0.01) & (expected < 0.99)).sum() > 500
    assert np.abs(values - expected).max() < 0.02
    assert np.abs(values.sum() - expected.sum()) < 2e-3 * expected.sum()
    assert (inside(vertices, triangles[:, ::-1]) == values).all()  # which side is called outside does not matter


def test_any_grid():
    """A grid that is rotated and sheared: the voxel coordinates are the same, and so are the shares."""
    (vertices, triangles), _ = SHAPES["ring"]
    space = Space(OBLIQUE, GRID.shape)
    assert np.abs(inside(space.to_ras(vertices), triangles, space) - inside(vertices, triangles)).max() < 1e-6


@pytest.mark.parametrize("name", ["ball", "folded sheet"])
def test_surfaces_that_leave_the_grid(name):
    (vertices, triangles), _ = SHAPES[name]
    whole = inside(vertices, triangles)
    for low, high in (((7, 8, 9), (17, 17, 16)), ((0, 0, 14), (24, 25, 26)), ((0, 0, 0), (24, 25, 9))):
        part = inside(vertices, triangles, GRID.part(low, high))
        assert np.abs(part - whole[tuple(map(slice, low, high))]).max() < 1e-6
    for place in ([0, 0, 40], [0, 0, -40], [60, 0, 0], [0, -60, 0]):
        assert not inside(vertices + place, triangles).any()


def test_planes_of_voxels():
    """A box whose sides lie on planes between voxels, and one a quarter of a voxel wider."""
    corners = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)])
    faces = np.array([[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]])
    triangles = np.concatenate([faces[:, [0, 1, 2]], faces[:, [0, 2, 3]]])
    check_closed(Surface(corners + 0.0, triangles, "box"))
    values = inside(corners * [3, 4, 5] + 2.5, triangles)
    assert values.sum() == values[3:6, 3:7, 3:8].sum() == 60
    values = inside(corners * [3.5, 4, 5] + [2.25, 2.5, 2.5], triangles)
    assert (values[[2, 6], 3:7, 3:8] == 0.25).all()
    assert values.sum() == 70


def test_shells():
    """A surface within another one, with the outside on the other side, is a hole; two balls are two balls."""
    vertices, triangles = SHAPES["ball"][0]
    small = icosphere(3, 4.0, MIDDLE)
    both = np.concatenate([vertices, small[0]])
    hollow = inside(both, np.concatenate([triangles, small[1][:, ::-1] + len(vertices)]))
    assert np.abs(hollow - (inside(vertices, triangles) - inside(*small))).max() < 1e-3
    twice = inside(both, np.concatenate([triangles, small[1] + len(vertices)]))
    assert np.abs(twice - inside(vertices, triangles)).max() < 1e-3


def test_what_is_not_closed():
    vertices, triangles = icosphere(2)
    check_closed(Surface(vertices, triangles, "ball"))
    for wrong, words in ((triangles[1:], "(3 edges"), (triangles[:0], "(0 edges"),
                         (np.concatenate([triangles[:1, ::-1], triangles[1:]]), "(3 edges")):
        with pytest.raises(InputError, match=r"^ball: is not closed") as raised:
            check_closed(Surface(vertices, wrong, "ball"))
        assert words in str(raised.value)


@pytest.mark.skipif(shutil.which("mesh2voxel") is None, reason="MRtrix3's mesh2voxel is not installed")
def test_mrtrix_shares(tmp_path):
    """MRtrix3 counts samples, 1000 a voxel, and judges each by the nearest triangle."""
    vertices, triangles = icosphere(3, 6.0, MIDDLE)
    save_freesurfer(tmp_path / "ball.surf", vertices, triangles)
    nib.save(nib.Nifti1Image(np.zeros(GRID.shape, np.float32), GRID.affine), tmp_path / "grid.nii")
    for words in ("meshconvert ball.surf ball.obj", "mesh2voxel ball.obj grid.nii out.nii"):
        subprocess.run([*words.split(), "-quiet"], cwd=tmp_path, check=True, capture_output=True, timeout=60)
    theirs = np.asarray(nib.load(tmp_path / "out.nii").dataobj)
    assert np.abs(inside(vertices, triangles) - theirs).max() < 0.03
