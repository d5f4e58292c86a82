"""Images at the voxels of another grid, beside MRtrix3's mrtransform and closed forms."""

import shutil
import subprocess

import nibabel as nib
import numpy as np
import pytest

from tistreamlines.space.batch import Space
from tistreamlines.space.resampling import resample_image

TURN = nib.affines.from_matvec(nib.eulerangles.euler2mat(0.2, -0.1, 0.3), [1.0, -2.0, 0.5])
OWN = Space(np.diag([1.5, 1.25, 2.0, 1.0]), (20, 24, 18))
OTHER = Space(TURN @ np.diag([2.3, 2.0, 1.7, 1.0]), (12, 15, 19))


def field(space, slopes=(1.0, -2.0, 0.5)):
    places = space.to_ras(np.moveaxis(np.indices(space.shape), 0, -1))
    return places @ slopes + 100


def test_a_linear_field_stays_itself():
    """To the last digits of float32 between the centres of voxels; half a voxel beyond them, the outermost counts."""
    values, inside = resample_image(field(OWN), OWN, OTHER, nearest=False)
    at = OWN.to_voxel(OTHER.to_ras(np.moveaxis(np.indices(OTHER.shape), 0, -1)))
    between = ((at >= 0) & (at <= np.array(OWN.shape) - 1)).all(axis=-1)
    assert values.dtype == np.float32
    np.testing.assert_allclose(values[between], field(OTHER)[between], rtol=3e-6)
    within = ((at >= -0.5) & (at < np.array(OWN.shape) - 0.5)).all(axis=-1)
    assert np.array_equal(inside, within)
    assert within.sum() > between.sum() > 500
    assert (values[~within] == 0).all()


@pytest.mark.parametrize("kind", [bool, np.uint8, np.int32, np.int64, np.float64])
def test_nearest_voxels_keep_their_values_and_their_type(kind):
    values = np.random.default_rng(0).integers(0, 2 if kind is bool else 100, OWN.shape).astype(kind)
    nearest, inside = resample_image(values, OWN, OTHER, nearest=True)
    at = np.floor(OWN.to_voxel(OTHER.to_ras(np.argwhere(inside))) + 0.5).astype(int)
    assert nearest.dtype == kind
    assert np.array_equal(nearest[inside], values[tuple(at.T)])


def test_volumes_are_resampled_one_by_one():
    values = np.random.default_rng(1).random((*OWN.shape, 3)).astype(np.float32)
    volumes, _ = resample_image(values, OWN, OTHER, nearest=False)
    for volume in range(3):
        assert np.array_equal(volumes[..., volume], resample_image(values[..., volume], OWN, OTHER, nearest=False)[0])


@pytest.mark.skipif(shutil.which("mrtransform") is None, reason="mrtransform is not installed: install mrtrix3")
@pytest.mark.parametrize("how", ["nearest", "linear"])
def test_mrtransform_gives_the_same(tmp_path, how):
    values = np.random.default_rng(2).random(OWN.shape).astype(np.float32)
    nib.save(nib.Nifti1Image(values, OWN.affine), tmp_path / "own.nii")
    nib.save(nib.Nifti1Image(np.zeros(OTHER.shape, np.float32), OTHER.affine), tmp_path / "other.nii")
    command = ["mrtransform", "own.nii", "-template", "other.nii", "-interp", how, "-oversample", "1", "out.nii"]
    subprocess.run([*command, "-quiet"], cwd=tmp_path, check=True)
    expected = nib.load(tmp_path / "out.nii").get_fdata(dtype=np.float32)
    ours, inside = resample_image(values, OWN, OTHER, nearest=how == "nearest")
    differ = np.abs(ours - expected) > 1e-4
    assert inside.sum() > 800
    assert differ.mean() < 0.002, differ.sum()  # voxels at the border, and between two nearest ones
