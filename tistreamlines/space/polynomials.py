"""Even spherical harmonics as polynomials of x, y and z, which are evaluated without a table of samples.

On the unit sphere the harmonics of even degree up to L span the same functions as the monomials ``x^p y^q z^r`` with
p + q + r even and at most L. Since z^2 = 1 - x^2 - y^2, the monomials with r = 0 or 1 and p + q of the parity of r are
sufficient (Ozarslan and Mareci 2003 use the homogeneous ones). In float32 the error of an ODF relative to its maximum
is 2e-7 at order 4, 1e-6 at order 8 and 2e-5 at order 12; with a matrix of harmonics it is 1e-7 to 3e-7.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..aliases import Array
from .harmonics import sampling_matrix, spiral


def powers(order: int) -> list[tuple[int, int, int]]:
    """Return the powers of x, y, z of each monomial, in the order of ``amplitudes.harmonic`` of the kernels."""
    parts = ((degree, j) for degree in (order, order - 1) for j in range(degree + 1))
    return [(p, degree - j, order - degree) for degree, j in parts for p in range(j, -1, -2)]


def monomials(directions: Array, order: int) -> Array:
    """Evaluate the monomials at given directions.

    Parameters
    ----------
    directions : (n, 3)
        Unit vectors.
    order : int
        Maximum degree, even.

    Returns
    -------
    (n, (order + 1) (order + 2) / 2) float64
    """
    x, y, z = np.asarray(directions, float).T
    return np.stack([x**p * y**q * z**r for p, q, r in powers(order)], axis=1)


@lru_cache(maxsize=8)
def from_harmonics(order: int) -> Array:
    """Return the matrix that converts coefficients of descoteaux07_legacy to coefficients of the monomials.

    Both span the same functions, so a least-squares fit at more directions than coefficients is exact.
    """
    directions = spiral((np.arange(1000) + 0.5) * np.pi * (3 - np.sqrt(5)))
    harmonics = sampling_matrix(directions, order, "descoteaux07_legacy")
    return np.linalg.lstsq(monomials(directions, order), harmonics, rcond=None)[0]
