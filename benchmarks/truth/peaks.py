"""Peaks of orientation functions, and their angles to fibres that are known."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tistreamlines.space.harmonics import order_of, sampling_matrix

Array = npt.NDArray[np.float64]
THRESHOLD = 0.2  # of the greatest peak of a voxel
SEPARATION = 15.0  # degrees between two peaks
MOST = 5  # peaks of a voxel
BLOCK = 256  # voxels at once
FOUND = 20.0  # degrees from a peak within which a fibre is found


@dataclass(frozen=True, eq=False)
class Functions:
    """Orientation functions as coefficients of spherical harmonics.

    Attributes
    ----------
    coefficients : (x, y, z, n)
    basis : str
        One of :data:`tistreamlines.space.harmonics.BASES`.
    axes : (3, 3)
        Unit vectors of the axes to which they are relative, as columns, RAS.
    """

    coefficients: npt.NDArray[np.floating]
    basis: str
    axes: Array


@cache
def _sphere() -> Any:
    """Return DIPY's sphere of 724 vertices and those at the middle of its edges, about 4 degrees apart."""
    from dipy.data import get_sphere

    return get_sphere(name="repulsion724").subdivide(n=1)


def peaks_of(functions: Functions, white: npt.NDArray[np.bool_]) -> Array:
    """Find the peaks of at least a fifth of the voxel's greatest one, 15 degrees apart, at most five.

    Parameters
    ----------
    functions : Functions
    white : (x, y, z)
        Voxels to examine.

    Returns
    -------
    (x, y, z, 5, 3) float64
        Unit vectors, RAS, the greatest first; 0 where there is none.
    """
    from dipy.direction import peak_directions

    sphere, voxels = _sphere(), np.argwhere(white)
    order = order_of(functions.coefficients.shape[-1])
    matrix = sampling_matrix(sphere.vertices @ functions.axes, order, functions.basis).T
    volume = np.zeros((*white.shape, MOST, 3))
    for first in range(0, len(voxels), BLOCK):
        block = voxels[first : first + BLOCK]
        amplitudes = np.nan_to_num(functions.coefficients[tuple(block.T)].astype(np.float64)) @ matrix
        for voxel, values in zip(map(tuple, block), amplitudes, strict=True):
            peaks = peak_directions(
                values, sphere, relative_peak_threshold=THRESHOLD, min_separation_angle=SEPARATION
            )[0][:MOST]
            volume[voxel][: len(peaks)] = peaks
    return volume


def angular_scores(peaks: Array, voxels: npt.NDArray[np.int64], fibres: Array) -> dict[str, float]:
    """Compare peaks with the directions of fibres.

    Parameters
    ----------
    peaks : (x, y, z, k, 3)
        Unit vectors; 0 where there is none.
    voxels : (n, 3) int64
        Voxel of each fibre; a voxel may have several.
    fibres : (n, 3)
        Unit vectors, of any sign.

    Returns
    -------
    dict
        peak_error : angle from a fibre to the nearest peak of its voxel, degrees, 90 if it has none, the mean over
        fibres; fibres_missed : % of the fibres with none within 20 degrees; peaks_spurious : % of the peaks with no
        fibre within 20 degrees.
    """
    places, at = np.unique(voxels, axis=0, return_inverse=True)
    there = peaks[tuple(places.T)]
    cosines = np.minimum(np.abs(np.einsum("nc,nkc->nk", fibres, there[at.ravel()])), 1)
    error = np.degrees(np.arccos(cosines.max(axis=1)))
    nearest = np.zeros(there.shape[:2])
    np.maximum.at(nearest, at.ravel(), cosines)
    exists = there.any(axis=2)
    spurious = nearest[exists] < np.cos(np.radians(FOUND))
    return {
        "peak_error": float(error.mean()), "fibres_missed": 100 * float((error > FOUND).mean()),
        "peaks_spurious": 100 * float(spurious.mean()) if exists.any() else 0.0,
    }
