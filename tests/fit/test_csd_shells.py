"""CSD of several shells: its equations, what it does not depend on, and where it is the default."""

from pathlib import Path

import numpy as np
import pytest
from csd_data import brainlike, everywhere
from dipy.core.gradients import GradientTable, gradient_table
from synthetic import UNWEIGHTED, signals

import tistreamlines as ts
from tistreamlines.fit.csd_shells import ShellResponses
from tistreamlines.fit.model_fits import MODEL_FITS
from tistreamlines.fit.shells import shells_of_csd
from tistreamlines.io.nifti import Dwi
from tistreamlines.phantom.phantom import spread_directions
from tistreamlines.space.batch import Space

pytestmark = [
    pytest.mark.filterwarnings("ignore::PendingDeprecationWarning"),  # DIPY's, at each use of a legacy basis
    pytest.mark.filterwarnings("ignore:--csd-lambda auto"),
]
TWO = {1000.0: 40, 2500.0: 50}


def shells(directions: dict[float, int]) -> GradientTable:
    """Four b0s, and so many directions of each b-value."""
    bvals = np.concatenate([np.zeros(4), *[np.full(count, bval) for bval, count in directions.items()]])
    bvecs = [spread_directions(count, number) for number, count in enumerate(directions.values())]
    return gradient_table(bvals, bvecs=np.concatenate([np.zeros((4, 3)), *bvecs]))


def fit(data, gtab, threads=None, **options):
    """Return the FODs (m, k) of rows of signals (m, n), and what was chosen."""
    rows = data.reshape(-1, 1, 1, data.shape[-1])
    chosen = ts.Parameters.given({"dg": "det", "sh_order": 8, **(options or {"fa_response": 0.4})})
    dwi = Dwi(rows, Space(np.eye(4), rows.shape[:3]), gtab, Path("series"))
    functions, record, _ = MODEL_FITS["csd"](dwi, everywhere(rows), chosen, threads, lambda _: None, "cpu")
    return functions[:, 0, 0], record


def responses(gtab: GradientTable) -> ShellResponses:
    """Those of single fibres without noise."""
    axes = spread_directions(60, 7)
    return ShellResponses.of(signals(gtab, axes), axes, gtab, 8)


def test_the_mean_of_inner_shells_is_free():
    gtab = shells(TWO)
    design = responses(gtab).system(gtab, 8).design
    inner, outermost = ((gtab.bvals[4:] == bval).astype(float) for bval in TWO)
    assert np.abs(design.T @ inner).max() < 1e-9 * np.abs(design).max()
    assert (design.T @ outermost)[0] > 0.1 * np.abs(design).max()


def test_a_shell_adds_what_it_knows_of_directions():
    """The FODs of noisy crossings are nearer to those without noise."""
    first, second = np.array([1.0, 0, 0]), np.array([0.5, np.sqrt(0.75), 0])
    rng, likeness, pure = np.random.default_rng(3), {}, spread_directions(100, 5)
    for name, directions in (("two", {2000.0: 60, 2500.0: 50}), ("one", {2500.0: 50})):
        gtab = shells(directions)
        clean = (signals(gtab, first) + signals(gtab, second)) / 2
        noisy = np.maximum(clean + rng.normal(0, UNWEIGHTED / 12, (200, len(clean))), 0)
        data = np.concatenate([clean[None], noisy, signals(gtab, pure)]).astype(np.float32)
        expected, *functions = fit(data, gtab, csd_lambda=0.25, fa_response=0.4)[0][:201]
        likeness[name] = np.mean([np.corrcoef(expected[1:], function[1:])[0, 1] for function in functions])
    assert 1 - likeness["two"] < 0.9 * (1 - likeness["one"])


def test_volumes_voxels_and_threads_have_no_order():
    gtab, rng = shells(TWO), np.random.default_rng(0)
    data = brainlike(gtab, 300, 20).reshape(300, -1)
    functions, record = fit(data, gtab)
    volumes, voxels = rng.permutation(len(gtab.bvals)), rng.permutation(300)
    mixed = gradient_table(gtab.bvals[volumes], bvecs=gtab.bvecs[volumes])
    least = 1e-3 * np.abs(functions).max()
    for (fitted, other), expected in (
        (fit(data[:, volumes], mixed), functions), (fit(data[voxels], gtab), functions[voxels]),
    ):
        assert other["csd_lambda"] == pytest.approx(record["csd_lambda"], rel=0.05)
        assert np.mean(np.abs(fitted - expected).max(axis=1) < least) > 0.98
    again, other = fit(data, gtab, threads=1)
    assert np.array_equal(again, functions)
    assert other == record


@pytest.mark.parametrize(("directions", "bvals"), [
    ({1000.0: 30, 3000.0: 60}, [1000, 3000]), ({200.0: 4, 1000.0: 30, 3000.0: 60}, [1000, 3000]),
    ({1000.0: 60, 5000.0: 60}, [1000]), ({1000.0: 60, 2000.0: 12}, [1000]), ({1000.0: 60}, [1000]),
])
def test_shells_up_to_that_of_models(directions, bvals):
    gtab = shells(directions)
    assert [gtab.bvals[shell].mean() for shell in shells_of_csd(gtab)] == bvals


def test_a_series_of_one_shell_has_one_response():
    gtab = shells({2500.0: 50})
    data = brainlike(gtab, 300, 20)
    one, other = (fit(data, gtab, csd_shells=name) for name in ("all", "highest"))
    assert np.array_equal(one[0], other[0])
    assert one[1] == other[1]


def test_where_all_shells_are_the_default():
    assert {ts.Parameters(dg=dg).csd_shells for dg in ("prob", "det", "ptt", "ifod2")} == {"all"}
    for options in ({"like": "dipy"}, {"response": "1.7e-3,2e-4,2e-4,300"}):
        assert ts.Parameters(dg="det", **options).csd_shells == "highest"
    assert ts.Parameters(dg="prob", model="csa").csd_shells is None


def test_a_response_of_one_shell_is_refused():
    gtab = shells(TWO)
    with pytest.raises(ts.ParameterError, match="csd_shells all estimates a response of each shell"):
        fit(brainlike(gtab, 30, 20), gtab, csd_shells="all", response="1.7e-3,2e-4,2e-4,300")
