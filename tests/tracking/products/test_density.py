"""The density of streamlines, compared with exact fractions, with DIPY and with MRtrix3's tckmap."""

import shutil
import subprocess
from fractions import Fraction
from itertools import pairwise

import nibabel as nib
import numpy as np
import pytest
from dipy.tracking.utils import density_map
from streamlines import batch_of

from tistreamlines.errors import ParameterError
from tistreamlines.io.writer import TractogramWriter
from tistreamlines.space.batch import Space
from tistreamlines.tracking.products.density import density
from tistreamlines.tracking.products.density.density import Density
from tistreamlines.tracking.products.density.map import grid_of_map
from tistreamlines.tracking.products.grid import finer

GRID = Space(np.eye(4), (6, 5, 7))
TURNED = np.array([[0.8, -0.9, 0.1, 3], [0.6, 1.1, 0, -2], [0.2, 0.3, 2, 1], [0, 0, 0, 1.0]])  # sheared, too


def counted(lines, space=GRID, step=4.0, threads=2):
    product = Density(space, step, threads)
    product.add(batch_of(lines))
    return product.counts()


def voxels_of(line, shape):
    """Voxels that hold a point of a line, with exact fractions: (n, 3) whole multiples of 2^-20 voxels."""
    voxels = set()
    for a, b in zip(line, line[1:] if len(line) > 1 else line, strict=False):
        a, b = ([Fraction(int(number), 2**20) for number in point] for point in (a, b))
        cuts = {Fraction(0), Fraction(1)}
        for p, q in zip(a, b, strict=True):
            if p != q:
                low, high = sorted((p, q))
                cuts |= {(border - p) / (q - p) for border in range(int(low // 1), int(high // 1) + 2)}
        cuts = sorted(cut for cut in cuts if 0 <= cut <= 1)
        for t in [*cuts, *((u + v) / 2 for u, v in pairwise(cuts))]:
            voxel = tuple(int((p + t * (q - p)) // 1) for p, q in zip(a, b, strict=True))
            if all(0 <= i < n for i, n in zip(voxel, shape, strict=True)):
                voxels.add(voxel)
    return voxels


def oracle(lines, space):
    """Counts of lines (RASmm) by :func:`voxels_of`."""
    counts, inverse = np.zeros(space.shape, int), np.linalg.inv(space.affine)
    for line in lines:
        points = np.asarray(line, np.float32).astype(float)
        fixed = np.floor((points @ inverse[:3, :3].T + inverse[:3, 3] + 0.5) * 2**20)
        for voxel in voxels_of(fixed, space.shape):
            counts[voxel] += 1
    return counts


@pytest.mark.parametrize("affine", [np.eye(4), np.diag([-2.0, 0.5, 1, 1]), TURNED])
def test_random_lines_pass_the_voxels_of_exact_fractions(affine):
    space, rng = Space(affine, (6, 5, 7)), np.random.default_rng(1)
    lines = [space.to_ras(rng.uniform(-2, 8, (rng.integers(1, 6), 3))) for _ in range(150)]
    assert np.array_equal(counted(lines, space, 40.0), oracle(lines, space))


def test_points_and_lines_on_borders_edges_and_corners():
    rng = np.random.default_rng(2)
    lines = [rng.integers(-2, 14, (rng.integers(1, 6), 3)) / 2.0 for _ in range(500)]
    assert np.array_equal(counted(lines), oracle(lines, GRID))
    diagonal = counted([np.array([[0.0, 0, 0], [3, 3, 3]])])
    assert diagonal.sum() == 4  # through corners only
    # the corner (1/2, 1/2) belongs to the voxel above it on both axes
    opposite = counted([np.array([[0.0, 1, 0], [1, 0, 0]])])
    assert sorted(map(tuple, np.argwhere(opposite)[:, :2])) == [(0, 1), (1, 0), (1, 1)]


def test_a_streamline_counts_once_and_nothing_outside():
    there_and_back = np.array([[0.0, 0, 0], [5, 0, 0], [0, 0, 0]])
    counts = counted([there_and_back, there_and_back, there_and_back + 100])
    assert (counts[:, 0, 0] == 2).all()
    assert counts.sum() == 12


def test_threads_batches_and_sums_change_nothing(monkeypatch):
    rng = np.random.default_rng(3)
    lines = [np.cumsum(rng.normal(0, 0.4, (20, 3)), axis=0) + 3 for _ in range(300)]
    expected = counted(lines, threads=1)
    monkeypatch.setattr(density, "STREAMLINES", 7)
    product = Density(GRID, 4.0, 4)
    for first in range(0, 300, 23):
        product.add(batch_of(lines[first : first + 23]))
    assert np.array_equal(product.counts(), expected)
    assert np.array_equal(product.counts(), expected), "asked twice"


def test_dipys_map_of_dense_points():
    """Points a hundredth of a voxel apart miss only voxels that a segment cuts at an edge by less than that."""
    rng, space = np.random.default_rng(4), Space(np.diag([2.0, 2, 2, 1]), (20, 20, 20))
    lines = []
    for _ in range(100):
        knots = 20 + np.cumsum(rng.normal(0, 1.0, (12, 3)), axis=0).clip(-18, 18)
        at = np.arange(0, 11, 0.01)
        lines.append(np.stack([np.interp(at, np.arange(12), knots[:, k]) for k in range(3)], 1).astype(np.float32))
    ours, theirs = counted(lines, space), density_map(lines, space.affine, space.shape)
    assert (ours >= theirs).all()
    assert np.mean(ours[ours > 0] == theirs[ours > 0]) > 0.95
    assert (ours - theirs).sum() < 0.01 * theirs.sum()
    # of single points, the two rules are one
    points = [line[i : i + 1] for line in lines for i in range(0, 1100, 7)]
    assert np.array_equal(counted(points, space), density_map(points, space.affine, space.shape))


@pytest.mark.skipif(shutil.which("tckmap") is None, reason="MRtrix3 is not installed")
def test_mrtrix3s_tckmap(tmp_path):
    rng, space = np.random.default_rng(5), Space(np.diag([2.0, 2, 2, 1]), (20, 20, 20))
    ways = [np.cumsum(rng.normal(0, 0.1, (80, 3)) + rng.normal(0, 0.3, 3), axis=0) for _ in range(400)]
    lines = [20 + way / np.linalg.norm(np.diff(way, axis=0), axis=1).mean() * 0.5 for way in ways]
    with TractogramWriter(tmp_path / "a.tck", space, step_mm=0.5) as writer:
        writer.write(batch_of(lines))
    nib.save(nib.Nifti1Image(np.zeros(space.shape, np.uint8), space.affine), tmp_path / "grid.nii")
    ours, agreement = counted(lines, space), {}
    for finer_steps in ((), ("-upsample", "40")):
        command = ["tckmap", "-quiet", "-force", "-template", "grid.nii", *finer_steps, "a.tck", "map.nii"]
        subprocess.run(command, cwd=tmp_path, check=True)
        theirs = np.asarray(nib.load(tmp_path / "map.nii").dataobj)
        passed = (ours > 0) | (theirs > 0)
        same = np.mean(ours[passed] == theirs[passed])
        agreement[finer_steps] = np.corrcoef(ours[passed], theirs[passed])[0, 1], same, theirs.sum()
    # tckmap samples a spline through the points, so it misses the corners that lie between two samples
    default, fine = agreement.values()
    assert default[0] > 0.995
    assert default[1] > 0.7
    assert fine[0] > 0.999
    assert fine[1] > 0.95
    assert default[2] < fine[2]


@pytest.mark.skipif(shutil.which("tckmap") is None, reason="MRtrix3 is not installed")
def test_a_grid_of_mrtrix3(tmp_path):
    """Finer, turned, with axes in another order, as mrgrid and mrtransform write it: the map has tckmap's grid."""
    nib.save(nib.Nifti1Image(np.zeros((9, 8, 7), np.uint8), np.diag([2.0, 2, 2, 1])), tmp_path / "coarse.nii")
    np.savetxt(tmp_path / "turn.txt", [[0.94, -0.342, 0, 5], [0.342, 0.94, 0, -7], [0, 0, 1, 3], [0, 0, 0, 1]])
    rng = np.random.default_rng(3)
    lines = [np.cumsum(rng.normal((0.3, 0.2, 0.1), 0.1, (60, 3)), axis=0) for _ in range(100)]
    with TractogramWriter(tmp_path / "a.tck", GRID, step_mm=0.5) as writer:
        writer.write(batch_of(lines))
    for command in (
        "mrgrid coarse.nii regrid -voxel 1.3 fine.mif", "mrtransform fine.mif -linear turn.txt turned.mif",
        "mrconvert turned.mif -strides -2,3,1 grid.mif", "tckmap -template grid.mif -upsample 40 a.tck map.nii",
    ):
        subprocess.run([*command.split(), "-quiet"], cwd=tmp_path, check=True)
    theirs, space = nib.load(tmp_path / "map.nii"), grid_of_map(tmp_path / "grid.mif")
    assert space.shape == theirs.shape
    assert np.array_equal(space.affine, theirs.affine)
    ours = counted(lines, space)
    values = np.asarray(theirs.dataobj)
    passed = (ours > 0) | (values > 0)
    assert ours.sum() > 500
    assert np.corrcoef(ours[passed], values[passed])[0, 1] > 0.99


def test_finer_grids_cover_the_same_box():
    coarse = Space(np.array([[0, 3.0, 0, 5], [-2, 0, 0, 6], [0, 0, 4, 7], [0, 0, 0, 1]]), (4, 5, 6))
    fine = finer(coarse, 1.0)
    assert fine.shape == (8, 15, 24)
    assert np.allclose(fine.to_ras([-0.5] * 3), coarse.to_ras([-0.5] * 3))
    assert np.allclose(fine.to_ras(np.array(fine.shape) - 0.5), coarse.to_ras(np.array(coarse.shape) - 0.5))
    assert finer(coarse, 1.5).shape == (6, 10, 16)


def test_grids_that_are_too_fine_are_refused():
    with pytest.raises(ParameterError, match="a step of 1 mm is longer"):
        Density(Space(np.diag([1e-4, 1, 1, 1]), (3, 3, 3)), 1.0)
    with pytest.raises(ParameterError, match="voxels is too large"):
        Density(Space(np.eye(4), (2000, 2000, 2000)), 1.0)
