"""The private attributes of DIPY's models that tistreamlines reads; no other module of the package reads any.

The bootstrap refits a model at every step, so it needs the matrices of DIPY's linear fits, for which DIPY 1.12 has no
public attribute.  ``tests/fit/test_dipy_private.py`` refits with them and compares with ``model.fit(...).shm_coeff``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..aliases import Array as Matrix

if TYPE_CHECKING:
    from dipy.reconst.shm import CsaOdfModel, OpdtModel

__all__ = ["csa_constant", "fit_matrices"]


def fit_matrices(model: CsaOdfModel | OpdtModel) -> tuple[Matrix, ...]:
    """Return the matrices of a fit, (coefficients, directions) float64 each, with s = S / S0.

    Parameters
    ----------
    model : CsaOdfModel or OpdtModel

    Returns
    -------
    tuple
        Of CSA, M: coefficients = M log(-log(s)), where DIPY replaces the coefficient of degree 0 with
        :func:`csa_constant`. Of OPDT, B and Q, DIPY's delta_b and delta_q: coefficients = Q (a (1.5 - a) s) - B s,
        a = -log(s); the Laplace-Beltrami operator stands between them.
    """
    matrices = model._fit_matrix
    return tuple(map(np.asarray, matrices if isinstance(matrices, tuple) else (matrices,)))


def csa_constant(model: CsaOdfModel) -> float:
    """Return the coefficient of degree 0 that DIPY gives each CSA ODF, so that it integrates to one."""
    return float(model._n0_const)
