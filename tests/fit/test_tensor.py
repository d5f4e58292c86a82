"""FA: against DIPY's weighted least squares, on simulated, degenerate and real signals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from dipy.core.gradients import gradient_table
from dipy.reconst.dti import TensorModel
from places import DATA
from present import PRESENT
from synthetic import gradients, noisy_crossing, signals

from tistreamlines.devices import choose
from tistreamlines.errors import DeviceError
from tistreamlines.fit import tensor
from tistreamlines.fit.tensor import anisotropy, tensor_fa
from tistreamlines.io import nifti
from tistreamlines.space.encoding import tensor_design

SERIES = {
    "sherbrooke_crop": ("dwi.nii.gz", "dwi.bval", "dwi.bvec"),
    "sherbrooke_1p8mm": ("dwi.nii.gz", "dwi.bval", "dwi.bvec"),
    "fibercup": ("acq-averaged_b-1500.nii.gz", "b1500.bval", "dirs64.bvec"),
}
RNG = np.random.default_rng(0)
TOLERANCE, CLIPPED = 1e-9, 1e-8  # where signals are clipped, since DIPY's 1e-4 is no float32


def dipys(data, gtab, mask) -> np.ndarray:
    """FA (m,) of DIPY's own fit of float64, whose logarithms have its digits."""
    return np.nan_to_num(TensorModel(gtab).fit(data[mask].astype(np.float64)).fa)


def shaped(rows: np.ndarray) -> np.ndarray:
    return rows[:, None, None].astype(np.float32)


def error(data, gtab, mask=None) -> float:
    """The greatest difference between the FA here and DIPY's."""
    mask = np.ones(data.shape[:3], bool) if mask is None else mask
    fa = anisotropy(data.astype(np.float64), gtab, mask)
    assert fa.shape == (np.count_nonzero(mask),)
    return np.abs(fa - dipys(data, gtab, mask)).max(initial=0)


@pytest.mark.parametrize(("rows", "tolerance"), [
    (RNG.uniform(0, 1000, (300, 66)), TOLERANCE),
    (RNG.uniform(0, 1000, (300, 66)) * (RNG.random((300, 66)) < 0.7), CLIPPED),
    (RNG.uniform(-500, 500, (300, 66)), CLIPPED),
    (np.linspace(0, 1000, 50)[:, None] * np.ones(66), TOLERANCE),
    (RNG.uniform(0, 1, (100, 66)) * 1e-4, TOLERANCE),
    (10.0 ** RNG.uniform(-38, 38, (100, 66)), CLIPPED),
    (10.0 ** RNG.uniform(-4, 4, (300, 66)), TOLERANCE),
    (np.eye(66) * 1e6, TOLERANCE),
    (np.full((5, 66), -np.inf), TOLERANCE),
], ids=["random", "zeros", "negative", "constant", "tiny", "huge", "uneven", "one signal each", "infinite"])
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
def test_equals_dipy_on_odd_signals(rows, tolerance):
    assert error(shaped(rows), gradients()) < tolerance


@pytest.mark.parametrize("directions", [4, 5, 6, 7, 12])
def test_equals_dipy_with_few_directions(directions):
    assert error(noisy_crossing(gradients(directions)), gradients(directions)) < TOLERANCE


def test_equals_dipy_on_whole_numbers_and_several_shells():
    gtab = gradients(60)
    shells = gradient_table(np.where(np.arange(62) % 2, 1, 2.5) * gtab.bvals, bvecs=gtab.bvecs)
    assert error(noisy_crossing(shells).astype(np.int16), shells) < TOLERANCE


def test_equals_dipy_with_weak_weighting_and_without_a_b0():
    weak = gradients(30, b=3.0)
    assert error(noisy_crossing(weak, snr=1e4), gradient_table(weak.bvals, bvecs=weak.bvecs, b0_threshold=1)) < 1e-7
    gtab = gradients(60)
    two = gradient_table(np.where(np.arange(60) % 2, 1000, 2000), bvecs=gtab.bvecs[1:-1])
    assert error(noisy_crossing(two), two) < TOLERANCE


def test_without_noise_a_fibre_has_its_anisotropy():
    axes = RNG.normal(size=(40, 1, 1, 3))
    data = signals(gradients(), axes / np.linalg.norm(axes, axis=-1, keepdims=True))
    expected = (1.7 - 0.3) / np.sqrt(1.7**2 + 2 * 0.3**2)
    assert np.abs(anisotropy(data, gradients(), np.ones((40, 1, 1), bool)) - expected).max() < 1e-6  # of float32


def test_the_kernel_fits_all_but_rare_voxels(monkeypatch):
    """It marks what it leaves to pseudo-inverses."""
    rare = []
    monkeypatch.setattr(tensor, "eigenvalues", lambda design, rows: rare.append(rows) or np.zeros((len(rows), 3)))
    data, mask = noisy_crossing(gradients(), (5, 5, 5)), np.ones((5, 5, 5), bool)
    anisotropy(data, gradients(), mask)
    assert not rare
    data[0, 0, 3, 5] = np.inf
    assert anisotropy(data, gradients(), mask)[3] == 0
    np.testing.assert_array_equal(np.concatenate(rare), data[0, 0, 3:4])


@pytest.mark.parametrize("spread", [1, 1e3, 1e12])
def test_pseudo_inverses_give_dipys_anisotropy(spread):
    """To the last bit."""
    gtab, rows = gradients(), RNG.uniform(-0.1, 1, (200, 66)) * spread ** RNG.random((200, 66))
    fit, eigenvalues = TensorModel(gtab).fit(rows), tensor.eigenvalues(tensor_design(gtab), rows)
    np.testing.assert_array_equal(eigenvalues, fit.evals)
    np.testing.assert_array_equal(np.nan_to_num(tensor.fractional_anisotropy(eigenvalues)), fit.fa)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_nan_is_refused_as_by_dipy(sign):
    data, mask = noisy_crossing(gradients()), np.ones((3, 3, 3), bool)
    data[0, 1, 2, 3] = np.copysign(np.nan, sign)
    with pytest.raises(np.linalg.LinAlgError):
        dipys(data, gradients(), mask)
    with pytest.raises(np.linalg.LinAlgError):
        tensor_fa(data, gradients(), mask)


def test_threads_layout_and_neighbours_leave_the_bits_alone(monkeypatch):
    data, mask = noisy_crossing(gradients(), (4, 5, 5)), RNG.random((4, 5, 5)) < 0.7
    single = tensor_fa(data, gradients(), mask, threads=1)
    monkeypatch.setattr(tensor, "VOXELS", 7)
    assert np.array_equal(single, tensor_fa(np.asfortranarray(data), gradients(), mask, threads=5))
    assert single.dtype == np.float32
    assert not single[~mask].any()
    assert not tensor_fa(data, gradients(), ~mask & mask).any()
    volumes = np.arange(2 * data.shape[3]) % 2 == 1
    assert np.array_equal(single, tensor_fa(np.repeat(data, 2, axis=3), gradients(), mask, volumes=volumes))


@pytest.mark.parametrize("count", [1, 31, 32, 33])
def test_a_mask_may_have_any_number_of_voxels(count):
    data, every = noisy_crossing(gradients(), (4, 5, 5)), np.ones((4, 5, 5), bool)
    mask = np.cumsum(every).reshape(every.shape) <= count
    assert np.array_equal(anisotropy(data, gradients(), mask), anisotropy(data, gradients(), every)[:count])


def test_a_software_device_gives_the_same_bits():
    if "vulkan" not in PRESENT:
        pytest.skip("no Vulkan device")
    data, mask = noisy_crossing(gradients(), (5, 5, 4)), np.ones((5, 5, 4), bool)
    data[1], data[2, 0, 0] = RNG.uniform(-100, 1000, data[1].shape), np.inf
    try:
        there = anisotropy(data, gradients(), mask & np.isfinite(data).all(axis=3), arch="vulkan")
    except DeviceError as error:
        pytest.skip(str(error))
    assert np.array_equal(there, anisotropy(data, gradients(), mask & np.isfinite(data).all(axis=3)))


def test_a_device_without_reals_of_64_bits_leaves_the_fit_to_the_cpu(monkeypatch):
    metal = replace(choose("cpu"), arch="metal", name="Apple GPU", float64=False)
    monkeypatch.setattr("tistreamlines.devices.choose", lambda arch: metal if arch == "metal" else choose(arch))
    data, mask = noisy_crossing(gradients()), np.ones((3, 3, 3), bool)
    with pytest.warns(UserWarning, match="--arch metal: Apple GPU has no numbers of 64 bits.*the CPU fits FA"):
        there = tensor_fa(data, gradients(), mask, arch="metal")
    assert np.array_equal(there, tensor_fa(data, gradients(), mask))


@pytest.mark.parametrize("name", SERIES)
def test_equals_dipy_on_real_signals(name):
    if not (DATA / name).is_dir():
        pytest.skip(f"no real data at ../shared/data/{name}")
    dwi = nifti.load_dwi(*(DATA / name / file for file in SERIES[name]))
    sample = np.zeros(dwi.data.shape[:3], bool)
    sample.reshape(-1)[:: max(sample.size // 4000, 1)] = True  # with background, whose signals are noise or 0
    assert error(dwi.data, dwi.gtab, sample) < CLIPPED
