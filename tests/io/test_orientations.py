"""Orientations from files: what is read, and the one line said about each file that does not fit."""

from contextlib import contextmanager
from functools import cache

import nibabel as nib
import numpy as np
import pytest
from commands import python
from dipy.data import get_sphere
from dipy.direction.peaks import PeaksAndMetrics, reshape_peaks_for_visualization
from dipy.io.peaks import pam_to_niftis
from dipy.reconst.shm import sf_to_sh
from dipy.sims.voxel import multi_tensor_odf
from random_peaks import SHAPE, random_directions, some_peaks

from tistreamlines.errors import InputError, ParameterError
from tistreamlines.io.orientations import load_odf, load_peaks, load_pmf, load_sh, peaks_to_pmf
from tistreamlines.space.batch import Space
from tistreamlines.space.harmonics import BASES, order_of, sampling_matrix
from tistreamlines.space.sphere import SPHERES, load_sphere

AFFINE = np.array([[0, -2.0, 0, 30], [1.5, 0, 0, -20], [0, 0, 3, 7], [0, 0, 0, 1]])
SPACE = Space(AFFINE, SHAPE)
VERTICES = {name: load_sphere(name)[0] for name in SPHERES}
pytestmark = pytest.mark.filterwarnings("ignore:The legacy:PendingDeprecationWarning")


@cache
def odfs(sphere):
    """A crossing of two fibres in every voxel, at random angles, at a sphere's vertices: (x, y, z, n)."""
    vertices = VERTICES[sphere] if sphere in VERTICES else get_sphere(name=sphere).vertices
    angles = np.random.default_rng(4).uniform(0, 180, (np.prod(SHAPE), 2, 2))
    evals = np.array([[0.0017, 0.0003, 0.0003]] * 2)
    return np.array([multi_tensor_odf(vertices, evals, pair, [50, 50]) for pair in angles]).reshape(*SHAPE, -1)


def harmonics(basis, order=8):
    """Coefficients of these crossings, as DIPY fits them."""
    sphere = get_sphere(name="symmetric362")
    name, legacy, full = BASES[basis]
    return sf_to_sh(odfs("symmetric362"), sphere, sh_order_max=order, basis_type=name, full_basis=full, legacy=legacy)


@pytest.fixture
def save(tmp_path):
    def write(data, affine=AFFINE, name="file.nii.gz"):
        image = nib.Nifti1Image(data.astype(np.float32) if data.dtype == bool else data, affine)
        image.to_filename(tmp_path / name)
        return tmp_path / name

    return write


@contextmanager
def fails(path, *parts):
    """Expect one line that begins with the file's path, says each part and shows a way out."""
    with pytest.raises(InputError) as caught:
        yield
    message = str(caught.value)
    assert message.startswith(f"{path}: "), message
    assert "\n" not in message
    assert all(part in message for part in parts), message
    assert ";" in message, f"no way out is named: {message}"


def test_importing_is_light():
    code = "import sys, tistreamlines.io.orientations; print({'dipy', 'nibabel', 'scipy'} & set(sys.modules))"
    assert python("-c", code).stdout.strip() == "set()"


@pytest.mark.parametrize("basis", BASES)
def test_harmonics_come_back_as_functions(save, basis):
    values = harmonics(basis)
    loaded = load_sh(save(values), basis, SPACE)
    assert (loaded.kind, loaded.basis, loaded.sphere) == ("sh", basis, None)
    assert loaded.values.dtype == np.float32
    assert loaded.values.flags.c_contiguous
    assert np.array_equal(loaded.values, values.astype(np.float32))
    matrix = sampling_matrix(VERTICES["small"], order_of(values.shape[-1], BASES[basis].full), basis)
    expected = odfs("small")
    assert np.abs(loaded.values @ matrix.T - expected).max() < 0.1 * expected.max()  # what order 8 leaves out


@pytest.mark.parametrize("sphere", SPHERES)
@pytest.mark.parametrize(("load", "kind"), [(load_pmf, "pmf"), (load_odf, "odf")])
def test_samples_come_back(save, load, kind, sphere):
    values = odfs(sphere)
    loaded = load(save(values), sphere, SPACE)
    assert (loaded.kind, loaded.basis, loaded.sphere) == (kind, None, sphere)
    assert loaded.values.dtype == np.float32
    assert np.array_equal(loaded.values, values.astype(np.float32))


def test_space_is_that_of_the_file(save):
    path = save(some_peaks().reshape(*SHAPE, -1))
    for space in (None, SPACE, Space(AFFINE + 0.0005, SHAPE)):
        loaded = load_peaks(str(path), space).space
        assert loaded.shape == SHAPE
        assert np.allclose(loaded.affine, AFFINE)


@pytest.mark.parametrize("reshape_dirs", [False, True], ids=["five axes", "four axes"])
def test_peaks_are_what_dipy_saved(tmp_path, reshape_dirs):
    pam, vertices = PeaksAndMetrics(), VERTICES["default"]
    pam.affine, pam.sphere = AFFINE, None
    pam.peak_indices = np.random.default_rng(3).permuted(np.tile(np.arange(362), (60, 1)), axis=1)[:, :4]
    pam.peak_indices = pam.peak_indices.reshape(*SHAPE, 4).astype(np.int32)
    pam.peak_dirs, pam.peak_values = vertices[pam.peak_indices], np.ones((*SHAPE, 4))
    names = {f"fname_{part}": tmp_path / f"{part}.nii.gz" for part in ("peaks_dir", "peaks_values", "peaks_indices")}
    pam_to_niftis(pam, **names, reshape_dirs=reshape_dirs)
    assert len(nib.load(names["fname_peaks_dir"]).shape) == (4 if reshape_dirs else 5)
    loaded = load_peaks(names["fname_peaks_dir"], SPACE)
    assert (loaded.kind, loaded.basis, loaded.sphere) == ("peaks", None, None)
    assert loaded.values.dtype == np.float32
    assert loaded.values.flags.c_contiguous
    assert np.array_equal(loaded.values, reshape_peaks_for_visualization(pam))
    pmf = peaks_to_pmf(loaded.values.reshape(*SHAPE, -1, 3), vertices)
    assert np.allclose(np.take_along_axis(pmf, pam.peak_indices, axis=3), 1, rtol=0, atol=1e-6)
    assert np.count_nonzero(pmf) == pam.peak_indices.size


def test_lengths_of_peaks_are_kept(save):
    peaks = some_peaks()
    loaded = load_peaks(save(peaks.reshape(*SHAPE, -1))).values
    assert np.array_equal(loaded, peaks.reshape(*SHAPE, -1).astype(np.float32))


LOADERS = {
    "sh": (lambda path, space=None: load_sh(path, "tournier07", space), 6),
    "pmf": (lambda path, space=None: load_pmf(path, "small", space), 181),
    "odf": (lambda path, space=None: load_odf(path, "small", space), 181),
    "peaks": (load_peaks, 6),
}
each_loader = pytest.mark.parametrize(("load", "volumes"), LOADERS.values(), ids=LOADERS)


def flat_data(volumes):
    """Data that every loader takes."""
    data = np.zeros((*SHAPE, volumes), np.float32)
    data[..., 0] = 1
    return data


@each_loader
def test_simple_data_are_taken(save, load, volumes):
    assert load(save(flat_data(volumes)), SPACE).values.shape == (*SHAPE, volumes)


@each_loader
def test_missing_file(tmp_path, load, volumes):
    with fails(tmp_path / "none.nii.gz", "no such file"):
        load(tmp_path / "none.nii.gz")


@each_loader
def test_damaged_file(save, load, volumes):
    path = save(np.random.default_rng(0).random((*SHAPE, volumes)))
    path.write_bytes(path.read_bytes()[:700])
    with fails(path, "cannot be read"):
        load(path)


@each_loader
def test_a_checksum_that_differs(save, load, volumes):
    path = save(flat_data(volumes))
    content = bytearray(path.read_bytes())
    content[-8] ^= 1
    path.write_bytes(content)
    with fails(path, "is damaged (CRC"):
        load(path)


@each_loader
@pytest.mark.parametrize("shape", [SHAPE, (*SHAPE, 1, 6)], ids=["3-D", "5-D"])
def test_other_axes(save, load, volumes, shape):
    path = save(np.ones(shape))
    with fails(path, str(shape), "give"):
        load(path)


@each_loader
def test_other_shape(save, load, volumes):
    path = save(flat_data(volumes))
    with fails(path, "shape (3, 4, 5), but the reference has (3, 4, 6)"):
        load(path, Space(AFFINE, (3, 4, 6)))


@each_loader
@pytest.mark.parametrize(("off", "said"), [(0.002, "0.002"), (5.0, "by 5 "), (np.nan, "nan")])
def test_other_affine(save, load, volumes, off, said):
    path, affine = save(flat_data(volumes)), AFFINE.copy()
    affine[1, 3] += off
    with fails(path, "affine differs", said):
        load(path, Space(affine, SHAPE))


@each_loader
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite(save, load, volumes, value):
    data = flat_data(volumes)
    data[1, 2, 3, 4] = value
    path = save(data)
    if np.isnan(value):
        # all of the function, or of the peak, is missing then
        data[1, 2, 3, 3:6] = 0
        data[1, 2, 3, :] = data[1, 2, 3] if load is load_peaks else 0
        assert np.array_equal(load(path).values, data)
        return
    with fails(path, f"value {value}", "voxel (1, 2, 3)", "volume 4"):
        load(path)


@each_loader
def test_all_zero(save, load, volumes):
    path = save(np.zeros((*SHAPE, volumes), np.float32))
    with fails(path, f"all {60 * volumes} values are 0"):
        load(path)


def test_peaks_of_five_axes_are_checked_too(save):
    data = some_peaks().astype(np.float32)
    data[1, 2, 3, :, 1] = np.nan
    data[1, 1, 1, 2] = np.nan
    notes = []
    loaded = load_peaks(save(data), note=notes.append)
    data[1, 2, 3] = data[1, 1, 1, 2] = 0
    assert np.array_equal(loaded.values.reshape(data.shape), data)
    assert "6 of 540 values are NaN" in notes[0]
    data[1, 2, 3] = np.inf
    path = save(data)
    with fails(path, "value inf", "voxel (1, 2, 3)", "e.g. 0"):
        load_peaks(path)
    path = save(np.zeros((*SHAPE, 2, 3), np.float32))
    with fails(path, "all 360 values are 0"):
        load_peaks(path)


@pytest.mark.parametrize(
    ("count", "basis", "parts"),
    [
        (14, "descoteaux07", ["14 volumes", "valid: 6, 15, 28, 45, 66, 91", "one volume per coefficient"]),
        (1, "descoteaux07", ["1 volumes", "valid: 6, 15"]),
        (16, "tournier07_legacy", ["perhaps sh_basis tournier07_legacy_full"]),
        (15, "tournier07_full", ["valid: 4, 9, 16, 25, 36, 49, 64, 81", "perhaps sh_basis tournier07 "]),
        (7, "tournier07_full", ["one volume per coefficient"]),
        (362, "descoteaux07", ["perhaps odf with sphere default"]),
        (181, "descoteaux07_full", ["perhaps odf with sphere small"]),
    ],
)
def test_count_of_no_order(save, count, basis, parts):
    path = save(flat_data(count))
    with fails(path, *parts):
        load_sh(path, basis)


@pytest.mark.parametrize("load", [load_pmf, load_odf])
@pytest.mark.parametrize(
    ("count", "sphere", "parts"),
    [
        (724, "default", ["724 volumes, but sphere default has 362 vertices", "give sphere full"]),
        (362, "small", ["small has 181", "give sphere default"]),
        (181, "full", ["full has 724", "give sphere small"]),
        (45, "default", ["default has 362, full has 724, small has 181", "sh"]),
    ],
)
def test_count_of_another_sphere(save, load, count, sphere, parts):
    path = save(flat_data(count))
    with fails(path, *parts):
        load(path, sphere)


@pytest.mark.parametrize("shape", [(7,), (4,), (3, 2), (2, 4)])
def test_peaks_that_are_no_threes(save, shape):
    path = save(np.ones((*SHAPE, *shape)))
    with fails(path, "x, y and z of each peak", str((*SHAPE, *shape))):
        load_peaks(path)


def test_negative_pmf(save):
    data = flat_data(181)
    data[2, 3, 4, 5] = -0.25
    path = save(data)
    with fails(path, "value -0.25 in voxel (2, 3, 4) of volume 5", "odf"):
        load_pmf(path, "small")
    assert load_odf(path, "small").values.min() == -0.25


def test_rounding_below_zero_is_no_negative_pmf(save):
    data = flat_data(181)
    data[2, 3, 4, 5] = -5e-7
    assert load_pmf(save(data), "small").values.min() == np.float32(-5e-7)


def test_pmf_below_zero_everywhere(save):
    path = save(-flat_data(181))
    with fails(path, "value -1 in voxel (0, 0, 0) of volume 0"):
        load_pmf(path, "small")


@pytest.mark.parametrize("basis", ["descoteaux07_legacy", "tournier07"])
def test_harmonics_with_the_sign_changed(save, basis):
    path = save(-harmonics(basis))
    with fails(path, "volume 0 is not above 0 in 100% of the voxels"):
        load_sh(path, basis)


def test_some_negative_voxels_are_noise(save):
    values = harmonics("descoteaux07")
    values[:1] *= -1
    assert load_sh(save(values), "descoteaux07").values.shape == (*SHAPE, 45)


@pytest.mark.parametrize("scale", [1, 0], ids=["all voxels", "a few voxels"])
def test_harmonics_in_another_order(save, scale):
    values = harmonics("descoteaux07_legacy")[..., ::-1].copy()
    values[..., 0] = np.abs(values[..., 0]) + 1e-3
    values[:, 1:] *= scale  # empty voxels have no say
    path = save(values)
    with fails(path, "times as large as an orientation function allows", "sh_basis descoteaux07"):
        load_sh(path, "descoteaux07")


@pytest.mark.parametrize("basis", BASES)
def test_the_sharpest_fibres_are_taken(save, basis):
    """A fibre along z has its greatest coefficient at the highest degree; the loader must know that."""
    full = BASES[basis].full
    directions = np.concatenate([np.tile([[0.0, 0, 1]], (30, 1)), random_directions(30)])
    values = sampling_matrix(directions, 12, basis.replace("tournier07_legacy", "tournier07"))
    assert values[0].argmax() > 0
    if "tournier07_legacy" in basis:  # that basis is not orthonormal
        values[:, 1:] *= np.sqrt(2)
    loaded = load_sh(save(values.reshape(*SHAPE, -1)), basis)
    assert order_of(loaded.values.shape[3], full) == 12


def test_names_that_are_unknown(save):
    path = save(flat_data(6))
    with pytest.raises(ParameterError, match="the basis is 'mrtrix': give one of descoteaux07"):
        load_sh(path, "mrtrix")
    for load in (load_pmf, load_odf):
        with pytest.raises(ParameterError, match="the sphere is 'big': give one of default, full, small"):
            load(path, "big")
