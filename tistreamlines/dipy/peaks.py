"""Peaks of DIPY's ``PeaksAndMetrics``: as a function on the sphere, and as the initial directions of seeds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from dipy.core.sphere import Sphere
from dipy.direction.peaks import PeaksAndMetrics

from ..aliases import Array
from ..errors import InputError, ParameterError


@dataclass(frozen=True, eq=False)
class Peaks:
    """The peaks of each voxel, the highest first.

    Parameters
    ----------
    indices : ndarray, (x, y, z, k), int
        Vertices of the sphere.
    values : ndarray, (x, y, z, k), float32
        Amplitudes; 0 where there is no peak.
    sphere : Sphere
        DIPY's sphere or hemisphere.
    """

    indices: Array
    values: Array
    sphere: Sphere

    @classmethod
    def of(cls, pam: PeaksAndMetrics, sphere: Sphere | None = None) -> Peaks:
        """Read a ``PeaksAndMetrics``; its own sphere has the vertices, if it has one, else ``sphere``.

        Raises
        ------
        ParameterError
            If it is none, or has no sphere, or another one than ``sphere``.
        InputError
            If its arrays do not have one shape.
        """
        names = ("peak_indices", "peak_values")
        if not all(getattr(pam, name, None) is not None for name in names):
            raise ParameterError(f"pam is a {type(pam).__name__}: give DIPY's PeaksAndMetrics, with its peaks")
        its_sphere = getattr(pam, "sphere", None) or sphere
        if its_sphere is None:
            raise ParameterError("pam has no sphere: give the sphere whose vertices are its peaks")
        if sphere is not None and not np.array_equal(its_sphere.vertices, sphere.vertices):
            raise ParameterError(
                f"sphere has {len(sphere.vertices)} vertices, but the peaks of pam are of its own sphere of "
                f"{len(its_sphere.vertices)}: leave sphere out"
            )
        indices, values = (np.asarray(getattr(pam, name)) for name in names)
        if indices.ndim != 4 or indices.shape != values.shape:
            raise InputError(f"pam has indices {indices.shape} and values {values.shape}: give both as (x, y, z, k)")
        valid = (indices >= 0) & (indices < len(its_sphere.vertices)) & (values > 0)
        indices, values = np.where(valid, indices, 0).astype(np.int64), np.where(valid, values, 0).astype(np.float32)
        return cls(indices, values, its_sphere)

    def above(self, threshold: float) -> Peaks:
        """Return the peaks above a threshold, all of amplitude 1; as in DIPY, none after one that is not above it."""
        kept = np.logical_and.accumulate(self.values > threshold, axis=-1)
        return Peaks(self.indices, kept.astype(np.float32), self.sphere)

    def directions(self) -> Array:
        """Return unit vectors (x, y, z, k, 3) float32 along the voxel axes; of length 0 where there is no peak."""
        return np.asarray(self.sphere.vertices, np.float32)[self.indices] * (self.values > 0)[..., None]

    def sampled(self) -> Array:
        """Return the function (x, y, z, v) float32 that is 0 except at peaks, whose amplitude it has."""
        shape = self.values.shape
        out = np.zeros((int(np.prod(shape[:3])), len(self.sphere.vertices)), np.float32)
        voxels = np.repeat(np.arange(len(out)), shape[3])
        np.add.at(out, (voxels, self.indices.ravel()), self.values.ravel())
        return out.reshape(*shape[:3], -1)

    def at(self, points: Array) -> Array:
        """Return the directions (n, k, 3) of the voxels nearest to points (n, 3), voxel, as DIPY's seeds have them."""
        last = np.array(self.values.shape[:3]) - 1
        return self.directions()[tuple(np.clip(np.round(points).astype(np.int64), 0, last).T)].astype(np.float64)


def coefficients_of(pam: PeaksAndMetrics) -> Array:
    """Return the spherical harmonic coefficients of a ``PeaksAndMetrics``, (x, y, z, n)."""
    coefficients = getattr(pam, "shm_coeff", None)
    if coefficients is None:
        raise ParameterError("pam has no shm_coeff: make it with return_sh=True, or give sh or sf")
    return coefficients
