"""The weight of CSD's constraint: DIPY's by number, and chosen from the data."""

import json
from itertools import permutations

import numpy as np
import pytest
from csd_data import RESPONSE, brainlike, dipys, everywhere, needs_crop
from dipy.core.gradients import gradient_table
from dipy.reconst.csdeconv import AxSymShResponse
from dipy.reconst.dti import fractional_anisotropy
from places import CROP
from plans import plan_of
from scipy.special import eval_legendre
from synthetic import gradients
from truth.truth import Scan, Truth

import tistreamlines as ts
from tistreamlines.fit import csd_weight
from tistreamlines.fit.csd import System, deconvolve_series, fit_csd
from tistreamlines.fit.csd_weight import choose_weight
from tistreamlines.fit.response import csd_response, response_fa
from tistreamlines.io import nifti
from tistreamlines.phantom.phantom import make_phantom

pytestmark = [
    pytest.mark.filterwarnings("ignore::PendingDeprecationWarning"),  # DIPY's, at each use of a legacy basis
]


@pytest.mark.parametrize("weight", [0.05, 0.3, 2.0])
def test_a_weight_is_dipys(weight):
    data, gtab = brainlike(gradients(70)), gradients(70)
    fitted = fit_csd(data, gtab, everywhere(data), RESPONSE, weight=weight)
    assert np.abs(fitted - dipys(data, gtab, weight=weight)).max() < 1e-6 * max(1, np.abs(fitted).max())


def test_less_noise_takes_a_lower_weight():
    gtab = gradients(70)
    series = [brainlike(gtab, 300, snr) for snr in (5, 80)]
    weights = [choose_weight(data, gtab, everywhere(data), RESPONSE) for data in series]
    assert 1 >= weights[0] > weights[1]


def test_threads_change_nothing():
    data, gtab = brainlike(gradients(70), 300), gradients(70)
    few, many = (choose_weight(data, gtab, everywhere(data), RESPONSE, threads=n) for n in (1, 5))
    assert few == many


def test_a_weight_changes_the_rows_of_the_constraint_alone():
    gtab = gradients(70)
    systems = System.of(gtab, RESPONSE, 8, 1.0).with_weight(0.125), System.of(gtab, RESPONSE, 8, 0.125)
    for name in ("design", "normal", "positivity"):
        assert np.array_equal(*(getattr(system, name) for system in systems))


def flat_fibres(across: float):
    """Noisy single fibres of 2.05e-3 mm2/s along them, and their response."""
    gtab, rng = gradients(64), np.random.default_rng(3)
    response = (np.array([2.05e-3, across, across]), 300.0)
    fibres = rng.normal(size=(300, 3))
    cosines = fibres / np.linalg.norm(fibres, axis=1, keepdims=True) @ gtab.bvecs.T
    clean = response[1] * np.exp(-gtab.bvals * (across + (2.05e-3 - across) * cosines**2))
    return (clean + rng.normal(0, response[1] / 60, clean.shape)).astype(np.float32)[:, None, None], gtab, response


@pytest.mark.nightly
def test_fibres_of_a_low_fa_take_dipys_weight():
    """As in the FiberCup, whose response has a FA of 0.16; the weight goes over to DIPY's in small steps."""
    halvings = []
    for across in np.linspace(0.9e-3, 1.6e-3, 15):
        data, gtab, response = flat_fibres(across)
        halvings.append(np.log2(choose_weight(data, gtab, everywhere(data), response)))
    assert halvings[0] < -2
    assert halvings[-1] == 0
    assert np.abs(np.diff(halvings)).max() < 1


@pytest.mark.parametrize("across", [0.3e-3, 1.0e-3, 1.57e-3])
def test_the_fa_of_a_zonal_response_is_that_of_its_tensor(across):
    response = flat_fibres(across)[2]
    cosines = np.linspace(-1, 1, 201)
    signal = response[1] * np.exp(-1500 * (across + (2.05e-3 - across) * cosines**2))
    degrees = np.arange(0, 9, 2)
    harmonics = np.sqrt((2 * degrees + 1) / (4 * np.pi)) * eval_legendre(degrees, cosines[:, None])
    zonal = np.linalg.lstsq(harmonics, signal, rcond=None)[0]
    expected = fractional_anisotropy(response[0])
    for unweighted, unweighted_signals in ((300.0, []), (None, np.full((9, 2), 300.0))):
        fa = response_fa(AxSymShResponse(unweighted, zonal), np.array(unweighted_signals))
        assert fa == pytest.approx(expected, abs=0.01)
    assert response_fa(response, np.array([])) == pytest.approx(expected)
    assert response_fa(AxSymShResponse(None, zonal), np.array([])) == 1


@pytest.mark.parametrize(("least", "lowest", "highest"), [(0.01, 0.04, 0.2), (0.1, 0.1, 0.5), (0.7, 1, 1), (2.0, 1, 1)])
def test_a_weight_without_a_solution_is_not_chosen(monkeypatch, least, lowest, highest):
    data, gtab = brainlike(gradients(70), 300, 80), gradients(70)
    monkeypatch.setattr(
        csd_weight, "deconvolve_series",
        lambda *arguments: replaced(deconvolve_series(*arguments), arguments[3].weight < least),
    )
    assert lowest <= choose_weight(data, gtab, everywhere(data), RESPONSE) <= highest


def test_voxels_with_nan_are_not_asked():
    data, gtab = brainlike(gradients(70), 300), gradients(70)
    expected = choose_weight(data[1:], gtab, everywhere(data[1:]), RESPONSE)
    data[0, 0, 0, 5] = np.nan
    assert choose_weight(data, gtab, everywhere(data), RESPONSE) == expected
    assert choose_weight(np.full_like(data, np.nan), gtab, everywhere(data), RESPONSE) == 1


def replaced(fit, singular):
    return csd_weight.Deconvolution(fit.coefficients, fit.system, 0, int(singular))


def test_the_trace_is_that_of_the_derivative_of_the_fit():
    """H of a voxel by finite differences: a larger signal of one volume, and the fit again."""
    gtab = gradients(50)
    data = brainlike(gtab)[10:11]
    weighted = np.flatnonzero(~gtab.b0s_mask)
    shifted = np.repeat(data, 1 + len(weighted), axis=0)
    shifted[1 + np.arange(len(weighted)), 0, 0, weighted] += 0.02
    solution = deconvolve_series(shifted, gtab, everywhere(shifted), System.of(gtab, RESPONSE, 6, 0.3))
    design = solution.system.design
    fits = solution.coefficients[:, 0, 0].astype(float) @ design.T
    trace = ((fits[1:] - fits[0]).diagonal() / 0.02).sum()
    single = csd_weight.Deconvolution(solution.coefficients[:1], solution.system, 0, 0)
    score = np.exp(csd_weight._cross_validation(data[:, 0, 0][:, weighted], single, 1))
    rss = ((data[0, 0, 0, weighted] - fits[0]) ** 2).sum()
    assert score == pytest.approx(len(design) * rss / (len(design) - trace) ** 2, rel=0.02)


def stored_in(data, gtab, mask, order, signs):
    """The same series with its axes exchanged and reversed."""
    turned = gradient_table(gtab.bvals, bvecs=gtab.bvecs[:, order] * signs, b0_threshold=gtab.b0_threshold)
    flips = tuple(slice(None, None, sign) for sign in signs)
    return data.transpose(*order, 3)[flips], turned, mask.transpose(order)[flips]


def crop_of_sherbrooke():
    dwi = nifti.load_dwi(*(CROP / name for name in ("dwi.nii.gz", "dwi.bval", "dwi.bvec")))
    return dwi.data, dwi.gtab, nifti.load_mask(CROP / "mask.nii.gz", dwi.space)


def demo():
    phantom = make_phantom((40, 50, 40), voxel_mm=4.0, snr=20.0)
    return phantom.data, gradient_table(phantom.bvals, bvecs=phantom.bvecs, b0_threshold=50), phantom.mask


SERIES = [demo, pytest.param(crop_of_sherbrooke, marks=[needs_crop, pytest.mark.nightly])]


@pytest.mark.nightly
@pytest.mark.parametrize("series", SERIES)
def test_the_order_of_the_axes_does_not_matter(series):
    """Nightly; by day, the order of the voxels."""
    data, gtab, mask = series()
    response, _ = csd_response(data, gtab, mask, 0.6)
    expected = choose_weight(data, gtab, mask, response)
    for number, order in enumerate(permutations(range(3))):
        signs = [(1, 1, 1), (-1, 1, -1)][number % 2]
        assert choose_weight(*stored_in(data, gtab, mask, order, signs), response) == expected


def test_the_order_of_the_voxels_does_not_matter():
    data, gtab = brainlike(gradients(70), 600), gradients(70)
    expected = choose_weight(data, gtab, everywhere(data), RESPONSE)
    for seed in range(3):
        mixed = np.random.default_rng(seed).permutation(data)
        assert choose_weight(mixed, gtab, everywhere(data), RESPONSE) == expected


@pytest.mark.parametrize("series", SERIES)
def test_the_weight_hardly_changes_with_the_part_of_the_image(series):
    """Of four boxes of two thirds of each side, and as many draws of voxels, each with its response."""
    data, gtab, mask = series()
    rng, logs = np.random.default_rng(5), []
    for _ in range(4):
        box = tuple(slice(start, start + 2 * n // 3) for n in mask.shape for start in [rng.integers(n // 3 + 1)])
        rows = data[mask]
        drawn = rows[rng.integers(len(rows), size=8000)][:, None, None]
        for part, inside in ((data[box], mask[box]), (drawn, everywhere(drawn))):
            response, _ = csd_response(part, gtab, inside, 0.6)
            logs.append(np.log2(choose_weight(part, gtab, inside, response)))
    assert np.std(logs) < 0.35
    assert np.ptp(logs) < 1


def test_a_small_change_of_the_errors_is_a_small_change_of_the_weight():
    rng = np.random.default_rng(0)
    for _ in range(50):
        errors = rng.uniform(0, 0.2, csd_weight.HALVINGS + 1)
        changed = errors + rng.uniform(0, 1e-3, len(errors))
        assert csd_weight.mean_halvings(changed) == pytest.approx(csd_weight.mean_halvings(errors), abs=0.05)


@pytest.mark.nightly
def test_more_streamlines_are_valid(tmp_path):
    """Of bundles that cross at 30 to 90 degrees."""
    truth = Truth("crossings", Scan(voxel_mm=2.5), 7)
    truth.save(tmp_path)
    files = [tmp_path / name for name in ("dwi.nii.gz", "dwi.bval", "dwi.bvec")]
    options = {"mask": tmp_path / "mask.nii.gz", "stop_map": tmp_path / "white.nii.gz", "stop_threshold": 0.5}
    scores = {}
    for weight in (1.0, "auto"):
        result = ts.track(*files, dg="det", seeds=truth.seeds(1500), arch="cpu", csd_lambda=weight, **options)
        scores[weight] = truth.score(result.to_sft().streamlines)
    assert any("--csd-lambda auto is 0." in note or "csd_lambda auto is 0." in note for note in result.notes)
    assert scores["auto"]["VC"] > 1.1 * scores[1.0]["VC"]
    assert scores["auto"]["r"] > scores[1.0]["r"]


@pytest.mark.parametrize("value", ["none", "0", -1, "nan", "inf", ""])
def test_other_values_are_an_error(value):
    with pytest.raises(ts.ParameterError, match=r"csd_lambda is .*: give auto, or a number above 0"):
        ts.Parameters(dg="det", model="csd", csd_lambda=value)


def test_a_fit_that_is_kept_has_its_weight(head, tmp_path):
    for weight in (1.0, 0.25):
        plan_of(head, dg="det", cache_dir=tmp_path, csd_lambda=weight)
    assert len(list(tmp_path.glob("odf-*"))) == 2


def test_the_record_has_what_was_chosen(head, tmp_path):
    """Also when the fit, or all tables, come from the cache."""
    files, options = head.series, {"nseeds": 50, "arch": "cpu", "cache_dir": tmp_path / "cache"}
    choices = []
    for run, changed in enumerate(({}, {"max_angle": 30}, {}, {"like": "dipy"})):
        ts.track(*files, tmp_path / f"{run}.trx", mask=head.mask, dg="det", **options, **changed)
        choices.append(json.loads((tmp_path / f"{run}.json").read_text())["chosen"])
    assert choices[0] == choices[1] == choices[2]
    assert 0 < choices[0]["csd_lambda"] <= 1
    assert choices[3] == choices[0] | {"csd_lambda": 1.0, "sh_order": 8}
    along, across, same = choices[0]["response"]["eigenvalues"]
    assert along > across == same > 0
    assert choices[0]["response"]["b0_signal"] > 0


def test_a_method_without_csd_records_no_choice(head, tmp_path):
    ts.track(*head.series, tmp_path / "a.trx", mask=head.mask, nseeds=20, arch="cpu")
    assert set(json.loads((tmp_path / "a.json").read_text())["chosen"]) == {"shells", "sh_order"}
