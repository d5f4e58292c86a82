"""Masks stored in another order, with fractions, or on a grid of their own."""

import shutil
import subprocess

import nibabel as nib
import numpy as np
import pytest
from dipy.tracking.utils import seeds_from_mask
from nibabel.orientations import apply_orientation, inv_ornt_aff
from scipy.stats import chisquare

import tistreamlines as ts
from tistreamlines.io.nifti import load_map, load_mask
from tistreamlines.space.batch import Batch, Space

SHAPE = (14, 12, 10)
AFFINE = nib.affines.from_matvec(nib.eulerangles.euler2mat(0.2, 0.1, 0.3) @ np.diag([2.0, 2.5, 3.0]), [-9, -14, 5])
ORDERS = [
    [[0, -1], [1, 1], [2, 1]], [[0, -1], [1, -1], [2, -1]], [[1, 1], [2, -1], [0, 1]], [[2, -1], [0, 1], [1, -1]],
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Peaks along x, and a mask and a stop map."""
    folder, rng = tmp_path_factory.mktemp("grids"), np.random.default_rng(1)
    peaks = np.zeros((*SHAPE, 3), np.float32)
    peaks[..., 0] = 1
    inside = np.zeros(SHAPE, np.uint8)
    inside[3:11, 2:10, 4:7] = rng.random((8, 8, 3)) < 0.6
    stop = (rng.random(SHAPE) + 0.2).astype(np.float32)
    for name, values in (("peaks", peaks), ("inside", inside), ("stop", stop)):
        nib.save(nib.Nifti1Image(values, AFFINE), folder / f"{name}.nii.gz")
    return folder


def tracked(folder, **options):
    place = {} if "seed_image" in options else {"seed_mask": folder / "inside.nii.gz"}
    number = {} if "seed_grid" in options else {"nseeds": 400}
    common = {"peaks": folder / "peaks.nii.gz", "peaks_frame": "voxel", "dg": "det", "max_directions": 1}
    stop = {"stop_map": folder / "stop.nii.gz", "stop_threshold": 0.3}
    return Batch.concatenate(list(ts.stream(**common, **(stop | place | number | options), arch="cpu")))


def stored(folder, name, order):
    """The image with axes in another order or sense; the same voxels at the same places."""
    image, path = nib.load(folder / f"{name}.nii.gz"), folder / f"{name}-other.nii.gz"
    other = apply_orientation(np.asanyarray(image.dataobj), order)
    nib.save(nib.Nifti1Image(other, image.affine @ inv_ornt_aff(order, image.shape)), path)
    return path


@pytest.mark.parametrize("order", ORDERS)
def test_another_order_of_axes_changes_nothing(folder, order):
    whole = tracked(folder)
    assert len(whole) > 100
    for name, option in (("inside", "seed_mask"), ("stop", "stop_map"), ("inside", "seed_image")):
        expected = tracked(folder, **{option: folder / f"{name}.nii.gz"})
        other = tracked(folder, **{option: stored(folder, name, order)})
        assert np.array_equal(expected.points, other.points), option


@pytest.mark.skipif(shutil.which("mrconvert") is None, reason="MRtrix3's mrconvert is not installed")
def test_strides_of_mrtrix(folder):
    space, path = Space(AFFINE, SHAPE), folder / "strides.nii"
    for strides in ("-1,2,3", "3,-1,2", "-2,-3,-1"):
        subprocess.run(["mrconvert", "-quiet", "-force", folder / "stop.nii.gz", path, "-strides", strides], check=True)
        assert np.array_equal(load_map(path, space), load_map(folder / "stop.nii.gz", space)), strides


def test_fractions_count_from_one_half(folder):
    space, notes = Space(AFFINE, SHAPE), []
    inside = np.asarray(nib.load(folder / "inside.nii.gz").dataobj)
    shares = np.where(inside, 0.5, 0.49).astype(np.float32)
    nib.save(nib.Nifti1Image(shares, AFFINE), folder / "shares.nii")
    assert np.array_equal(load_mask(folder / "shares.nii", space, notes.append), inside > 0)
    assert "voxels of at least 0.5 are used" in notes[0] and "values from 0.49" in notes[0]
    assert np.array_equal(tracked(folder).points, tracked(folder, seed_mask=folder / "shares.nii").points)
    nib.save(nib.Nifti1Image(shares * 0.9, AFFINE), folder / "low.nii")
    with pytest.raises(ts.InputError, match=r"no voxels of at least 0.5 .*the highest value is 0.45"):
        load_mask(folder / "low.nii", space)


def finer():
    """A mask of voxels of about 0.9 mm, turned against the image."""
    turned = nib.affines.from_matvec(nib.eulerangles.euler2mat(0.5, -0.4, 0.2) @ np.diag([0.9, 0.8, 1.0]))
    inside = np.zeros((12, 11, 9), np.uint8)
    inside[2:9, 3:8, 1:7] = np.random.default_rng(2).random((7, 5, 6)) < 0.5
    middle = nib.affines.apply_affine(AFFINE, np.array(SHAPE) / 2)
    turned[:3, 3] = middle - turned[:3, :3] @ (np.array(inside.shape) / 2)
    return nib.Nifti1Image(inside, turned)


@pytest.mark.parametrize("density", [1, 2])
def test_a_grid_of_its_own_has_the_seeds_of_dipy(folder, density):
    image = finer()
    batch = tracked(folder, seed_mask=image, seed_grid=density, stop_threshold=-1)
    expected = seeds_from_mask(np.asarray(image.dataobj) > 0, image.affine, density=density)
    assert len(batch) == len(expected)
    assert np.allclose(batch.seeds, expected, atol=1e-4)


def test_random_seeds_fill_the_voxels_of_a_grid_of_its_own(folder):
    image = finer()
    inside = np.asarray(image.dataobj) > 0
    batch = tracked(folder, seed_mask=image, nseeds=20_000, stop_threshold=-1)
    voxels = nib.affines.apply_affine(np.linalg.inv(image.affine), batch.seeds)
    nearest = np.rint(voxels).astype(int)
    assert len(voxels) == 20_000
    assert inside[tuple(nearest.T)].all()
    counts = np.bincount(np.ravel_multi_index(tuple(nearest.T), inside.shape), minlength=inside.size)
    assert chisquare(counts[inside.ravel()]).pvalue > 1e-3
    within = (voxels - nearest).ravel() + 0.5
    assert chisquare(np.histogram(within, 10, (0, 1))[0]).pvalue > 1e-3


def test_the_tables_hold_all_that_seeds_on_another_grid_read(folder):
    # a map that ends streamlines everywhere else, so that only the seeds' own voxels have rows
    image = finer()
    stop = np.full(SHAPE, -1, np.float32)
    stop[0, 0, 0] = 1
    nib.save(nib.Nifti1Image(stop, AFFINE), folder / "nowhere.nii")
    options = {"stop_map": folder / "nowhere.nii", "stop_threshold": 0.5, "seed_mask": image, "nseeds": 2000}
    result = ts.track(
        peaks=folder / "peaks.nii.gz", peaks_frame="voxel", dg="det", max_directions=1, arch="cpu", **options
    )
    # without a row at a seed, no initial direction would be found there
    assert sum(result.stop_reasons.values()) == 2 * 2000


def test_weights_on_a_grid_of_their_own(folder):
    image = finer()
    weights = np.asarray(image.dataobj) * np.arange(1, image.shape[0] + 1)[:, None, None].astype(np.float32)
    seeded = nib.Nifti1Image(weights, image.affine)
    batch = tracked(folder, seed_image=seeded, nseeds=20_000, stop_threshold=-1)
    nearest = np.rint(nib.affines.apply_affine(np.linalg.inv(image.affine), batch.seeds)).astype(int)
    planes = weights.sum(axis=(1, 2))
    counts = np.bincount(nearest[:, 0], minlength=len(planes))[planes > 0]
    assert chisquare(counts, planes[planes > 0] / planes.sum() * counts.sum()).pvalue > 1e-3


def test_a_mask_of_seeds_elsewhere(folder):
    image = finer()
    away = nib.Nifti1Image(np.asarray(image.dataobj), nib.affines.from_matvec(np.eye(3), [500, 0, 0]) @ image.affine)
    with pytest.raises(ts.ParameterError, match="lies outside the image"):
        tracked(folder, seed_mask=away)
