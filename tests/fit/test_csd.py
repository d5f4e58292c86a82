"""Constrained spherical deconvolution: against DIPY, against fibres whose direction is known, and what it refuses."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from csd_data import CROP, RESPONSE, brainlike, dipys, everywhere, needs_crop
from dipy.core.gradients import gradient_table
from dipy.data import get_sphere
from dipy.reconst.csdeconv import AxSymShResponse, ConstrainedSphericalDeconvModel, auto_response_ssst
from dipy.reconst.shm import sh_to_sf
from present import PRESENT
from synthetic import ACROSS, ALONG, UNWEIGHTED, gradients, signals

from tistreamlines.devices import choose
from tistreamlines.errors import DeviceError, InputError
from tistreamlines.fit import csd, csd_batches
from tistreamlines.fit.csd import fit_csd
from tistreamlines.fit.csd_system import System
from tistreamlines.fit.response import csd_response
from tistreamlines.io import nifti

pytestmark = [
    pytest.mark.filterwarnings("ignore::PendingDeprecationWarning"),  # DIPY's, at each use of a legacy basis
    pytest.mark.filterwarnings("ignore:Number of parameters required:UserWarning"),  # also DIPY's
]


@pytest.fixture(scope="module")
def crop():
    """The crop's data and gradients."""
    dwi = nifti.load_dwi(*(CROP / f"dwi.{suffix}" for suffix in ("nii.gz", "bval", "bvec")))
    return dwi.data, dwi.gtab


@pytest.mark.parametrize("order", [2, 4, 6, 8, 10])
def test_equals_dipy_on_simulated_voxels(order):
    data, gtab = brainlike(gradients(70)), gradients(70)
    fitted = fit_csd(data, gtab, everywhere(data), RESPONSE, order)
    assert fitted.dtype == np.float32
    assert np.abs(fitted - dipys(data, gtab, order=order)).max() < 1e-6


def test_equals_dipy_with_fewer_directions_than_coefficients():
    # the normal matrix has no Cholesky factor without DIPY's ridge
    data, gtab = brainlike(gradients(32)), gradients(32)
    assert np.abs(fit_csd(data, gtab, everywhere(data), RESPONSE) - dipys(data, gtab)).max() < 1e-4


def test_equals_dipy_with_a_response_of_harmonics():
    data, gtab = brainlike(gradients(), 20), gradients()
    response = AxSymShResponse(UNWEIGHTED, np.array([900.0, -330.0, 60.0, -6.0, 0.5]))
    assert np.abs(fit_csd(data, gtab, everywhere(data), response) - dipys(data, gtab, response)).max() < 1e-6


@needs_crop
def test_response_and_coefficients_of_the_crop_equal_dipys(crop):
    data, gtab = crop
    mask = np.zeros(data.shape[:3], bool)
    mask[::3, ::3, ::2] = True
    response, ratio = csd_response(data, gtab, everywhere(data))
    (evals, unweighted), dipys_ratio = auto_response_ssst(gtab, data)
    assert np.array_equal(response[0], evals)
    assert (response[1], ratio) == (unweighted, dipys_ratio)
    fitted = fit_csd(data, gtab, mask, response)
    assert np.abs(fitted - dipys(data, gtab, response, mask=mask))[mask].max() < 1e-6
    assert not fitted[~mask].any()


@pytest.mark.parametrize("order", [2, 8, 10])
@pytest.mark.parametrize(
    "response", [RESPONSE, AxSymShResponse(None, np.array([900.0, -330.0, 60.0, -6.0, 0.5, 0.1, 0.01]))]
)
def test_equations_are_those_of_dipys_model(response, order):
    model = ConstrainedSphericalDeconvModel(gradients(), response, sh_order_max=order, lambda_=0.3)
    system = System.of(gradients(), response, order, 0.3)
    for ours, theirs in ((system.design, model._X), (system.normal, model._P), (system.positivity, model.B_reg)):
        assert np.allclose(ours, theirs, rtol=1e-12, atol=1e-12 * np.abs(theirs).max())
    assert system.tau == model.tau


def test_a_response_of_a_lower_order_is_refused():
    with pytest.raises(InputError, match="the response has order 4: give one of order 8"):
        System.of(gradients(), AxSymShResponse(None, np.array([900.0, -330.0, 60.0])), 8, 1.0)


def test_an_amplitude_above_the_threshold_everywhere_needs_no_constraint():
    # the unconstrained least squares: water is smooth, so that DIPY never enters its loop
    gtab = gradients()
    data = signals(gtab, np.array([0, 0, 1.0]), 0.0)[None, None, None]
    design = System.of(gtab, RESPONSE, 8, 1.0).design
    expected = np.linalg.lstsq(design, data[0, 0, 0, ~gtab.b0s_mask].astype(float), rcond=None)[0]
    assert np.allclose(fit_csd(data, gtab, everywhere(data), RESPONSE)[0, 0, 0], expected, atol=1e-6)


def test_a_single_fibre_peaks_along_itself():
    gtab, sphere = gradients(), get_sphere(name="repulsion724")
    axes = sphere.vertices[::60]
    data = signals(gtab, axes)[:, None, None]
    amplitudes = sh_to_sf(fit_csd(data, gtab, everywhere(data), RESPONSE)[:, 0, 0], sphere, sh_order_max=8)
    peaks = sphere.vertices[amplitudes.argmax(axis=1)]
    assert np.abs((peaks * axes).sum(axis=1)).min() > np.cos(np.radians(1))
    # away from the fibre next to nothing is left
    aside = np.abs(axes @ sphere.vertices.T) < 0.5
    assert np.abs(amplitudes[aside]).max() < 0.1 * amplitudes.max()


def test_threads_layout_and_company_leave_the_bits_alone():
    data, gtab = brainlike(gradients(), 90), gradients()
    single = fit_csd(data, gtab, everywhere(data), RESPONSE, threads=1)
    many = fit_csd(np.asfortranarray(data), gtab, everywhere(data), RESPONSE, threads=5)
    assert np.array_equal(single, many)
    part = np.random.default_rng(0).random(data.shape[:3]) < 0.3
    assert np.array_equal(fit_csd(data, gtab, part, RESPONSE), np.where(part[..., None], single, 0))


def in_batches(monkeypatch, voxels):
    """Let reports of progress be so many voxels apart."""
    monkeypatch.setattr(csd_batches.Pace, "of", lambda _, solutions, __: csd_batches.Pace(voxels, voxels, 1, solutions))


def test_progress_rises_to_one(monkeypatch):
    in_batches(monkeypatch, 100)
    data, shares = brainlike(gradients(), 300), []
    fit_csd(data, gradients(), everywhere(data), RESPONSE, progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert any(0 < share < 1 for share in shares)


def test_batches_leave_the_bits_alone(monkeypatch):
    data, gtab = brainlike(gradients(), 90), gradients()
    expected = fit_csd(data, gtab, everywhere(data), RESPONSE)
    in_batches(monkeypatch, 7)
    assert np.array_equal(fit_csd(data, gtab, everywhere(data), RESPONSE), expected)


def test_the_interpreted_kernel_gives_the_same_bits():
    data, gtab = brainlike(gradients(), 6), gradients()
    there = fit_csd(data, gtab, everywhere(data), RESPONSE, arch="python")
    assert np.array_equal(there, fit_csd(data, gtab, everywhere(data), RESPONSE))


def test_a_signal_that_is_not_finite_spoils_its_voxel_alone():
    data, gtab = brainlike(gradients(), 20), gradients()
    expected = fit_csd(data, gtab, everywhere(data), RESPONSE)
    data[5, ..., 7], data[6, ..., 9] = np.nan, np.inf
    fitted = fit_csd(data, gtab, everywhere(data), RESPONSE)
    assert np.isnan(fitted[5]).all()
    assert not np.isfinite(fitted[6]).any()
    spoilt = np.isin(np.arange(20), (5, 6))
    assert np.array_equal(fitted[~spoilt], expected[~spoilt])


def test_a_device_without_reals_of_64_bits_leaves_the_fit_to_the_cpu(monkeypatch):
    data, gtab = brainlike(gradients(), 20), gradients()
    metal = replace(choose("cpu"), arch="metal", name="Apple GPU", float64=False)
    monkeypatch.setattr("tistreamlines.devices.choose", lambda arch: metal if arch == "metal" else choose(arch))
    with pytest.warns(UserWarning, match="--arch metal: Apple GPU has no numbers of 64 bits: the CPU fits"):
        there = fit_csd(data, gtab, everywhere(data), RESPONSE, arch="metal")
    assert np.array_equal(there, fit_csd(data, gtab, everywhere(data), RESPONSE))


@pytest.mark.nightly
@pytest.mark.parametrize("order", [4, 8, 12])
def test_a_software_device_gives_the_same_bits(order):
    """It takes minutes to compile."""
    if "vulkan" not in PRESENT:
        pytest.skip("no Vulkan device")
    gtab = gradients(100)
    data = brainlike(gtab, 60)
    data[5, ..., 7] = np.nan
    try:
        there = fit_csd(data, gtab, everywhere(data), RESPONSE, order, arch="vulkan")
    except DeviceError as error:
        pytest.skip(str(error))
    assert np.array_equal(there, fit_csd(data, gtab, everywhere(data), RESPONSE, order), equal_nan=True)


def test_an_empty_mask_is_all_zeros():
    data = brainlike(gradients(), 5)
    assert not fit_csd(data, gradients(), ~everywhere(data), RESPONSE).any()


def test_voxels_that_do_not_converge_are_told(monkeypatch):
    monkeypatch.setattr(csd, "MOST_SOLUTIONS", 1)
    data = brainlike(gradients(), 50)
    with pytest.warns(UserWarning, match=r"\d+ of 50 voxels did not converge in 1 iterations"):
        fit_csd(data, gradients(), everywhere(data), RESPONSE)


def test_a_matrix_without_a_factor_is_refused(monkeypatch):
    data, build = brainlike(gradients(), 20), csd_batches.equations_of

    def negative(*arguments):
        equations = build(*arguments)
        equations.normal = -equations.normal
        return equations

    monkeypatch.setattr(csd_batches, "equations_of", negative)
    with pytest.raises(InputError, match=r"of 20 voxels have no solution of order 8 with 64 .*: lower the order"):
        fit_csd(data, gradients(), everywhere(data), RESPONSE)


def test_too_few_directions_for_the_order_are_refused(monkeypatch):
    # bright signals can drown the ridge
    monkeypatch.setattr(csd_batches, "RIDGE", 0.0)
    data = brainlike(gradients(20), 5)
    with pytest.raises(InputError, match="do not determine coefficients of order 8"):
        fit_csd(data, gradients(20), everywhere(data), RESPONSE)


def test_a_caller_that_stops_is_heard_at_once(monkeypatch):
    in_batches(monkeypatch, 100)
    data, shares = brainlike(gradients(), 300), []

    def stop(share: float) -> None:
        shares.append(share)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_csd(data, gradients(), everywhere(data), RESPONSE, progress=stop)
    assert shares == [0]


def test_the_response_comes_from_the_mask():
    # outside the mask lie fibres of another diffusivity
    gtab = gradients()
    data = np.broadcast_to(signals(gtab, np.array([0, 0, 1.0])), (6, 6, 6, 66)).copy()
    data[3:] = 0.5 * data[3:] ** 1.2
    mask = everywhere(data)
    mask[3:] = False
    (evals, unweighted), ratio = csd_response(data, gtab, mask)
    assert np.allclose(evals, RESPONSE[0], rtol=1e-3)
    assert unweighted == pytest.approx(UNWEIGHTED)
    assert ratio == pytest.approx(ACROSS / ALONG, rel=1e-3)


def test_the_response_is_sought_in_the_whole_mask():
    # the cube about the middle holds water; a lonely fibre lies in a corner
    gtab = gradients()
    data = np.broadcast_to(signals(gtab, np.array([0, 0, 1.0]), 0.0), (24, 24, 24, 66)).copy()
    data[0, 0, 0] = signals(gtab, np.array([0, 0, 1.0]))
    mask = np.zeros((24, 24, 24), bool)
    mask[0, 0] = True
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        response, _ = csd_response(data, gtab, mask)
    assert np.allclose(response[0], RESPONSE[0], rtol=1e-3)


def test_a_response_without_anisotropy_is_refused():
    data = signals(gradients(), np.broadcast_to([0, 0, 1.0], (4, 4, 4, 3)), 0.1)
    with pytest.raises(InputError, match=r"none of the 64 voxels .* above 0.7 \(the greatest is 0\.\d\d\): widen"):
        csd_response(data, gradients(), everywhere(data))
    response, _ = csd_response(data, gradients(), everywhere(data), fa_threshold=0.01)
    assert response[0][0] > response[0][1] == response[0][2]


def test_what_does_not_go_together_is_refused():
    data, gtab = brainlike(gradients(), 5), gradients()
    mask = everywhere(data)
    b0s = gradient_table(np.zeros(66), bvecs=np.zeros((66, 3)), b0_threshold=0)
    weighted = gradient_table(gtab.bvals[1:-1], bvecs=gtab.bvecs[1:-1])
    cases = {
        "give one series": lambda: fit_csd(data[..., 1:], gtab, mask, RESPONSE),
        "give a bool": lambda: fit_csd(data, gtab, mask[1:], RESPONSE),
        "at least 2": lambda: fit_csd(data, gtab, mask, RESPONSE, order=7),
        "three eigenvalues": lambda: fit_csd(data, gtab, mask, (np.array([ALONG, 0, np.nan]), 1.0)),
        "all volumes are b0s": lambda: fit_csd(data, b0s, mask, RESPONSE),
        "has no b0": lambda: csd_response(data[..., 1:-1], weighted, mask),
    }
    for message, call in cases.items():
        with pytest.raises(InputError, match=message):
            call()
