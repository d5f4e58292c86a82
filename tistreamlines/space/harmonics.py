"""Real spherical harmonics: bases, orders, sampling on a sphere and rotation.

A basis determines the sign, scale and position of each coefficient. Coefficients are sorted by degree l, and within a
degree by m from -l to l; symmetric bases have the even degrees, full bases all degrees. With Y the complex harmonic of
l and |m|, including the Condon-Shortley phase, and Re and Im its parts:

====================  ===================  ===================  =====================================================
name                  m < 0                m > 0                written by
====================  ===================  ===================  =====================================================
descoteaux07_legacy   sqrt(2) Re Y         sqrt(2) Im Y         DIPY by default (``legacy=True``)
descoteaux07          (-1)^m sqrt(2) Re Y  sqrt(2) Im Y         DIPY with ``legacy=False``; Descoteaux et al. 2007
tournier07            sqrt(2) Im Y         sqrt(2) Re Y         MRtrix3; DIPY's tournier07 with ``legacy=False``
tournier07_legacy     Im Y                 Re Y                 MRtrix 0.2; DIPY's tournier07 with ``legacy=True``
====================  ===================  ===================  =====================================================

No test of coefficients can identify the basis with certainty, so the user has to give it. All computations are in
float64.

Kernels evaluate even harmonics as polynomials of x, y and z, without a table of samples. On the unit sphere the
harmonics of even degree up to L span the same functions as the monomials ``x^p y^q z^r`` with p + q + r even and at
most L. Since z^2 = 1 - x^2 - y^2, the monomials with r = 0 or 1 and p + q of the parity of r are sufficient (Ozarslan
and Mareci 2003 use the homogeneous ones). In float32 the error of an ODF relative to its maximum is 2e-7 at order 4,
1e-6 at order 8 and 2e-5 at order 12; with a matrix of harmonics it is 1e-7 to 3e-7.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..aliases import Array
from ..errors import ParameterError

BLOCK = 1 << 16  # voxels per block
WHOLE_TOLERANCE = 1e-12


class Basis(NamedTuple):
    """A basis in DIPY's terms: the arguments ``basis_type``, ``legacy`` and ``full_basis`` of its functions."""

    basis: str
    legacy: bool
    full: bool


BASES = {
    f"{family}{'_legacy' if legacy else ''}{'_full' if full else ''}": Basis(family, legacy, full)
    for full, family, legacy in itertools.product((False, True), ("descoteaux07", "tournier07"), (False, True))
}


def basis_of(name: str) -> Basis:
    """Return a basis by its name.

    Raises
    ------
    ParameterError
        If the name is not in BASES.
    """
    if name not in BASES:
        raise ParameterError(f"the basis is {name!r}: give one of {', '.join(BASES)}")
    return BASES[name]


def frame_of(name: str) -> str:
    """Return the usual frame of a basis: 'scanner' for MRtrix3's tournier07, 'voxel' for DIPY's descoteaux07."""
    return "scanner" if basis_of(name).basis == "tournier07" else "voxel"


def count_of(order: int, full: bool = False) -> int:
    """Return the number of coefficients of a symmetric basis of even order, or of a full basis of any order."""
    return (order + 1) ** 2 if full else (order + 1) * (order + 2) // 2


def highest_order(volumes: int) -> int:
    """Return the highest even order, at least 2, with no more coefficients than volumes."""
    order = 2
    while count_of(order + 2) <= volumes:
        order += 2
    return order


def order_advice(directions: int, otherwise: str) -> str:
    """Say which order so many directions determine, or what to do if they determine none."""
    order = highest_order(directions)
    return f"give --sh-order {order}" if count_of(order) <= directions else otherwise


def order_of(count: int, full: bool = False) -> int:
    """Return the order of harmonics from the number of coefficients.

    Parameters
    ----------
    count : int
        Number of coefficients: (order + 1)(order + 2) / 2 with an even order, or (order + 1)^2 for a full basis.
    full : bool
        Whether odd degrees are included.

    Returns
    -------
    order : int

    Raises
    ------
    ValueError
        If no order has this number of coefficients.

    Notes
    -----
    DIPY's ``order_from_ncoef`` accepts any number, e.g. 14 and 16 for order 4; this function does not.
    """
    if count < 1:
        raise ValueError(f"{count} coefficients fit no order; the least is 1 (order 0)")
    # the highest order that has no more coefficients
    order = math.isqrt(count) - 1 if full else (math.isqrt(8 * count + 1) - 3) // 4 * 2
    if count_of(order, full) == count:
        return order
    above = order + (1 if full else 2)
    raise ValueError(
        f"{count} coefficients fit no order of a {'full' if full else 'symmetric'} basis; the nearest are "
        f"{count_of(order, full)} (order {order}) and {count_of(above, full)} (order {above})"
    )


def degrees(order: int, full: bool = False) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return l and m of each coefficient, (n_coef,) int64 each; DIPY's ``sph_harm_ind_list`` returns m first."""
    kept = np.arange(0, order + 1, 1 if full else 2, dtype=np.int64)
    l_values = np.repeat(kept, 2 * kept + 1)
    return l_values, np.concatenate([np.arange(-degree, degree + 1, dtype=np.int64) for degree in kept])


def sampling_matrix(vertices: npt.ArrayLike, order: int, basis: str) -> npt.NDArray[np.float64]:
    """Return the harmonics at given directions, so that ``odf = matrix @ coefficients``.

    Parameters
    ----------
    vertices : (n_vertices, 3)
        Unit vectors, in the frame of the coefficients.
    order : int
        Order of the harmonics; even unless the basis is full.
    basis : str
        One of BASES.

    Returns
    -------
    matrix : (n_vertices, n_coef) float64
        The values of DIPY's ``real_sh_descoteaux`` or ``real_sh_tournier``, which takes 0.2 s to import.

    Raises
    ------
    ParameterError
        If the basis is unknown.
    ValueError
        If the order is odd and the basis is symmetric.
    """
    chosen = basis_of(basis)
    if order % 2 and not chosen.full:
        raise ValueError(f"the order is {order}, but that of a symmetric basis is even")
    polar, azimuth = angles_of(np.asarray(vertices, np.float64))
    l_values, m_values = degrees(order, chosen.full)
    amounts, turns = np.abs(m_values), np.arange(order + 1)[:, None] * azimuth
    imaginary = m_values > 0 if chosen.basis == "descoteaux07" else m_values < 0
    parts = np.where(imaginary[:, None], _each(math.sin, turns)[amounts], _each(math.cos, turns)[amounts])
    factors = np.where((m_values == 0) | (chosen.basis == "tournier07" and chosen.legacy), 1.0, math.sqrt(2))
    if chosen.basis == "descoteaux07" and not chosen.legacy:  # Y of -m is (-1)^m times the conjugate of Y of m
        factors[(m_values < 0) & (m_values % 2 == 1)] *= -1
    return np.ascontiguousarray((_legendre(polar, order)[l_values, amounts] * parts * factors[:, None]).T)


def angles_of(vectors: Array) -> tuple[Array, Array]:
    """Return the polar angles and the azimuths (n,) of vectors (n, 3) in radians, 0 for a vector of zeros."""
    x, y, z = vectors.T
    length = np.sqrt(x * x + y * y + z * z)
    return np.where(length > 0, np.arccos(z / np.where(length > 0, length, 1)), 0.0), np.arctan2(y, x)


def _each(function: Callable[[float], float], values: Array) -> Array:
    """Return a function of the C library of all values: the bits of numpy's vary with the processor."""
    return np.array([*map(function, values.ravel().tolist())]).reshape(values.shape)


def _legendre(angles: Array, order: int) -> Array:
    """Return the associated Legendre functions of degree l and m up to l (order + 1, order + 1, n) at angles (n,).

    They are orthonormal, with the Condon-Shortley phase. The recurrences are those of scipy's ``sph_harm_y``.
    """
    cosines, sines = _each(math.cos, angles), _each(math.sin, angles)
    values = np.zeros((order + 1, order + 1, len(angles)))
    values[0, 0] = 1 / (2 * math.sqrt(math.pi))
    for m in range(order + 1):
        if m == 1:
            values[1, 1] = -math.sqrt(3) / (2 * math.sqrt(2 * math.pi)) * np.abs(sines)
        elif m:
            scale = math.sqrt((2 * m + 1) * (2 * m - 1) / (4 * m * (m - 1)))
            values[m, m] = scale * sines * sines * values[m - 2, m - 2]
        if m < order:
            values[m + 1, m] = math.sqrt(2 * m + 3) * cosines * values[m, m]
        for n in range(m + 2, order + 1):
            below = (2 * n - 3) * (n * n - m * m)
            last = math.sqrt((2 * n + 1) * (4 * (n - 1) ** 2 - 1) / below)
            earlier = math.sqrt((2 * n + 1) * ((n - 1) ** 2 - m * m) / below)
            values[n, m] = last * cosines * values[n - 1, m] - earlier * values[n - 2, m]
    return values


def zonal_harmonics(cosines: Array, count: int) -> npt.NDArray[np.float64]:
    """Return the first zonal harmonics of even degree (n, count), orthonormal, at angles of these cosines (n,)."""
    from scipy.special import eval_legendre

    l_values = np.arange(0, 2 * count, 2)[:, None]
    return (np.sqrt((2 * l_values + 1) / (4 * np.pi)) * eval_legendre(l_values, cosines)).T


def zonal_slopes(angles: Array, count: int) -> npt.NDArray[np.float64]:
    """Return the derivatives (n, count) of these harmonics by the angle, at angles (n,) in radians."""
    from numpy.polynomial.legendre import legder, legval

    slopes = []
    for degree in range(0, 2 * count, 2):
        by_cosine = legval(np.cos(angles), legder(np.eye(degree + 1)[degree]))
        slopes.append(-np.sin(angles) * math.sqrt((2 * degree + 1) / (4 * np.pi)) * by_cosine)
    return np.stack(slopes, axis=1)


def to_descoteaux(coefficients: npt.ArrayLike, basis: str) -> npt.NDArray[np.float64]:
    """Convert coefficients of a symmetric basis to descoteaux07_legacy, DIPY's default.

    Parameters
    ----------
    coefficients : (..., n_coef)
        In the basis named.
    basis : str
        One of BASES.

    Returns
    -------
    coefficients : (..., n_coef) float64
        The same functions, in a new array. Coefficients of a full basis are returned unchanged.

    Raises
    ------
    ParameterError
        If the basis is unknown.
    ValueError
        If no order has this number of coefficients.

    Notes
    -----
    Signs and places are exact; tournier07_legacy also has a factor sqrt(1/2), rounded once.  The same as DIPY's
    ``convert_sh_to_legacy``, ``convert_sh_from_legacy`` and ``convert_sh_descoteaux_tournier``.
    """
    chosen = basis_of(basis)
    values = np.array(coefficients, np.float64)
    m = degrees(order_of(values.shape[-1], chosen.full), chosen.full)[1]
    if chosen.full:
        return values
    if chosen.basis == "descoteaux07":
        # Y of -m is (-1)^m times the conjugate of Y of m
        return values if chosen.legacy else values * np.where((m < 0) & (m % 2 == 1), -1.0, 1.0)
    if chosen.legacy:
        values *= np.where(m == 0, 1.0, math.sqrt(0.5))
    return values[..., np.arange(len(m)) - 2 * m]  # m and -m are exchanged


def from_descoteaux(coefficients: npt.ArrayLike, basis: str) -> npt.NDArray[np.float64]:
    """Convert coefficients of descoteaux07_legacy to another symmetric basis; undoes :func:`to_descoteaux`.

    Parameters
    ----------
    coefficients : (..., n_coef)
        In descoteaux07_legacy.
    basis : str
        One of BASES, symmetric.

    Returns
    -------
    coefficients : (..., n_coef) float64
        The same functions, in a new array.

    Raises
    ------
    ParameterError
        If the basis is unknown.
    ValueError
        If no order has this number of coefficients.
    """
    chosen = basis_of(basis)
    halved = chosen.basis == "tournier07" and chosen.legacy
    values = to_descoteaux(coefficients, "tournier07" if halved else basis)  # its own inverse, but for a scale
    if halved:
        m = degrees(order_of(values.shape[-1]))[1]
        values *= np.where(m == 0, 1.0, math.sqrt(2))
    return values


def turn_coefficients(coefficients: npt.ArrayLike, turn: npt.ArrayLike, basis: str) -> npt.NDArray[np.float32]:
    """Rotate orientation functions: return the coefficients of g(d) = f(turn d) from those of f.

    Parameters
    ----------
    coefficients : (..., n_coef)
        In the basis named.
    turn : (3, 3)
        An orthogonal matrix; if its determinant is negative, it includes a reflection.
    basis : str
        One of BASES.

    Returns
    -------
    coefficients : (..., n_coef) float32
        In the same basis, in a new array.

    Raises
    ------
    ParameterError
        If the basis is unknown.
    ValueError
        If no order has this number of coefficients.
    """
    values = np.asarray(coefficients)
    matrix = turning_matrix(turn, order_of(values.shape[-1], basis_of(basis).full), basis)
    flat = values.reshape(-1, len(matrix))
    out = np.empty(flat.shape, np.float32)
    for first in range(0, len(flat), BLOCK):
        out[first : first + BLOCK] = flat[first : first + BLOCK].astype(np.float64) @ matrix.T
    return out.reshape(values.shape)


def turning_matrix(turn: npt.ArrayLike, order: int, basis: str) -> npt.NDArray[np.float64]:
    """Return the matrix (n_coef, n_coef) float64 by which :func:`turn_coefficients` multiplies coefficients.

    A rotation mixes only coefficients of the same degree. The block of each degree is the exact solution of a linear
    system of samples, at more directions than the degree has coefficients.
    """
    directions = spiral(math.pi * (1 + math.sqrt(5)) * (np.arange(1000) + 0.5))
    l_values = degrees(order, basis_of(basis).full)[0]
    there = sampling_matrix(directions @ np.asarray(turn, np.float64).T, order, basis)
    here = sampling_matrix(directions, order, basis)
    matrix = np.zeros((len(l_values), len(l_values)))
    for degree in np.unique(l_values):
        columns = np.flatnonzero(l_values == degree)
        matrix[np.ix_(columns, columns)] = np.linalg.lstsq(here[:, columns], there[:, columns], rcond=None)[0]
    # entries that are exactly 0 or +-1 are made so; then flips of axes change only signs
    whole = np.rint(matrix)
    return np.where(np.abs(matrix - whole) < WHOLE_TOLERANCE, whole, matrix)


def spiral(angle: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Return directions (n, 3) on a spiral, at even heights, from the angle (n,) of each one around z."""
    z = 1 - (2 * np.arange(len(angle)) + 1) / len(angle)
    radius = np.sqrt(1 - z * z)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), z], axis=1)


def degree_shares(coefficients: npt.ArrayLike, full: bool = False) -> npt.NDArray[np.float64]:
    """Return the norm of each degree above 0, relative to the maximum of a non-negative function.

    Parameters
    ----------
    coefficients : (..., n_coef)
        In any basis; the first coefficient must not be 0.
    full : bool
        Whether odd degrees are included.

    Returns
    -------
    shares : (..., n_degrees) float64
        ``|c_l| / (sqrt(2 l + 1) c_0)`` with all coefficients c_l of degree l. By the addition theorem it is at most 1,
        the value of a single sharp fibre; in tournier07_legacy, which has another scale, at most sqrt(2).
    """
    values = np.asarray(coefficients, np.float64)
    l_values = degrees(order_of(values.shape[-1], full), full)[0]
    starts = np.flatnonzero(np.diff(l_values)) + 1
    sizes = np.sqrt(np.add.reduceat(values**2, starts, axis=-1))
    return sizes / values[..., :1] / np.sqrt(2 * l_values[starts] + 1)


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
