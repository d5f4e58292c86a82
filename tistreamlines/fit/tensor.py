"""Fractional anisotropy (FA), fitted by DIPY."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from dipy.core.gradients import GradientTable


def tensor_fa(
    data: npt.NDArray[np.float32], gtab: GradientTable, mask: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float32]:
    """Fit FA with DIPY's TensorModel by weighted least squares.

    Parameters
    ----------
    data : ndarray, (x, y, z, n)
        Signals.
    gtab : GradientTable
        DIPY's gradient table of the n volumes.
    mask : ndarray of bool, (x, y, z)
        Voxels to fit.

    Returns
    -------
    ndarray, (x, y, z), float32
        FA, 0 outside the mask.
    """
    from dipy.reconst.dti import TensorModel

    out = np.zeros(mask.shape, np.float32)
    fit = TensorModel(gtab, fit_method="WLS").fit(data[mask])
    out[mask] = np.nan_to_num(fit.fa)
    return out
