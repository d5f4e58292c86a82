"""CSA and OPDT: against DIPY's fits, on simulated, odd and real signals, and on every device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from dipy.core.gradients import gradient_table
from dipy.reconst.shm import CsaOdfModel, OpdtModel
from places import DATA
from present import PRESENT
from synthetic import gradients, noisy_crossing

from tistreamlines.errors import DeviceError, InputError
from tistreamlines.fit import linear
from tistreamlines.fit.linear import LINEAR, LinearModel, fit_linear
from tistreamlines.io import nifti

RNG = np.random.default_rng(0)
MODELS = {"csa": CsaOdfModel, "opdt": OpdtModel}
EACH = pytest.mark.parametrize("model", LINEAR)
pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # DIPY's, at each use of a legacy basis


@dataclass(frozen=True)
class Chosen:
    """The options of a fit."""

    model: str
    order: int = 4
    least: float = 1.0
    smoothing: float = 0.006

    def of(self, gtab) -> tuple[LinearModel, float]:
        return LinearModel.of(gtab, self.model, self.order, self.smoothing), self.least


def everywhere(data: np.ndarray) -> np.ndarray:
    return np.ones(data.shape[:3], bool)


def fit(data, gtab, chosen: Chosen, **settings) -> np.ndarray:
    return fit_linear(data, gtab, everywhere(data), *chosen.of(gtab), **settings)


def dipys(data, gtab, chosen: Chosen) -> np.ndarray:
    """The coefficients of DIPY's own fit, of signals that are divided in float64, since DIPY does it in float32."""
    model = MODELS[chosen.model](gtab, chosen.order, smooth=chosen.smoothing, assume_normed=True)
    raised = data.astype(np.float64).clip(chosen.least)
    return model.fit(raised / raised[..., gtab.b0s_mask].mean(axis=-1, keepdims=True)).shm_coeff


def check(data, gtab, chosen: Chosen) -> None:
    expected, fitted = dipys(data, gtab, chosen), fit(data, gtab, chosen)
    assert fitted.dtype == np.float32
    greatest = np.abs(expected).max(axis=-1, keepdims=True)
    assert (np.abs(fitted - expected) <= 1e-7 * greatest + 1e-9).all()


@EACH
@pytest.mark.parametrize("order", [2, 4, 6, 8, 12])
def test_equals_dipy_on_simulated_signals(model, order):
    gtab = gradients(100)
    check(noisy_crossing(gtab), gtab, Chosen(model, order))


@EACH
def test_equals_dipys_fit_in_its_own_precision(model):
    data, gtab, chosen = noisy_crossing(gradients()), gradients(), Chosen(model)
    theirs = MODELS[model](gtab, 4, smooth=chosen.smoothing, min_signal=chosen.least).fit(data).shm_coeff
    assert np.abs(fit(data, gtab, chosen) - theirs).max() < 1e-6 * np.abs(theirs).max()


@EACH
@pytest.mark.parametrize("directions", [31, 32, 33, 63, 65])
def test_b0s_may_be_anywhere_among_any_number_of_directions(model, directions):
    whole = gradients(directions)
    order = np.random.default_rng(directions).permutation(directions + 2)
    gtab = gradient_table(whole.bvals[order], bvecs=whole.bvecs[order])
    check(noisy_crossing(gtab), gtab, Chosen(model))
    assert np.allclose(fit(noisy_crossing(whole)[..., order], gtab, Chosen(model)),
                       fit(noisy_crossing(whole), whole, Chosen(model)), atol=1e-5)


@EACH
@pytest.mark.parametrize("rows", [
    RNG.uniform(0, 1000, (300, 66)) * (RNG.random((300, 66)) < 0.7),
    RNG.uniform(-500, 500, (300, 66)),
    np.zeros((2, 66)),
    np.full((2, 66), -0.0),
    np.append(np.zeros((5, 1)), RNG.uniform(0, 1000, (5, 65)), axis=1),
    np.linspace(0, 1000, 50)[:, None] * np.ones(66),
    10.0 ** RNG.uniform(-38, 5, (100, 66)),
    np.eye(66) * 1e6,
], ids=["zeros", "negative", "none", "negative zeros", "no b0 signal", "constant", "tiny", "one signal each"])
def test_equals_dipy_on_odd_signals(model, rows):
    check(rows[:, None, None].astype(np.float32), gradients(), Chosen(model))


@EACH
@pytest.mark.parametrize("least", [1e-42, 1e-5, 100.0, 1e6])
def test_signals_are_raised_to_the_least(model, least):
    rows = RNG.uniform(-100, 1000, (50, 66))
    check(np.maximum(rows, 1e-3)[:, None, None].astype(np.float32), gradients(), Chosen(model, least=least))


@EACH
@pytest.mark.parametrize("volume", [0, 7, 64], ids=["b0", "weighted", "last chunk"])
@pytest.mark.parametrize("value", [np.nan, -np.nan, np.inf, -np.inf, 1e38, -3e38])
def test_a_voxel_with_a_signal_that_is_none_has_no_function(model, volume, value):
    data = noisy_crossing(gradients())
    expected = fit(data, gradients(), Chosen(model))
    data[1, 2, 0, volume], expected[1, 2, 0] = value, 0
    assert np.array_equal(fit(data, gradients(), Chosen(model)), expected)


def test_coefficients_beyond_float32_are_0():
    data = np.full((1, 1, 1, 66), 1e-30, np.float32)
    data[..., 1:33] = 1e37
    fitted = fit(data, gradients(), Chosen("opdt", least=1e-37))
    assert np.isfinite(fitted).all()


@EACH
def test_threads_layout_batches_and_neighbours_leave_the_bits_alone(model, monkeypatch):
    data, chosen = noisy_crossing(gradients(), (4, 5, 5)), Chosen(model, 6).of(gradients())
    mask = RNG.random(data.shape[:3]) < 0.7
    shares: list[float] = []
    single = fit_linear(data, gradients(), mask, *chosen, threads=1, progress=shares.append)
    assert shares == [0, 1]
    monkeypatch.setattr(linear, "BATCH", 9)
    several = fit_linear(np.asfortranarray(data), gradients(), mask, *chosen, threads=2, progress=shares.append)
    assert np.array_equal(single, several)
    assert shares[2:] == sorted(shares[2:])
    assert len(shares) > 5
    assert not single[~mask].any()
    assert single[mask].all()
    assert not fit_linear(data, gradients(), ~mask & mask, *chosen).any()


def odd() -> np.ndarray:
    """Signals (5, 5, 4, 66), of which some are negative, 0 or no numbers."""
    data = noisy_crossing(gradients(), (5, 5, 4))
    data[1] = np.random.default_rng(1).uniform(-100, 1000, data[1].shape)
    data[2, 0, 0], data[2, 1, 0, 5], data[3, 0] = np.inf, np.nan, 0
    return data


@EACH
@pytest.mark.parametrize("order", [4, 8])
def test_a_software_device_gives_the_same_bits(model, order):
    if "vulkan" not in PRESENT:
        pytest.skip("no Vulkan device")
    try:
        there = fit(odd(), gradients(), Chosen(model, order), arch="vulkan")
    except DeviceError as error:
        pytest.skip(str(error))
    assert np.array_equal(there, fit(odd(), gradients(), Chosen(model, order)))


@EACH
def test_plain_python_gives_the_same_bits(model):
    data = odd()[1:4, :1, :1]
    assert np.array_equal(fit(data, gradients(), Chosen(model), arch="python"), fit(data, gradients(), Chosen(model)))


@EACH
def test_a_series_without_a_b0_or_with_few_directions_is_refused(model):
    few, weighted = gradients(14), gradients().bvals > 0
    with pytest.raises(InputError, match="14 diffusion-weighted volumes do not determine the 15 coefficients of order"):
        fit(noisy_crossing(few), few, Chosen(model))
    gtab = gradient_table(gradients().bvals[weighted], bvecs=gradients().bvecs[weighted])
    with pytest.raises(InputError, match="no volume is a b0"):
        fit(noisy_crossing(gtab), gtab, Chosen(model))
    with pytest.raises(InputError, match="give one series"):
        fit(noisy_crossing(few), gtab, Chosen(model))


@EACH
@pytest.mark.skipif(not (DATA / "sherbrooke_crop").is_dir(), reason="no real data at ../shared/data/sherbrooke_crop")
def test_equals_dipy_on_real_signals(model):
    dwi = nifti.load_dwi(*(DATA / "sherbrooke_crop" / f"dwi.{suffix}" for suffix in ("nii.gz", "bval", "bvec")))
    data = dwi.data[::3, ::3, ::2]
    data = data[np.isfinite(data).all(axis=-1)][:, None, None]
    check(data, dwi.gtab, Chosen(model, 6))
