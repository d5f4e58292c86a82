"""DIPY's private attributes still exist, have the shapes we rely on, and give DIPY's public results."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pytest
from dipy.reconst.shm import CsaOdfModel, OpdtModel
from synthetic import gradients, noisy_crossing

import tistreamlines
from tistreamlines.fit import dipy_private

DIRECTIONS, ORDER, COEFFICIENTS = 64, 4, 15
PRIVATE = {"_fit_matrix", "_n0_const"}
pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # DIPY's, at each use of a legacy basis


def normalised() -> np.ndarray:
    """Signals over the mean b0 (27, directions), within (0, 1)."""
    gtab = gradients(DIRECTIONS)
    data = noisy_crossing(gtab).reshape(27, -1).astype(float)
    return np.clip(data[:, ~gtab.b0s_mask] / data[:, gtab.b0s_mask].mean(axis=1, keepdims=True), 0.001, 0.999)


def fitted(model, inside: np.ndarray) -> np.ndarray:
    """DIPY's public result for normalised signals."""
    gtab = gradients(DIRECTIONS)
    data = np.ones((len(inside), len(gtab.bvals)))
    data[:, ~gtab.b0s_mask] = inside
    return model.fit(data).shm_coeff


def test_csa_matrix_and_constant_give_dipys_coefficients():
    model = CsaOdfModel(gradients(DIRECTIONS), sh_order_max=ORDER)
    (matrix,) = dipy_private.fit_matrices(model)
    assert matrix.shape == (COEFFICIENTS, DIRECTIONS)
    ours = np.log(-np.log(normalised())) @ matrix.T
    ours[:, 0] = dipy_private.csa_constant(model)
    assert np.allclose(ours, fitted(model, normalised()), rtol=1e-4, atol=1e-6)  # DIPY normalises in float32


def test_the_csa_constant_makes_an_odf_integrate_to_one():
    constant = dipy_private.csa_constant(CsaOdfModel(gradients(DIRECTIONS), sh_order_max=ORDER))
    assert constant * np.sqrt(4 * np.pi) == pytest.approx(1)


def test_opdt_matrices_give_dipys_coefficients():
    model = OpdtModel(gradients(DIRECTIONS), sh_order_max=ORDER)
    delta_b, delta_q = dipy_private.fit_matrices(model)
    assert delta_b.shape == delta_q.shape == (COEFFICIENTS, DIRECTIONS)
    signal = normalised()
    decay = -np.log(signal)
    ours = (decay * (1.5 - decay) * signal) @ delta_q.T - signal @ delta_b.T
    assert np.allclose(ours, fitted(model, signal), rtol=1e-4, atol=1e-6)


def test_opdt_matrices_differ_by_a_factor_of_each_degree():
    # the bootstrap's kernel keeps only the second matrix and relies on this
    model = OpdtModel(gradients(DIRECTIONS), sh_order_max=ORDER)
    delta_b, delta_q = dipy_private.fit_matrices(model)
    degrees = np.asarray(model.l_values)[:, None]
    assert np.allclose(delta_b, -degrees * (degrees + 1) / 4 * delta_q)


def test_no_other_module_reads_dipys_private_attributes():
    package = Path(tistreamlines.__file__).parent
    readers = set()
    for path in {*package.rglob("*.py")}:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in PRIVATE:
                readers.add(path.name)
    assert readers == {"dipy_private.py"}


def test_the_list_of_private_attributes_is_complete():
    source = Path(dipy_private.__file__).read_text(encoding="utf-8")
    assert set(re.findall(r"\bmodel\.(_\w+)", source)) == PRIVATE
