"""Samples of bedpostX from files: directions in both storage orders, and the line about each file that is wrong."""

import nibabel as nib
import numpy as np
import pytest
from sample_files import POSITIVE, mirrored, save_samples
from series_files import fails

from tistreamlines.io.samples import load_samples, sample_files

SHAPE, COUNT, FIBRES = (4, 3, 2), 5, 3


def unit(values):
    return values / np.linalg.norm(values, axis=-1, keepdims=True)


@pytest.fixture
def known():
    """Directions in scanner space, fractions and a mask, on the grid whose determinant is positive."""
    rng = np.random.default_rng(0)
    directions = unit(rng.normal(size=(*SHAPE, COUNT, FIBRES, 3)))
    mask = rng.uniform(size=SHAPE) < 0.7
    return directions, rng.uniform(0.02, 0.3, (*SHAPE, COUNT, FIBRES)), mask


@pytest.fixture
def folder(tmp_path, known):
    directions, fractions, mask = known
    return save_samples(tmp_path, directions, fractions, POSITIVE, mask)


def loaded(folder):
    return load_samples(sample_files(folder))


def replaced(folder, name, change):
    """Write an image of the folder again, as ``change`` makes it of its values."""
    image = nib.load(folder / f"{name}.nii.gz")
    values, affine = change(image.get_fdata(dtype=np.float32), image.affine.copy())
    nib.save(nib.Nifti1Image(values, affine), folder / f"{name}.nii.gz")


@pytest.mark.parametrize("flips", [False, True], ids=["determinant positive", "determinant negative"])
def test_directions_in_scanner_space(tmp_path, known, flips):
    affine, (directions, fractions, mask) = POSITIVE, known
    if flips:
        affine = mirrored(POSITIVE, SHAPE[0])
        directions, fractions, mask = directions[::-1], fractions[::-1], mask[::-1]
    samples = loaded(save_samples(tmp_path, directions, fractions, affine, mask))
    assert samples.space.fsl_flips_x != flips
    assert samples.values.shape == (mask.sum(), COUNT, FIBRES, 4)
    assert samples.values.dtype == np.float32
    assert np.array_equal(samples.mask, mask)
    assert np.allclose(samples.values[..., :3] @ samples.space.axes.T, directions[mask], atol=1e-6)
    assert np.allclose(samples.values[..., 3], fractions[mask])


@pytest.mark.parametrize(("first", "x"), [(2.0, -1), (-2.0, 1)])
def test_angles_by_hand(tmp_path, known, first, x):
    """A polar angle of 90 degrees with azimuth 0 is FSL's x, which is radiological, whatever the order of storage."""
    directions, fractions, _ = known
    folder = save_samples(tmp_path, directions, fractions, np.diag([first, 2, 2, 1]))
    for role, angle in (("th", np.pi / 2), ("ph", 0)):
        replaced(folder, f"merged_{role}2samples", lambda v, affine, angle=angle: (np.full_like(v, angle), affine))
    assert np.allclose(loaded(folder).values[:, :, 1, :3], [x, 0, 0], atol=1e-6)


def test_files_given_one_by_one(folder):
    files = [path for path in folder.glob("merged_*") if "3samples" not in path.name]
    samples = load_samples(sample_files(files, folder / "nodif_brain_mask.nii.gz"))
    assert np.array_equal(samples.values, loaded(folder).values[:, :, :2])
    without = load_samples(sample_files(files))
    assert without.mask.all()


def test_voxels_without_a_mask(tmp_path, known):
    directions, fractions, mask = known
    folder = save_samples(tmp_path, directions, fractions * mask[..., None, None], POSITIVE)
    (folder / "nodif_brain_mask.nii.gz").unlink()
    assert np.array_equal(loaded(folder).mask, mask)


@pytest.mark.parametrize(
    ("name", "change", "parts"),
    [
        ("merged_ph2samples", lambda v, a: (v[..., :4], a), ("4 samples", "has 5")),
        ("merged_th1samples", lambda v, a: (v[:3], a), ("shape (3, 3, 2)", "(4, 3, 2)")),
        ("merged_th3samples", lambda v, a: (v, a + np.diag([0, 0, 0.5, 0])), ("affine differs",)),
        ("merged_th1samples", lambda v, a: (np.where(v == v.max(), np.nan, v), a), ("nan",)),
        ("merged_ph1samples", lambda v, a: (np.degrees(v), a), ("radians",)),
        ("merged_f2samples", lambda v, a: (v + 1, a), ("between 0 and 1",)),
        ("merged_f2samples", lambda v, a: (v - 0.5, a), ("between 0 and 1",)),
        ("merged_f1samples", lambda v, a: (v[..., 0], a), ("3-D image", "one volume a sample")),
        ("merged_f1samples", lambda v, a: (v * 0, a), ("above 0",)),
        ("merged_f1samples", lambda v, a: (v.astype(np.complex64), a), ("complex64",)),
        ("nodif_brain_mask", lambda v, a: (v[:3], a), ("shape (3, 3, 2)",)),
    ],
)
def test_images_that_do_not_fit(folder, name, change, parts):
    replaced(folder, name, change)
    with fails(f"{name}.nii.gz", *parts):
        loaded(folder)


def test_missing_and_foreign_files(folder, tmp_path):
    with fails("nowhere", "no such folder"):
        sample_files(tmp_path / "nowhere")
    with fails("dyads1.nii.gz", "not named"):
        (folder / "dyads1.nii.gz").write_bytes(b"")
        sample_files([folder / "dyads1.nii.gz"])
    with fails("merged_f1samples.nii.gz", "one of the two"):
        (folder / "merged_f1samples.nii").write_bytes(b"")
        sample_files(folder)
    (folder / "merged_f1samples.nii").unlink()
    (folder / "merged_ph2samples.nii.gz").unlink()
    with fails(folder.name, "merged_ph2samples"):
        sample_files(folder)
    with fails("empty", "merged_th1samples, merged_ph1samples, merged_f1samples"):
        (tmp_path / "empty").mkdir()
        sample_files(tmp_path / "empty")
