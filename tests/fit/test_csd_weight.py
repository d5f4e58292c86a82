"""The weight of CSD's constraint: DIPY's by number, and chosen by generalised cross-validation."""

import json

import numpy as np
import pytest
from csd_data import RESPONSE, brainlike, dipys, everywhere
from plans import plan_of
from synthetic import gradients
from truth.truth import Scan, Truth

import tistreamlines as ts
from tistreamlines.fit import csd, csd_weight
from tistreamlines.fit.csd import System, deconvolved, fit_csd
from tistreamlines.fit.csd_weight import chosen_weight

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
    found = [chosen_weight(data, gtab, everywhere(data), RESPONSE) for data in series]
    assert 1 >= found[0] > found[1]


def test_threads_change_nothing():
    data, gtab = brainlike(gradients(70), 300), gradients(70)
    few, many = (chosen_weight(data, gtab, everywhere(data), RESPONSE, threads=n) for n in (1, 5))
    assert few == many


def test_dipys_model_is_built_once(monkeypatch):
    """It takes as long as the fits of some hundred voxels; a weight changes the rows of the constraint alone."""
    data, gtab, built = brainlike(gradients(70), 300, 80), gradients(70), []
    model = csd._dipys_model
    monkeypatch.setattr(csd, "_dipys_model", lambda *given: built.append(given) or model(*given))
    assert chosen_weight(data, gtab, everywhere(data), RESPONSE) < 1
    assert len(built) == 1
    systems = System.of(gtab, RESPONSE, 8, 1.0).weighted(0.125), System.of(gtab, RESPONSE, 8, 0.125)
    assert np.array_equal(systems[0].positivity, systems[1].positivity)


def test_noise_that_cross_validation_does_not_tell_is_told_by_the_bootstrap(monkeypatch):
    """A fibre whose signal hardly depends on the direction, as in the FiberCup."""
    gtab, rng = gradients(64), np.random.default_rng(3)
    flat = (np.array([2.05e-3, 1.57e-3, 1.57e-3]), 300.0)
    fibres = rng.normal(size=(300, 3))
    cosines = fibres / np.linalg.norm(fibres, axis=1, keepdims=True) @ gtab.bvecs.T
    clean = flat[1] * np.exp(-gtab.bvals * (flat[0][1] + (flat[0][0] - flat[0][1]) * cosines**2))
    data = (clean + rng.normal(0, flat[1] / 60, clean.shape)).astype(np.float32)[:, None, None]
    mask, system = everywhere(data), System.of(gtab, flat, 8, 1.0)
    good = csd_weight._good_weights(trial := csd_weight.Trial(data, gtab, system, None))
    assert min(good) <= 0.125
    assert trial.likeness(min(good)) < csd_weight.ALIKE * trial.likeness(1.0)
    assert chosen_weight(data, gtab, mask, flat) >= 0.5
    monkeypatch.setattr(csd_weight, "ALIKE", 0.0)
    assert chosen_weight(data, gtab, mask, flat) == min(good)


def test_a_weight_without_a_solution_is_not_chosen(monkeypatch):
    data, gtab = brainlike(gradients(70), 300, 80), gradients(70)
    lowest = chosen_weight(data, gtab, everywhere(data), RESPONSE)
    monkeypatch.setattr(csd_weight, "deconvolved", lambda *given: replaced(deconvolved(*given), given[3].weight < 0.3))
    assert lowest < chosen_weight(data, gtab, everywhere(data), RESPONSE) == 0.5


def test_voxels_with_nan_are_not_asked():
    data, gtab = brainlike(gradients(70), 300), gradients(70)
    expected = chosen_weight(data[1:], gtab, everywhere(data[1:]), RESPONSE)
    data[0, 0, 0, 5] = np.nan
    assert chosen_weight(data, gtab, everywhere(data), RESPONSE) == expected
    assert chosen_weight(np.full_like(data, np.nan), gtab, everywhere(data), RESPONSE) == 1


def replaced(found, singular):
    return csd_weight.Deconvolved(found.coefficients, found.system, 0, int(singular))


def test_the_trace_is_that_of_the_derivative_of_the_fit():
    """H of a voxel by finite differences: a larger signal of one volume, and the fit again."""
    gtab = gradients(50)
    data = brainlike(gtab)[10:11]
    weighted = np.flatnonzero(~gtab.b0s_mask)
    shifted = np.repeat(data, 1 + len(weighted), axis=0)
    shifted[1 + np.arange(len(weighted)), 0, 0, weighted] += 0.02
    found = deconvolved(shifted, gtab, everywhere(shifted), System.of(gtab, RESPONSE, 6, 0.3))
    design = found.system.design
    fits = found.coefficients[:, 0, 0].astype(float) @ design.T
    trace = ((fits[1:] - fits[0]).diagonal() / 0.02).sum()
    one = csd_weight.Deconvolved(found.coefficients[:1], found.system, 0, 0)
    score = csd_weight._cross_validation(data[:, 0, 0][:, weighted], one, 1)
    rss = ((data[0, 0, 0, weighted] - fits[0]) ** 2).sum()
    assert score == pytest.approx(len(design) * rss / (len(design) - trace) ** 2, rel=0.02)


def test_more_streamlines_are_valid(tmp_path):
    """Of bundles that cross at 30 to 90 degrees."""
    truth = Truth("crossings", Scan(voxel_mm=2.5), 7)
    truth.save(tmp_path)
    files = [tmp_path / name for name in ("dwi.nii.gz", "dwi.bval", "dwi.bvec")]
    options = {"mask": tmp_path / "mask.nii.gz", "stop_map": tmp_path / "white.nii.gz", "stop_threshold": 0.5}
    scores = {}
    for weight in (1.0, "auto"):
        found = ts.track(*files, dg="det", seeds=truth.seeds(1500), arch="cpu", csd_lambda=weight, **options)
        scores[weight] = truth.score(found.to_sft().streamlines)
    assert any("--csd-lambda auto is 0." in note or "csd_lambda auto is 0." in note for note in found.notes)
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
    found = []
    for run, changed in enumerate(({}, {"max_angle": 30}, {}, {"like": "dipy"})):
        ts.track(*files, tmp_path / f"{run}.trx", mask=head.mask, dg="det", **options, **changed)
        found.append(json.loads((tmp_path / f"{run}.json").read_text())["chosen"])
    assert found[0] == found[1] == found[2]
    assert 0 < found[0]["csd_lambda"] <= 1
    assert found[3] == found[0] | {"csd_lambda": 1.0, "sh_order": 8}
    along, across, same = found[0]["response"]["eigenvalues"]
    assert along > across == same > 0
    assert found[0]["response"]["b0_signal"] > 0


def test_a_method_without_csd_records_no_choice(head, tmp_path):
    ts.track(*head.series, tmp_path / "a.trx", mask=head.mask, nseeds=20, arch="cpu")
    assert set(json.loads((tmp_path / "a.json").read_text())["chosen"]) == {"shells", "sh_order"}
