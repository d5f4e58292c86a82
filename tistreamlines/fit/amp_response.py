"""The response of a tissue to each shell, from signals of voxels whose fibres have a known axis.

The zonal harmonics of a shell are fitted to the signals of all voxels by least squares. Each signal counts at the angle
between its gradient and the axis of its voxel. The fit has two constraints: the signal is nowhere negative, and from
the axis to the plane across it never falls. MRtrix3's ``amp2response`` has the same rules.

References
----------
Smith, Dhollander, Connelly. Constrained linear least squares estimation of anisotropic response function for spherical
deconvolution. ISMRM Workshop on Breaking the Barriers of Diffusion MRI, 2016.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..aliases import Array, GradientTable
from ..devices.threads import single_blas
from ..errors import InputError
from ..space.harmonics import zonal_harmonics, zonal_slopes
from .tissues import tissue_shells, unweighted_volumes

ORDER = 10  # of the harmonics of a shell
ANGLES = np.radians(np.arange(91))  # from the axis, along which the constraints hold
BLOCK = 1 << 10  # voxels together

__all__ = ["amp2response", "default_orders"]


def default_orders(gtab: GradientTable) -> tuple[int, ...]:
    """Return the order of the harmonics of each shell: 0 without diffusion weighting, else 10."""
    unweighted = unweighted_volumes(gtab)
    return tuple(0 if (shell & unweighted).any() else ORDER for shell in tissue_shells(gtab))


def amp2response(signals: Array, axes: Array, gtab: GradientTable, orders: Sequence[int] | None = None) -> Array:
    """Estimate the response of voxels, as MRtrix3's ``amp2response`` does.

    Parameters
    ----------
    signals : (m, n)
        Signals of m voxels.
    axes : (m, 3)
        Direction of the fibres of each voxel, in the frame of the gradients; of any length but 0.
    gtab : dipy.core.gradients.GradientTable
        Gradients of the n volumes.
    orders : sequence of int, optional
        Order of the harmonics of each shell, even; by default 0 without diffusion weighting, else 10. An order of 0
        makes the shell isotropic, and needs no axes.

    Returns
    -------
    (shells, degrees) float64
        Zonal coefficients of the degrees 0, 2, ... of each shell, by rising b-value; 0 above the order of the shell.

    Raises
    ------
    InputError
        If the arrays do not match, there is no voxel, a signal is not finite, or the orders are not those of shells.
    """
    shells, wanted = tissue_shells(gtab), default_orders(gtab) if orders is None else tuple(orders)
    _check(signals, axes, gtab, wanted)
    response = np.zeros((len(shells), max(wanted) // 2 + 1))
    lengths = np.linalg.norm(axes, axis=1, keepdims=True)
    directions = np.divide(axes, lengths, out=np.zeros(np.shape(axes)), where=lengths > 0)
    with single_blas():
        for row, shell, order in zip(response, shells, wanted, strict=True):
            gradients = np.asarray(gtab.bvecs, np.float64)[shell]
            row[: order // 2 + 1] = _zonal(signals[:, shell], directions, gradients, order)
    return response


def _zonal(signals: Array, axes: Array, gradients: Array, order: int) -> Array:
    """Return the zonal harmonics (order / 2 + 1,) of signals (m, n) of a shell."""
    count = order // 2 + 1
    normal, moments = np.zeros((count, count)), np.zeros(count)
    for first in range(0, len(signals), BLOCK):
        block = slice(first, first + BLOCK)
        cosines = np.clip(axes[block] @ gradients.T, -1, 1)
        harmonics = zonal_harmonics(cosines.ravel(), count)
        normal += harmonics.T @ harmonics
        moments += harmonics.T @ signals[block].astype(np.float64).ravel()
    if order == 0:
        return moments / normal[0]
    return _nearest_rising(normal, moments, order)


def _nearest_rising(normal: Array, moments: Array, order: int) -> Array:
    """Return the x with the least x'Nx / 2 - m'x among those whose signal is not negative and rises from the axis.

    With N = L L' and y = L'x, it is the point of a cone that is nearest to the unconstrained y. The way from there to
    this point is a non-negative combination of the normals of the cone's half-spaces.
    """
    from scipy.linalg import LinAlgError, cholesky, solve_triangular
    from scipy.optimize import nnls

    count = order // 2 + 1
    # slopes at 0 and 90 degrees are 0 in any case
    constraints = np.concatenate([zonal_harmonics(np.cos(ANGLES), count), zonal_slopes(ANGLES[1:-1], count)])
    try:
        factor = cholesky(normal, lower=True)
    except LinAlgError:
        raise InputError(
            f"the angles between gradients and axes do not determine a response of order {order}: give more voxels, or "
            "a lower order"
        ) from None
    free = solve_triangular(factor, moments, lower=True)
    normals = solve_triangular(factor, constraints.T, lower=True)
    normals /= np.linalg.norm(normals, axis=0)
    lengths, _ = nnls(normals, -free)
    return solve_triangular(factor.T, free + normals @ lengths)


def _check(signals: Array, axes: Array, gtab: GradientTable, orders: Sequence[int]) -> None:
    shells = tissue_shells(gtab)
    if signals.ndim != 2 or signals.shape[1] != len(gtab.bvals) or np.shape(axes) != (len(signals), 3):
        raise InputError(
            f"signals are {signals.shape}, axes {np.shape(axes)}, of {len(gtab.bvals)} volumes: give each voxel a row"
        )
    if not len(signals):
        raise InputError("there is no voxel for a response: select one or more")
    if len(orders) != len(shells):
        raise InputError(f"{len(orders)} orders are not those of {len(shells)} shells: give one for each")
    wrong = [order for order in orders if order < 0 or order % 2]
    if wrong:
        raise InputError(f"the order of a response is {wrong[0]}: give an even number from 0 on")
    if not (np.isfinite(signals).all() and np.isfinite(axes).all()):
        raise InputError("a signal or an axis of the voxels for a response is not finite: leave these voxels out")
    for shell, order in zip(shells, orders, strict=True):
        if order and not np.asarray(gtab.bvecs)[shell].any():
            raise InputError(f"volumes of b = {gtab.bvals[shell].mean():.0f} have no directions: their order must be 0")
    if any(orders) and not np.any(axes, axis=1).all():
        raise InputError("an axis is 0: give the direction of the fibres of each voxel")
