"""Deconvolution of several shells and tissues, against a quadratic programme in float64 and MRtrix3's dwi2fod."""

import shutil
import subprocess
from dataclasses import replace
from types import SimpleNamespace

import nibabel as nib
import numpy as np
import pytest
from dipy.core.gradients import gradient_table
from present import PRESENT
from scipy.optimize import nnls

from tistreamlines.devices import choose
from tistreamlines.errors import DeviceError, DeviceMemoryError, InputError
from tistreamlines.fit import msmt as module
from tistreamlines.fit import msmt_kernels as kernels
from tistreamlines.fit.amp_response import default_orders
from tistreamlines.fit.msmt import fit_msmt
from tistreamlines.fit.shells import stray_volumes
from tistreamlines.fit.tissues import TissueProblem, doubts, positive_directions, tissue_shells
from tistreamlines.phantom.phantom import spread_directions
from tistreamlines.phantom.shells import make_shells

MRTRIX = pytest.mark.skipif(not shutil.which("dwi2fod"), reason="MRtrix3 is not installed")
RESPONSES = {
    "wm": np.array([
        [1055, 0, 0, 0, 0], [551, -224, 48.5, -7.9, 0.8], [353, -226, 92, -27, 6], [267, -195, 110, -45, 12.9],
    ]),
    "gm": np.array([[1215.0], [498], [207], [92]]), "csf": np.array([[4247.0], [216], [42], [41]]),
}


@pytest.fixture(scope="module")
def phantom():
    return make_shells((14, 16, 12), 9.0, {0: 6, 1000: 48, 2000: 48, 3000: 48})


@pytest.fixture(scope="module")
def gtab(phantom):
    return gradient_table(phantom.bvals, bvecs=phantom.bvecs)


@pytest.fixture(scope="module")
def fit(phantom, gtab):
    return fit_msmt(phantom.data, gtab, phantom.mask, RESPONSES)


def stacked(fit, mask):
    return np.concatenate([values[mask] for values in fit.coefficients.values()], axis=1)


def test_the_solution_is_that_of_non_negative_least_squares(phantom, fit):
    """The dual of the projection on a cone: the polar part is a non-negative combination of normals."""
    problem, mask = fit.problem, phantom.mask
    voxels = np.flatnonzero(mask)[::40]
    for row, signals in zip(stacked(fit, mask)[::40], phantom.data.reshape(mask.size, -1)[voxels], strict=True):
        start = signals @ problem.projection
        y = start + problem.half_spaces.T @ nnls(problem.half_spaces.T, -start, maxiter=5000)[0]
        expected = problem.to_coefficients @ y
        assert np.abs(row - expected).sum() <= 2e-5 * np.abs(expected).sum()


def test_amplitudes_are_not_negative(phantom, fit):
    values = stacked(fit, phantom.mask)
    assert not fit.failed.any()
    assert (values @ fit.problem.amplitudes.T).min() >= -1e-5 * values.max()
    np.testing.assert_array_equal(fit.coefficients["gm"][~phantom.mask], 0)


def test_the_residual_is_that_of_the_fit(phantom, fit):
    errors = phantom.data[phantom.mask] - stacked(fit, phantom.mask) @ fit.problem.design.T
    np.testing.assert_allclose(fit.residual[phantom.mask], np.sqrt((errors**2).mean(axis=1)), rtol=1e-4)


def test_threads_and_neighbours_outside_the_mask_do_not_matter(phantom, gtab, fit):
    single = fit_msmt(phantom.data, gtab, phantom.mask, RESPONSES, threads=1)
    np.testing.assert_array_equal(stacked(single, phantom.mask), stacked(fit, phantom.mask))


def test_progress_rises_to_1(phantom, gtab):
    shares = []
    fit_msmt(phantom.data, gtab, phantom.mask, RESPONSES, (2, 0, 0), progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_voxels_without_a_signal_are_told(phantom, gtab, fit):
    data, mask = phantom.data.copy(), np.ones_like(phantom.mask)
    inside = np.argwhere(phantom.mask)
    data[tuple(inside[3])][5], data[tuple(inside[9])] = np.nan, np.inf
    spoilt = fit_msmt(data, gtab, mask, RESPONSES)
    failed = ~phantom.mask  # all 0 there
    failed[tuple(inside[[3, 9]].T)] = True
    np.testing.assert_array_equal(spoilt.failed, failed)
    assert not any(values[failed].any() for values in spoilt.coefficients.values())
    same = np.abs(stacked(spoilt, ~failed) - stacked(fit, ~failed)).max()  # other voxels come before
    assert same <= 1e-5 * stacked(fit, ~failed).max()


def test_signals_without_noise_give_their_coefficients_back(gtab, phantom):
    """Isotropic mixtures lie in the cone, where constraints do not matter."""
    problem = TissueProblem.of(gtab, RESPONSES)
    truth = np.zeros((4, 1, 1, problem.design.shape[1]))
    truth[..., 0], truth[..., 45], truth[..., 46] = 0.2, 0.3, np.arange(4)[:, None, None] / 10 + 0.01
    fit = fit_msmt(truth @ problem.design.T, gtab, np.ones((4, 1, 1), bool), RESPONSES)
    np.testing.assert_allclose(stacked(fit, np.ones((4, 1, 1), bool)), truth.reshape(4, -1), atol=1e-6)
    assert fit.residual.max() < 0.1


@pytest.mark.parametrize(("responses", "orders", "message"), [
    ({}, None, "no tissue"),
    (RESPONSES | {"gm": RESPONSES["gm"][:3]}, None, "gm has 3 rows"),
    (RESPONSES | {"csf": np.full((4, 1), np.nan)}, None, "csf is not finite"),
    (RESPONSES | {"csf": np.zeros((4, 1))}, None, "csf is nowhere positive"),
    (RESPONSES, (8, 0), "2 orders"),
    (RESPONSES, (3, 0, 0), "order 3 of wm"),
    (RESPONSES, (-2, 0, 0), "order -2 of wm"),
    (RESPONSES | {"csf": RESPONSES["gm"]}, None, "responses that differ more"),
])
def test_inputs_that_do_not_match_are_errors(phantom, gtab, responses, orders, message):
    with pytest.raises(InputError, match=message) as error:
        fit_msmt(phantom.data, gtab, phantom.mask, responses, orders)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("bvals", "message"), [
    ([1000] * 50 + [2000] * 50, "no volume has a b-value up to"),
    ([0] * 20, "all volumes are without"),
])
def test_series_that_cannot_be_fitted_are_errors(bvals, message):
    bvals = np.array(bvals, float)
    table = gradient_table(bvals, bvecs=np.where(bvals[:, None] > 0, spread_directions(len(bvals)), 0))
    responses = {name: values[: len(tissue_shells(table))] for name, values in RESPONSES.items() if name != "gm"}
    with pytest.raises(InputError, match=message):
        TissueProblem.of(table, responses)


def test_three_tissues_of_two_shells_are_an_error():
    table = gradient_table(np.repeat([0.0, 1000], [5, 60]), bvecs=spread_directions(65))
    with pytest.raises(InputError, match="wm and gm and csf do not tell these tissues apart in 2 shells"):
        TissueProblem.of(table, {name: values[:2] for name, values in RESPONSES.items()})


def test_shells_are_those_of_mrtrix3():
    """Volumes with b up to 10 are unweighted, others of low b a shell; a sentence names those that are in none."""
    bvals = np.array([0, 5, 10, 15, 20, 25, 990, 1000, 1010, 1500, 2000, 2060, 2120])
    table = gradient_table(bvals, bvecs=np.eye(3)[np.arange(len(bvals)) % 3], b0_threshold=50)
    numbers = [np.flatnonzero(shell).tolist() for shell in tissue_shells(table)]
    assert numbers == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [10, 11, 12]]
    (sentence,) = stray_volumes(table, tissue_shells(table))
    assert "volume 9 of b = 1500" in sentence


def test_a_stray_volume_of_low_b_is_no_shell():
    """Volumes of b = 0 are no neighbours of it, as in MRtrix3."""
    bvals = np.array([0, 5, 10, 50, 990, 1000, 1010])
    table = gradient_table(bvals, bvecs=np.eye(3)[np.arange(len(bvals)) % 3], b0_threshold=20)
    assert [np.flatnonzero(shell).tolist() for shell in tissue_shells(table)] == [[0, 1, 2], [4, 5, 6]]


def test_low_b_values_are_unweighted_where_there_is_no_lower_one():
    """MRtrix3 takes them for a shell, of as many rows."""
    bvals = np.array([15, 20, 990, 1000, 1010])
    table = gradient_table(bvals, bvecs=np.eye(3)[np.arange(5) % 3], b0_threshold=50)
    assert [np.flatnonzero(shell).tolist() for shell in tissue_shells(table)] == [[0, 1], [2, 3, 4]]
    assert default_orders(table) == (0, 10)


def test_directions_are_spread_over_the_sphere():
    directions = positive_directions()
    cosines = directions @ directions.T - 2 * np.eye(300)
    assert 0.96 < cosines.max() < 0.992


def mrtrix(phantom, volumes, mask, responses, folder, *options):
    """The coefficients of dwi2fod; the scanner's axes are those of the voxels with an affine of ones."""
    for name, values in (("dwi", phantom.data[..., volumes]), ("mask", mask.astype(np.uint8))):
        nib.save(nib.Nifti1Image(values, np.eye(4)), folder / f"{name}.nii")
    np.savetxt(folder / "grad.b", np.column_stack([phantom.bvecs, phantom.bvals])[volumes], "%.10f")
    command = ["dwi2fod", "msmt_csd", "dwi.nii", "-grad", "grad.b", "-mask", "mask.nii", "-nthreads", "2", "-quiet"]
    for name, response in responses.items():
        np.savetxt(folder / f"{name}.txt", response)
        command += [f"{name}.txt", f"{name}.nii"]
    subprocess.run([*command, *options, "-force"], cwd=folder, check=True, timeout=100)
    images = [np.asarray(nib.load(folder / f"{name}.nii").dataobj) for name in responses]
    return np.concatenate([image.reshape(*mask.shape, -1)[mask] for image in images], axis=1)


@MRTRIX
def test_coefficients_are_those_of_mrtrix3(phantom, fit, tmp_path):
    mask = phantom.mask & (np.cumsum(phantom.mask).reshape(phantom.mask.shape) % 4 == 0)
    ours, theirs = stacked(fit, mask), mrtrix(phantom, slice(None), mask, RESPONSES, tmp_path)
    share = np.abs(ours - theirs).sum(axis=1) / np.abs(theirs).sum(axis=1)
    assert share.mean() < 1e-5
    assert np.corrcoef(ours[:, :45].ravel(), theirs[:, :45].ravel())[0, 1] > 0.999999


def test_a_device_without_reals_of_64_bits_leaves_the_fit_to_the_cpu(monkeypatch, phantom, gtab, fit):
    metal = replace(choose("cpu"), arch="metal", name="Apple GPU", float64=False)
    monkeypatch.setattr("tistreamlines.devices.choose", lambda arch: metal if arch == "metal" else choose(arch))
    with pytest.warns(UserWarning, match="--arch metal: Apple GPU has no numbers of 64 bits"):
        there = fit_msmt(phantom.data, gtab, phantom.mask, RESPONSES, arch="metal")
    np.testing.assert_array_equal(stacked(there, phantom.mask), stacked(fit, phantom.mask))


@MRTRIX
@pytest.mark.parametrize("degrees", [5, 3])
def test_what_the_signals_leave_open_is_as_in_mrtrix3(phantom, tmp_path, degrees):
    """With few directions, or a response of few degrees. By default, its constraints give way a little."""
    shell = phantom.bvals == 2000
    volumes = np.flatnonzero((phantom.bvals == 0) | (shell & (np.cumsum(shell) % 3 > 0)))
    directions = np.count_nonzero(shell[volumes])
    mask = phantom.mask & (np.cumsum(phantom.mask).reshape(phantom.mask.shape) % 25 == 0)
    responses = {"wm": RESPONSES["wm"][[0, 2], :degrees], "csf": RESPONSES["csf"][[0, 2]]}
    table = gradient_table(phantom.bvals[volumes], bvecs=phantom.bvecs[volumes])
    fit = fit_msmt(phantom.data[..., volumes], table, mask, responses, (8, 0))
    (sentence,) = doubts(fit.problem)
    assert f"determine {min(directions, degrees * (2 * degrees - 1)) + 1} of the 46 coefficients" in sentence
    assert not fit.failed.any()
    for options, share, r in ((("-neg_lambda", "1e-14"), 1e-4, 1 - 1e-8), ((), 0.02, 0.9995)):
        theirs = mrtrix(phantom, volumes, mask, responses, tmp_path, "-lmax", "8,0", *options)
        ours = stacked(fit, mask)
        assert np.abs(ours - theirs).mean() < share * np.abs(theirs).mean()
        assert np.corrcoef(ours[:, :45].ravel(), theirs[:, :45].ravel())[0, 1] > r


@pytest.mark.nightly
@pytest.mark.parametrize("orders", [(4, 0, 0), None])
def test_a_software_device_gives_the_same_bits(phantom, gtab, orders):
    """It takes minutes to compile."""
    if "vulkan" not in PRESENT:
        pytest.skip("no Vulkan device")
    mask = phantom.mask & (np.cumsum(phantom.mask).reshape(phantom.mask.shape) <= 20)
    try:
        there = fit_msmt(phantom.data, gtab, mask, RESPONSES, orders, arch="vulkan")
    except DeviceError as error:
        pytest.skip(str(error))
    here = fit_msmt(phantom.data, gtab, mask, RESPONSES, orders)
    np.testing.assert_array_equal(stacked(there, mask), stacked(here, mask))
    assert not there.failed.any()


def test_a_device_with_little_memory_takes_fewer_voxels(monkeypatch):
    asked = []

    def batch(_program, _problem, _sizes, voxels, _turns):
        asked.append(voxels)
        if len(asked) < 3:
            raise DeviceMemoryError("none left")
        return voxels

    monkeypatch.setattr(module, "_Batch", batch)
    device, sizes = SimpleNamespace(on_gpu=True, on_host=False), SimpleNamespace(volumes=100)
    assert module._memory_for(None, None, sizes, device, 500_001) == asked[-1] == 1 << 14
    assert asked[0] == 500_001
    assert all(voxels % kernels.RUN == 0 for voxels in asked[1:])


@pytest.mark.parametrize("seconds", [1e-4, 0.37, 100])
def test_batches_of_a_gpu_have_whole_runs(monkeypatch, seconds):
    """A voxel's fit begins from that of the one before it in its run, so other runs could end at other bits."""
    now = iter(np.arange(9) * seconds)
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: next(now)))
    pace = module._Pace(module.MOST)
    sizes = [pace.next()]
    for number in range(6):  # a batch is handed over before the one before it has come
        sizes.append(pace.next())
        pace.note(sizes[number])
    assert tuple(sizes[:2]) == module.FIRST
    assert all(0 < size <= module.MOST and size % kernels.RUN == 0 for size in sizes)
