"""Five-tissue-type images that are read: what is accepted, and what is refused, as MRtrix3's 5ttcheck does."""

import re
import shutil
import subprocess

import nibabel as nib
import numpy as np
import pytest

from tistreamlines.errors import InputError
from tistreamlines.io.segmentations import load_five_tissues

AFFINE = np.array([[0.0, -2, 0, 11], [1.5, 0, 0, -7], [0, 0, 3, 2], [0, 0, 0, 1]])


@pytest.fixture
def fractions():
    """Fractions in a box of 4 x 5 x 6 voxels, whose first plane is outside the brain."""
    values = np.random.default_rng(5).dirichlet(np.ones(5), (4, 5, 6)).astype(np.float32)
    values[0] = 0
    return values


@pytest.fixture
def save(tmp_path):
    def saved(values, name="5tt.nii.gz"):
        nib.save(nib.Nifti1Image(values, AFFINE), tmp_path / name)
        return tmp_path / name

    return saved


def checked(path):
    """What 5ttcheck says of an image: whether it accepts it, and whether it warns."""
    if shutil.which("5ttcheck") is None:
        pytest.skip("MRtrix3 is not installed")
    done = subprocess.run(["5ttcheck", path], capture_output=True, text=True, check=False)
    return done.returncode == 0, "[WARNING]" in done.stderr


@pytest.mark.parametrize("name", ["5tt.nii", "5tt.nii.gz", "5tt.mif", "5tt.mif.gz"])
def test_fractions_and_grid_are_those_of_the_file(fractions, save, name):
    path = save(fractions)
    if name != path.name:
        if shutil.which("mrconvert") is None:
            pytest.skip("MRtrix3 is not installed")
        subprocess.run(["mrconvert", "-quiet", path, path.with_name(name)], check=True)
    values, space = load_five_tissues(path.with_name(name))
    assert values.dtype == np.float32
    np.testing.assert_array_equal(values, fractions)
    np.testing.assert_allclose(space.affine, AFFINE, atol=1e-5)
    assert space.shape == (4, 5, 6)


def test_values_within_the_tolerance_are_clipped(fractions, save):
    fractions[1, 0, 0] = [1.0004, -0.0004, 0, 0, 0]
    values, _ = load_five_tissues(save(fractions))
    assert values[1, 0, 0].tolist() == [1, 0, 0, 0, 0]


@pytest.mark.parametrize(("wrong", "count", "odd"), [
    ({(1, 2, 3): [1.5, -0.5, 0, 0, 0], (2, 2, 3): [0, 2, 0, 0, 0]}, "2", r"1\.5 in voxel \(1, 2, 3\)"),
    ({(3, 0, 0): [0, np.nan, 0, 1, 0]}, "1", r"nan in voxel \(3, 0, 0\)"),
    ({(3, 0, 1): [0, np.inf, 0, 1, 0]}, "1", r"inf in voxel \(3, 0, 1\)"),
])
def test_a_value_that_is_no_fraction_is_an_error(fractions, save, wrong, count, odd):
    for voxel, values in wrong.items():
        fractions[voxel] = values
    path = save(fractions)
    with pytest.raises(InputError, match=f"^{re.escape(str(path))}: values of {count} voxels are no .*{odd}"):
        load_five_tissues(path)
    if np.isfinite(fractions).all():
        assert checked(path) == (False, True)


def test_sums_that_are_neither_0_nor_1_are_an_error_or_a_warning(fractions, save):
    fractions[1, :, :2] *= np.float32(0.75)
    path, notes = save(fractions), []
    message = "sum to neither 0 nor 1 in 10 of 90 voxels with tissue, such as 0.75 in voxel (1, 0, 0)"
    with pytest.raises(InputError, match=re.escape(message)):
        load_five_tissues(path)
    values, _ = load_five_tissues(path, notes.append)
    np.testing.assert_array_equal(values, fractions)
    assert len(notes) == 1
    assert message in notes[0]
    assert checked(path) == (True, True)


@pytest.mark.parametrize(("change", "message"), [
    (lambda values: values[..., :3], "shape \\(4, 5, 6, 3\\); give a five-tissue-type image"),
    (lambda values: values[..., 0], "shape \\(4, 5, 6\\); give"),
    (lambda values: values[..., None], "shape \\(4, 5, 6, 5, 1\\); give"),
    (lambda values: 0 * values, "has no tissue"),
])
def test_other_images_are_refused(fractions, save, change, message):
    with pytest.raises(InputError, match=message):
        load_five_tissues(save(change(fractions)))
