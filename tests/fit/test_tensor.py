"""FA: against DIPY's weighted least squares, on simulated, degenerate and real signals."""

from __future__ import annotations

import numpy as np
import pytest
from dipy.core.gradients import gradient_table
from dipy.reconst.dti import TensorModel
from places import DATA
from synthetic import gradients, noisy_crossing

from tistreamlines.fit import tensor
from tistreamlines.fit.tensor import tensor_fa
from tistreamlines.io import nifti

SERIES = {
    "sherbrooke_crop": ("dwi.nii.gz", "dwi.bval", "dwi.bvec"),
    "sherbrooke_1p8mm": ("dwi.nii.gz", "dwi.bval", "dwi.bvec"),
    "fibercup": ("acq-averaged_b-1500.nii.gz", "b1500.bval", "dirs64.bvec"),
}
RNG = np.random.default_rng(0)


def dipys(data, gtab, mask) -> np.ndarray:
    """FA of DIPY's own fit, 0 outside the mask."""
    out = np.zeros(mask.shape)
    out[mask] = np.nan_to_num(TensorModel(gtab).fit(data[mask]).fa)
    return out


def shaped(rows: np.ndarray) -> np.ndarray:
    return rows[:, None, None].astype(np.float32)


def agrees(data, gtab, mask=None) -> bool:
    mask = np.ones(data.shape[:3], bool) if mask is None else mask
    fa = tensor_fa(data, gtab, mask)
    assert fa.dtype == np.float32
    return bool(np.abs(fa - dipys(data, gtab, mask)).max() < 1e-5)


@pytest.mark.parametrize("rows", [
    RNG.uniform(0, 1000, (300, 66)),
    RNG.uniform(0, 1000, (300, 66)) * (RNG.random((300, 66)) < 0.7),
    RNG.uniform(-500, 500, (300, 66)),
    np.linspace(0, 1000, 50)[:, None] * np.ones(66),
    RNG.uniform(0, 1, (100, 66)) * 1e-4,
    10.0 ** RNG.uniform(-38, 38, (100, 66)),
    10.0 ** RNG.uniform(-4, 4, (300, 66)),
    np.eye(66) * 1e6,
], ids=["random", "zeros", "negative", "constant", "tiny", "huge", "uneven", "one signal each"])
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
def test_equals_dipy_on_odd_signals(rows):
    assert agrees(shaped(rows), gradients())


@pytest.mark.parametrize("directions", [4, 5, 6, 7, 12])
def test_equals_dipy_with_few_directions(directions):
    assert agrees(noisy_crossing(gradients(directions)), gradients(directions))


def test_equals_dipy_on_whole_numbers_and_several_shells():
    gtab = gradients(60)
    shells = gradient_table(np.where(np.arange(62) % 2, 1, 2.5) * gtab.bvals, bvecs=gtab.bvecs)
    assert agrees(noisy_crossing(shells).astype(np.int16), shells)


def test_a_nan_is_refused_as_by_dipy():
    data = noisy_crossing(gradients())
    data[0, 1, 2, 3] = np.nan
    with pytest.raises(np.linalg.LinAlgError):
        dipys(data, gradients(), np.ones((3, 3, 3), bool))
    with pytest.raises(np.linalg.LinAlgError):
        tensor_fa(data, gradients(), np.ones((3, 3, 3), bool))


def test_threads_and_layout_leave_the_bits_alone(monkeypatch):
    monkeypatch.setattr(tensor, "BLOCK", 7)
    data, mask = noisy_crossing(gradients()), RNG.random((3, 3, 3)) < 0.7
    single = tensor_fa(data, gradients(), mask, threads=1)
    assert np.array_equal(single, tensor_fa(np.asfortranarray(data), gradients(), mask, threads=5))
    assert not single[~mask].any()
    assert not tensor_fa(data, gradients(), ~mask & mask).any()
    volumes = np.arange(2 * data.shape[3]) % 2 == 1
    assert np.array_equal(single, tensor_fa(np.repeat(data, 2, axis=3), gradients(), mask, volumes=volumes))


@pytest.mark.parametrize("name", SERIES)
def test_equals_dipy_on_real_signals(name):
    if not (DATA / name).is_dir():
        pytest.skip(f"no real data at ../shared/data/{name}")
    dwi = nifti.load_dwi(*(DATA / name / file for file in SERIES[name]))
    sample = np.zeros(dwi.data.shape[:3], bool)
    sample.reshape(-1)[:: max(sample.size // 4000, 1)] = True  # with background, whose signals are noise or 0
    assert agrees(dwi.data, dwi.gtab, sample)
