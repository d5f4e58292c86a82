"""Deconvolution of several shells and tissues, against a quadratic programme in float64 and MRtrix3's dwi2fod."""

import shutil
import subprocess

import nibabel as nib
import numpy as np
import pytest
from dipy.core.gradients import gradient_table
from scipy.optimize import nnls

from tistreamlines.errors import InputError
from tistreamlines.fit.msmt import fit_msmt
from tistreamlines.fit.tissues import TissueProblem, positive_directions, stray_volumes, tissue_shells
from tistreamlines.phantom.phantom import spread_directions
from tistreamlines.phantom.shells import make_shells

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
