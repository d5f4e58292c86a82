"""The private attributes of DIPY's models that tistreamlines reads; no other module of the package reads any.

The bootstrap refits a model at every step, so it needs the matrices of DIPY's linear fits, for which DIPY 1.12 has no
public attribute.  ``tests/fit/test_dipy_private.py`` refits with them and compares with ``model.fit(...).shm_coeff``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..aliases import Array as Matrix

if TYPE_CHECKING:
    from dipy.reconst.csdeconv import ConstrainedSphericalDeconvModel
    from dipy.reconst.shm import CsaOdfModel, OpdtModel

__all__ = ["csa_constant", "csa_fit_matrix", "csd_design", "csd_normal", "fit_matrices", "opdt_fit_matrices"]


def csa_fit_matrix(model: CsaOdfModel) -> Matrix:
    """Return the matrix M of a CSA fit, coefficients = M log(-log(S / S0)).

    Parameters
    ----------
    model : CsaOdfModel

    Returns
    -------
    (coefficients, directions) float64
        DIPY replaces the coefficient of degree 0 with :func:`csa_constant`.
    """
    return np.asarray(model._fit_matrix)


def csa_constant(model: CsaOdfModel) -> float:
    """Return the coefficient of degree 0 that DIPY gives each CSA ODF, so that it integrates to one."""
    return float(model._n0_const)


def opdt_fit_matrices(model: OpdtModel) -> tuple[Matrix, Matrix]:
    """Return the matrices B and Q of an OPDT fit, coefficients = Q (a (1.5 - a) s) - B s, a = -log(s), s = S / S0.

    Parameters
    ----------
    model : OpdtModel

    Returns
    -------
    delta_b, delta_q : (coefficients, directions) float64
        DIPY's names of B and Q; the Laplace-Beltrami operator stands between them.
    """
    delta_b, delta_q = model._fit_matrix
    return np.asarray(delta_b), np.asarray(delta_q)


def fit_matrices(model: CsaOdfModel | OpdtModel) -> Matrix | tuple[Matrix, Matrix]:
    """Return the matrices of a CSA or OPDT fit, to compare two models."""
    return model._fit_matrix


def csd_design(model: ConstrainedSphericalDeconvModel) -> Matrix:
    """Return X of a CSD model, (directions, coefficients) float64: signals = X coefficients."""
    return np.asarray(model._X)


def csd_normal(model: ConstrainedSphericalDeconvModel) -> Matrix:
    """Return X'X of a CSD model, (coefficients, coefficients) float64."""
    return np.asarray(model._P)
