"""FODs of a series, the responses that they were fitted with, the voxels of these, and residuals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..aliases import Array, Json
from ..devices.threads import in_threads
from .series import in_parts

BLOCK = 1 << 13  # voxels whose residuals are computed at a time


@dataclass(frozen=True, eq=False)
class FodFit:
    """FODs and other tissues of a series; directions are along the axes of the gradients.

    Attributes
    ----------
    coefficients : mapping of str to (x, y, z, n) float32
        In ``tissues.BASIS``, of 'wm' and perhaps of 'gm' and 'csf', 0 outside the mask.
    responses : mapping of str to (shells, degrees) float64
        Zonal coefficients of even degrees, a row for each shell.
    shells : list of float, s/mm2
        b-values of these rows.
    mask, failed : (x, y, z) bool
        Voxels that are fitted, and those of them without a solution.
    residual : (x, y, z) float32
        Root of the mean squared difference between the signals and those of the fit.
    chosen : dict
        Values that were chosen from the data, for the record.
    selections : mapping of str to (x, y, z) bool
        Voxels from which the response of each tissue was estimated.
    field : (x, y, z) float32 or None
        By which the coefficients were divided so that the tissues have the same density everywhere.
    scale : float or None
        MRtrix3's ``lognorm_scale``, of that field.
    """

    coefficients: Mapping[str, npt.NDArray[np.float32]]
    responses: Mapping[str, npt.NDArray[np.float64]]
    shells: list[float]
    mask: npt.NDArray[np.bool_]
    failed: npt.NDArray[np.bool_]
    residual: npt.NDArray[np.float32]
    chosen: Json
    selections: Mapping[str, npt.NDArray[np.bool_]] = field(default_factory=dict)
    field: npt.NDArray[np.float32] | None = None
    scale: float | None = None

    def shares(self, threads: int | None = None) -> dict[str, npt.NDArray[np.float32]]:
        """Return the share of each tissue in a voxel, of its coefficient of degree 0 in the sum; 0 where all are 0."""
        voxels, tables = np.flatnonzero(self.mask), [v.reshape(self.mask.size, -1) for v in self.coefficients.values()]
        shares = np.zeros((len(tables), *self.mask.shape), np.float32)
        flat = shares.reshape(len(tables), -1)

        def divide(part: slice) -> None:
            rows = voxels[part]
            densities = np.stack([np.maximum(table[rows, 0], 0) for table in tables])
            total = densities.sum(axis=0)
            flat[:, rows] = np.divide(densities, total, out=np.zeros_like(densities), where=total > 0)

        in_parts(divide, len(voxels), threads)
        return {name: shares[number] for number, name in enumerate(self.coefficients)}


def residuals(
    signals: Array, design: Array, coefficients: Array, mask: npt.NDArray[np.bool_], threads: int | None
) -> npt.NDArray[np.float32]:
    """Return the root mean square (x, y, z) of signals (x, y, z, n) less design (n, k) times coefficients."""
    voxels, turned, out = np.flatnonzero(mask), design.T.astype(np.float32), np.zeros(mask.size, np.float32)
    flat, fitted = signals.reshape(mask.size, -1), coefficients.reshape(mask.size, -1)

    def block(first: int) -> None:
        rows = voxels[first : first + BLOCK]
        out[rows] = np.sqrt(((flat[rows] - fitted[rows] @ turned) ** 2).mean(axis=1))

    in_threads(block, range(0, len(voxels), BLOCK), threads)
    return out.reshape(mask.shape)
