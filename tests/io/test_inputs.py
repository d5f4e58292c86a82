"""Images, gradients and seeds: what is read, and the one line said about each malformed file."""

import gzip
import subprocess
import sys

import nibabel as nib
import numpy as np
import pytest
from dipy.core.gradients import gradient_table
from dipy.io import read_bvals_bvecs
from places import CROP
from series_files import AFFINE, BVALS, SHAPE, SPACE, Case, directions, fails, signals

from tistreamlines.io.nifti import load_dwi, load_map, load_mask


@pytest.fixture
def case(tmp_path):
    return Case(tmp_path)


def test_importing_is_light():
    code = "import sys, tistreamlines.io; print([m for m in ('dipy', 'nibabel', 'trx') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["dwi.nii", "dwi.nii.gz"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.float64])
def test_series_is_what_nibabel_reads(case, name, dtype):
    data = np.round(signals() / 4).astype(dtype)
    path = case.image(data, name=name)
    dwi = case.load(name)
    assert np.array_equal(dwi.data, data)
    assert dwi.data.dtype == np.float32
    assert dwi.data.flags.c_contiguous
    assert np.allclose(dwi.space.affine, AFFINE)
    assert dwi.space.shape == SHAPE
    assert dwi.path == path
    assert np.array_equal(dwi.gtab.b0s_mask, BVALS <= 50)


def test_scaled_integers_are_scaled(case):
    image = nib.Nifti1Image(signals(), AFFINE)
    image.set_data_dtype(np.int16)
    image.to_filename(case.folder / "dwi.nii.gz")
    expected = nib.load(case.folder / "dwi.nii.gz").get_fdata(dtype=np.float32)
    assert np.array_equal(case.load().data, expected)


def test_paths_may_be_strings(case):
    dwi = load_dwi(*(str(case.folder / name) for name in ("dwi.nii.gz", "dwi.bval", "dwi.bvec")))
    assert dwi.data.shape == (*SHAPE, len(BVALS))


@pytest.mark.parametrize("bvals", [BVALS, BVALS[:, None]], ids=["bvals in a row", "bvals in a column"])
@pytest.mark.parametrize("bvecs", [directions(), directions().T], ids=["bvecs in rows", "bvecs in columns"])
def test_gradients_are_what_dipy_reads(case, bvals, bvecs):
    case.gradients(bvals, bvecs)
    read_bvals, read_bvecs = read_bvals_bvecs(case.folder / "dwi.bval", case.folder / "dwi.bvec")
    expected = gradient_table(read_bvals, bvecs=read_bvecs)
    gtab = case.load().gtab
    assert np.array_equal(gtab.bvals, expected.bvals)
    assert np.array_equal(gtab.bvecs, expected.bvecs)


def test_b0_without_direction_is_read(case):
    vectors = directions()
    vectors[BVALS < 50] = np.nan
    case.gradients(BVALS, vectors)
    assert not np.isnan(case.load().gtab.bvecs).any()


@pytest.mark.parametrize("name", ["dwi.nii.gz", "dwi.bval", "dwi.bvec"])
def test_missing_file(case, name):
    (case.folder / name).unlink()
    with fails(name, "no such file"):
        case.load()


def test_folder_in_place_of_a_file(case):
    with fails(case.folder.name, "is a folder"):
        load_mask(case.folder, SPACE)


@pytest.mark.parametrize("name", ["dwi.nii", "dwi.nii.gz"])
@pytest.mark.parametrize("kept", [0, 100, 0.5])
def test_truncated_series(case, name, kept):
    path = case.image(signals(), name=name)
    whole = path.read_bytes()
    path.write_bytes(whole[: kept if isinstance(kept, int) else int(len(whole) * kept)])
    with fails(name, "cannot be read"):
        case.load(name)


def test_image_of_another_kind(case):
    (case.folder / "dwi.nii.gz").write_bytes(gzip.compress(b"no image at all" * 100))
    with fails("dwi.nii.gz", "cannot be read"):
        case.load()


def test_surface_in_place_of_an_image(case):
    nib.gifti.GiftiImage().to_filename(case.folder / "brain.surf.gii")
    with fails("brain.surf.gii", "is GIFTI, not an image"):
        load_mask(case.folder / "brain.surf.gii", SPACE)


def test_complex_values(case):
    case.image(signals().astype(np.complex64))
    with fails("dwi.nii.gz", "complex64"):
        case.load()


@pytest.mark.parametrize("shape", [SHAPE, (*SHAPE, 1, 3)])
def test_series_that_is_not_4d(case, shape):
    case.image(np.ones(shape, np.float32))
    with fails("dwi.nii.gz", f"{len(shape)}-D", str(shape)):
        case.load()


def test_voxels_of_a_series_with_nan_have_no_signal(case):
    data = signals()
    data[1, 2, 3, 6] = data[0, 0, 0] = np.nan
    case.image(data)
    series = case.load()
    assert np.argwhere(series.missing).tolist() == [[0, 0, 0], [1, 2, 3]]
    data[1, 2, 3] = data[0, 0, 0] = 0
    assert np.array_equal(series.data, data)
    case.image(data)
    assert case.load().missing is None


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_series_that_is_not_finite(case, value):
    data = signals()
    data[1, 2, 3, 6] = value
    case.image(data)
    with fails("dwi.nii.gz", str(value), "(1, 2, 3) of volume 6"):
        case.load()


def test_not_finite_beyond_the_first_volumes(case):
    data = np.ones((2, 2, 2, 20), np.float32)
    data[1, 0, 1, 17] = np.inf
    case.image(data)
    case.gradients(np.r_[0, np.full(19, 1000.0)], np.tile([1.0, 0, 0], (20, 1)))
    with fails("dwi.nii.gz", "(1, 0, 1) of volume 17"):
        case.load()


def test_value_too_large_for_float32(case):
    data = signals().astype(np.float64)
    data[0, 0, 0, 0] = 1e300
    case.image(data)
    with fails("dwi.nii.gz", "inf"):
        case.load()


def test_sheared_affine(case):
    sheared = AFFINE.copy()
    sheared[0, 0] = 0.1
    case.image(signals(), sheared)
    with fails("dwi.nii.gz", "sheared"):
        case.load()


def test_flat_affine(case):
    path = case.folder / "dwi.nii"
    image = nib.Nifti1Image(signals(), AFFINE)
    image.set_sform(np.diag([0.0, 2, 2, 1]), code=1)
    image.to_filename(path)
    with fails("dwi.nii", "affine"):
        case.load("dwi.nii")


def test_oblique_affine_is_not_sheared(case):
    from scipy.spatial.transform import Rotation

    oblique = np.eye(4)
    oblique[:3, :3] = Rotation.from_euler("xyz", [12, -34, 56], degrees=True).as_matrix() * [1.2, 2.5, 0.8]
    case.image(signals(), oblique.astype(np.float32))
    assert np.allclose(case.load().space.voxel_sizes, [1.2, 2.5, 0.8])


def test_no_b0(case):
    case.gradients(np.maximum(BVALS, 200), directions())
    with fails("dwi.bval", "no b0", "200"):
        case.load()


def test_only_b0(case):
    case.gradients(np.minimum(BVALS, 50), directions())
    with fails("dwi.bval", "50"):
        case.load()


@pytest.mark.parametrize("value", [np.nan, np.inf, -1000.0])
def test_impossible_b_value(case, value):
    bvals = BVALS.copy()
    bvals[4] = value
    case.gradients(bvals, directions())
    with fails("dwi.bval", f"{value:g}", "volume 4"):
        case.load()


def test_other_number_of_b_values(case):
    case.gradients(BVALS[:-1], directions())
    with fails("dwi.bval", "6 b-values", "7 volumes", "dwi.nii.gz"):
        case.load()


def test_other_number_of_directions(case):
    case.gradients(BVALS, directions()[:-1])
    with fails("dwi.bvec", "6 directions", "7 volumes", "dwi.nii.gz"):
        case.load()


def test_exchanged_gradient_files(case):
    with fails("dwi.bvec", "one b-value per volume", "exchanged?"):
        load_dwi(case.folder / "dwi.nii.gz", case.folder / "dwi.bvec", case.folder / "dwi.bval")


def test_directions_of_two_numbers(case):
    case.gradients(BVALS, directions()[:, :2])
    with fails("dwi.bvec", "(7, 2)"):
        case.load()


@pytest.mark.parametrize("name", ["dwi.bval", "dwi.bvec"])
@pytest.mark.parametrize("text", ["", "0 1000 b\n1 2\n"])
def test_gradients_that_are_no_numbers(case, name, text):
    (case.folder / name).write_text(text)
    with fails(name):
        case.load()


@pytest.mark.parametrize("factor", [0.98, 1.02, 0, np.nan])
def test_direction_that_is_not_a_unit_vector(case, factor):
    vectors = directions()
    vectors[3] *= factor
    case.gradients(BVALS, vectors)
    with fails("dwi.bvec", "volume 3", f"{factor:.4g}"):
        case.load()


def test_direction_within_one_percent(case):
    case.gradients(BVALS, directions() * 1.009)
    assert len(case.load().gtab.bvals) == len(BVALS)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32])
def test_mask(case, dtype):
    inside = np.zeros(SHAPE, dtype)
    inside[1:3, 2, 4] = 3
    mask = load_mask(case.image(inside, name="mask.nii.gz"), SPACE)
    assert mask.dtype == bool
    assert np.array_equal(mask, inside != 0)


def test_map(case):
    values = signals()[..., 0]
    loaded = load_map(case.image(values, name="fa.nii.gz"), SPACE)
    assert loaded.dtype == np.float32
    assert loaded.flags.c_contiguous
    assert np.array_equal(loaded, values)


def test_empty_mask(case):
    with fails("mask.nii.gz", "has no voxels of at least 0.5 among 120"):
        load_mask(case.image(np.zeros(SHAPE, np.uint8), name="mask.nii.gz"), SPACE)


@pytest.mark.parametrize("load", [load_mask, load_map])
class TestVolume:
    @pytest.mark.parametrize("shape", [(4, 5), (*SHAPE, 2)])
    def test_other_number_of_axes(self, case, load, shape):
        with fails("other.nii.gz", str(shape), "one volume"):
            load(case.image(np.ones(shape, np.uint8), name="other.nii.gz"), SPACE)

    def test_elsewhere(self, case, load):
        moved = AFFINE.copy()
        moved[0, 3] += 250
        with fails("other.nii.gz", "only zeros where the series or orientations lie"):
            load(case.image(np.ones(SHAPE, np.uint8), moved, "other.nii.gz"), SPACE)

    def test_rounded_affine(self, case, load):
        assert load(case.image(np.ones(SHAPE, np.uint8), AFFINE + np.eye(4) * 5e-4, "near.nii.gz"), SPACE).all()

    def test_not_finite(self, case, load):
        values = np.ones(SHAPE, np.float32)
        values[2, 0, 1] = np.inf
        with fails("other.nii.gz", "inf", "(2, 0, 1)"):
            load(case.image(values, name="other.nii.gz"), SPACE)

    def test_nan_is_0_and_told(self, case, load):
        """As MRtrix3's tensor2metric writes where there is no tensor."""
        values, notes = np.ones(SHAPE, np.float32), []
        values[2, 0, :2] = np.nan
        loaded = load(case.image(values, name="other.nii.gz"), SPACE, notes.append)
        assert np.array_equal(loaded, np.nan_to_num(values))
        assert len(notes) == 1
        assert f"2 of {values.size} values are NaN" in notes[0]

    def test_missing(self, case, load):
        with fails("absent.nii.gz", "no such file"):
            load(case.folder / "absent.nii.gz", SPACE)

    def test_truncated(self, case, load):
        path = case.image(signals()[..., 0], name="cut.nii.gz")
        path.write_bytes(path.read_bytes()[:-200])
        with fails("cut.nii.gz", "cannot be read"):
            load(path, SPACE)


@pytest.mark.skipif(not CROP.is_dir(), reason="no real data at ../shared/data/sherbrooke_crop")
def test_real_series():
    dwi = load_dwi(CROP / "dwi.nii.gz", CROP / "dwi.bval", CROP / "dwi.bvec")
    mask = load_mask(CROP / "mask.nii.gz", dwi.space)
    assert dwi.data.shape == (44, 44, 20, 65)
    assert np.flatnonzero(dwi.gtab.b0s_mask).tolist() == [64]  # the last volume
    assert np.array_equal(dwi.data, nib.load(CROP / "dwi.nii.gz").get_fdata(dtype=np.float32))
    assert mask.shape == dwi.space.shape
    assert mask.any()
