"""Spherical harmonics as files hold them: bases, orders, and sampling on a sphere.

A basis is a choice of sign, scale and place for each coefficient. Coefficients lie degree by degree, and within degree
l by m from -l to l; symmetric bases have the even degrees, full ones all. With Y the complex harmonic of l and |m|,
Condon-Shortley phase included, and Re and Im its parts:

====================  ===================  ===================  =====================================================
name                  m < 0                m > 0                written by
====================  ===================  ===================  =====================================================
descoteaux07_legacy   sqrt(2) Re Y         sqrt(2) Im Y         DIPY unless told otherwise (``legacy=True``)
descoteaux07          (-1)^m sqrt(2) Re Y  sqrt(2) Im Y         DIPY with ``legacy=False``; Descoteaux et al. 2007
tournier07            sqrt(2) Im Y         sqrt(2) Re Y         MRtrix3; DIPY's tournier07 with ``legacy=False``
tournier07_legacy     Im Y                 Re Y                 MRtrix 0.2; DIPY's tournier07 with ``legacy=True``
====================  ===================  ===================  =====================================================

No test on coefficients tells these with certainty: whoever made the file has to say. All is computed in float64; the
caller rounds, once. DIPY is imported inside the function that needs it.
"""

from __future__ import annotations

import math
import warnings
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import ParameterError

BLOCK = 1 << 16  # voxels that are turned at a time
WHOLE_TOLERANCE = 1e-12

class Basis(NamedTuple):
    """A basis as DIPY spells it: ``basis_type``, ``legacy`` and ``full_basis`` of its functions."""

    basis: str
    legacy: bool
    full: bool


BASES = {
    "descoteaux07": Basis("descoteaux07", legacy=False, full=False),
    "descoteaux07_legacy": Basis("descoteaux07", legacy=True, full=False),
    "tournier07": Basis("tournier07", legacy=False, full=False),
    "tournier07_legacy": Basis("tournier07", legacy=True, full=False),
    "descoteaux07_full": Basis("descoteaux07", legacy=False, full=True),
    "descoteaux07_legacy_full": Basis("descoteaux07", legacy=True, full=True),
    "tournier07_full": Basis("tournier07", legacy=False, full=True),
    "tournier07_legacy_full": Basis("tournier07", legacy=True, full=True),
}


def basis_of(name: str) -> Basis:
    """Look a basis up.

    Raises
    ------
    ParameterError
        If it is none of BASES.
    """
    if name not in BASES:
        raise ParameterError(f"the basis is {name!r}: give one of {', '.join(BASES)}")
    return BASES[name]


def frame_of(name: str) -> str:
    """Axes along which whoever writes a basis has it: MRtrix3's are the 'scanner' axes, DIPY's those of the 'voxel'."""
    return "scanner" if basis_of(name).basis == "tournier07" else "voxel"


def count_of(order: int, full: bool = False) -> int:
    """Coefficients of a symmetric basis of an even order, or of a full basis of any order."""
    return (order + 1) ** 2 if full else (order + 1) * (order + 2) // 2


def order_of(count: int, full: bool = False) -> int:
    """Order of the harmonics that have so many coefficients.

    Parameters
    ----------
    count : int
        Number of coefficients: (order + 1)(order + 2) / 2 with an even order, or (order + 1)^2 for a full basis.
    full : bool
        Whether odd degrees are among them.

    Returns
    -------
    order : int

    Raises
    ------
    ValueError
        If no order has so many; the line names the nearest counts.

    Notes
    -----
    DIPY's ``order_from_ncoef`` takes any count (16 for order 4, 14 too), and its tracking with it; this does not.
    """
    if count < 1:
        raise ValueError(f"{count} coefficients fit no order; the least is 1 (order 0)")
    # the greatest order that has no more coefficients than that
    order = math.isqrt(count) - 1 if full else (math.isqrt(8 * count + 1) - 3) // 4 * 2
    if count_of(order, full) == count:
        return order
    above = order + (1 if full else 2)
    raise ValueError(
        f"{count} coefficients fit no order of a {'full' if full else 'symmetric'} basis; the nearest are "
        f"{count_of(order, full)} (order {order}) and {count_of(above, full)} (order {above})"
    )


def degrees(order: int, full: bool = False) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Degree l and m of each coefficient, two of (n_coef,) int64; DIPY's ``sph_harm_ind_list`` gives m first."""
    kept = np.arange(0, order + 1, 1 if full else 2, dtype=np.int64)
    l_values = np.repeat(kept, 2 * kept + 1)
    return l_values, np.concatenate([np.arange(-degree, degree + 1, dtype=np.int64) for degree in kept])


def sampling_matrix(vertices: npt.ArrayLike, order: int, basis: str) -> npt.NDArray[np.float64]:
    """Harmonics at directions: ``odf = matrix @ coefficients``.

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
        By DIPY's ``real_sh_descoteaux`` or ``real_sh_tournier``, not converted.

    Raises
    ------
    ParameterError
        If the basis is unknown.
    ValueError
        If the order is odd and the basis symmetric.
    """
    from dipy.core.geometry import cart2sphere
    from dipy.reconst.shm import sph_harm_lookup

    chosen = basis_of(basis)
    _, theta, phi = cart2sphere(*np.asarray(vertices, np.float64).T)
    harmonics = sph_harm_lookup[chosen.basis]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)  # DIPY's, at each use of a legacy basis
        matrix = harmonics(order, theta, phi, full_basis=chosen.full, legacy=chosen.legacy)[0]
    return np.ascontiguousarray(matrix, np.float64)


def to_descoteaux(coefficients: npt.ArrayLike, basis: str) -> npt.NDArray[np.float64]:
    """Turn coefficients of a symmetric basis into those of descoteaux07_legacy, DIPY's default.

    Parameters
    ----------
    coefficients : (..., n_coef)
        In the basis named.
    basis : str
        One of BASES.

    Returns
    -------
    coefficients : (..., n_coef) float64
        The same functions; a new array. Those of a full basis come back as they are, in their own basis.

    Raises
    ------
    ParameterError
        If the basis is unknown.
    ValueError
        If no order has so many coefficients.

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
    return values[..., np.arange(len(m)) - 2 * m]  # m and -m change places


def turned(coefficients: npt.ArrayLike, turn: npt.ArrayLike, basis: str) -> npt.NDArray[np.float32]:
    """Turn orientation functions: the coefficients of g(d) = f(turn d), from those of f.

    Parameters
    ----------
    coefficients : (..., n_coef)
        In the basis named.
    turn : (3, 3)
        An orthogonal matrix; one with a negative determinant also mirrors.
    basis : str
        One of BASES.

    Returns
    -------
    coefficients : (..., n_coef) float32
        In the same basis; a new array, rounded once from float64.

    Raises
    ------
    ParameterError
        If the basis is unknown.
    ValueError
        If no order has so many coefficients.
    """
    values = np.asarray(coefficients)
    matrix = turning_matrix(turn, order_of(values.shape[-1], basis_of(basis).full), basis)
    flat = values.reshape(-1, len(matrix))
    out = np.empty(flat.shape, np.float32)
    for first in range(0, len(flat), BLOCK):
        out[first : first + BLOCK] = flat[first : first + BLOCK].astype(np.float64) @ matrix.T
    return out.reshape(values.shape)


def turning_matrix(turn: npt.ArrayLike, order: int, basis: str) -> npt.NDArray[np.float64]:
    """Matrix (n_coef, n_coef) float64 that :func:`turned` multiplies each voxel's coefficients by.

    A rotation mixes only the coefficients of one degree. Each degree's block is found from samples at more directions
    than it has coefficients, where its harmonics, turned, are sums of themselves; the system has an exact solution.
    """
    directions = _many_directions()
    l_values = degrees(order, basis_of(basis).full)[0]
    there = sampling_matrix(directions @ np.asarray(turn, np.float64).T, order, basis)
    here = sampling_matrix(directions, order, basis)
    matrix = np.zeros((len(l_values), len(l_values)))
    for degree in np.unique(l_values):
        own = np.flatnonzero(l_values == degree)
        matrix[np.ix_(own, own)] = np.linalg.lstsq(here[:, own], there[:, own], rcond=None)[0]
    # what is a sign or nothing in exact arithmetic is so here, and flips of axes change no bit but signs
    whole = np.rint(matrix)
    return np.where(np.abs(matrix - whole) < WHOLE_TOLERANCE, whole, matrix)


def _many_directions() -> npt.NDArray[np.float64]:
    """Directions (1000, 3) spread evenly along a spiral: more than any order here has coefficients."""
    number = np.arange(1000) + 0.5
    z, angle = 1 - number / 500, math.pi * (1 + math.sqrt(5)) * number
    radius = np.sqrt(1 - z * z)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), z], axis=1)


def degree_shares(coefficients: npt.ArrayLike, full: bool = False) -> npt.NDArray[np.float64]:
    """Size of each degree above 0, as a share of the most that a function without negative values can have.

    Parameters
    ----------
    coefficients : (..., n_coef)
        In any basis; the first ones are not 0.
    full : bool
        Whether odd degrees are among them.

    Returns
    -------
    shares : (..., n_degrees) float64
        |c_l| / (sqrt(2 l + 1) c_0), c_l all coefficients of degree l: at most 1 by the addition theorem, and 1 for a
        single sharp fibre. In tournier07_legacy, whose scale is another, at most sqrt(2).
    """
    values = np.asarray(coefficients, np.float64)
    l_values = degrees(order_of(values.shape[-1], full), full)[0]
    starts = np.flatnonzero(np.diff(l_values)) + 1
    sizes = np.sqrt(np.add.reduceat(values**2, starts, axis=-1))
    return sizes / values[..., :1] / np.sqrt(2 * l_values[starts] + 1)
