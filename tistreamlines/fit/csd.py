"""Constrained spherical deconvolution: fibre orientation distributions as DIPY fits them, on all cores.

DIPY builds the model; a kernel compiled by Numba (:mod:`.backends.cholesky`) does what DIPY's ``csdeconv`` does, voxel
by voxel, and is imported by :func:`fit_csd` only.

References
----------
Tournier, Calamante, Connelly. Robust determination of the fibre orientation distribution in diffusion MRI:
non-negativity constrained super-resolved spherical deconvolution. NeuroImage 35, 2007.
Tournier, Calamante, Gadian, Connelly. Direct estimation of the fiber orientation density function from
diffusion-weighted MRI data using spherical deconvolution. NeuroImage 23, 2004 (the response).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..backends.devices import usable_cores
from ..errors import InputError
from .dipy_private import csd_design, csd_normal

if TYPE_CHECKING:
    from dipy.core.gradients import GradientTable

    from .cholesky import Deconvolution

Array = npt.NDArray[Any]
BLOCK = 1024  # voxels a task: short enough for progress and for threads to end together
SHELL_WIDTH = 50  # s/mm2
MOST_SOLUTIONS = 50  # DIPY's default
RIDGE = 1e-5  # DIPY's mu: added to the diagonal where the directions alone do not determine the coefficients

__all__ = ["csd_response", "fit_csd", "lowest_shell"]


def lowest_shell(data: Array, gtab: GradientTable, shell_width: int = SHELL_WIDTH) -> tuple[Array, GradientTable]:
    """Keep the b0s and the lowest shell, whose b-values DIPY's ``unique_bvals_tolerance`` groups.

    Parameters
    ----------
    data : (x, y, z, n) signals.
    gtab : DIPY's gradient table of the n volumes; the b0s may be anywhere.
    shell_width : s/mm2
        b-values this near to each other are one shell.

    Returns
    -------
    data : (x, y, z, m), in the order of the volumes; the array given where nothing is left out.
    gtab : the table of these volumes, with the same b0 threshold.

    Raises
    ------
    InputError
        Where the gradients do not fit the data, or none is diffusion-weighted.
    """
    from dipy.core.gradients import get_bval_indices, gradient_table, unique_bvals_tolerance

    _check(data, gtab)
    keep = np.asarray(gtab.b0s_mask).copy()
    shells = unique_bvals_tolerance(gtab.bvals[~keep], tol=shell_width)
    chosen = get_bval_indices(gtab.bvals, shells[0], tol=shell_width)
    keep[chosen] = True
    if keep.all():
        return data, gtab
    btens = None if gtab.btens is None else gtab.btens[keep]
    kept = gradient_table(
        gtab.bvals[keep], bvecs=gtab.bvecs[keep], big_delta=gtab.big_delta, small_delta=gtab.small_delta,
        b0_threshold=gtab.b0_threshold, btens=btens,
    )  # fmt: skip
    return data[..., keep], kept


def csd_response(
    data: Array, gtab: GradientTable, mask: npt.NDArray[np.bool_], fa_threshold: float = 0.7
) -> tuple[tuple[Array, float], float]:
    """Response of a single fibre, as DIPY's ``auto_response_ssst`` estimates it.

    It is the mean tensor of the voxels of high anisotropy in a cube of 21 voxels' edge about the middle of the volume:
    those of them that lie in the mask, where DIPY takes all.  If there are none, the whole mask is searched.

    Parameters
    ----------
    data : (x, y, z, n) signals of one shell and its b0s.
    gtab : DIPY's gradient table of the n volumes.
    mask : (x, y, z), the brain.
    fa_threshold : fractional anisotropy that a voxel has to exceed.

    Returns
    -------
    response : (evals, S0)
        Eigenvalues (3,) in mm2/s, the last two equal, and the signal without weighting: DIPY's ``response``.
    ratio : smallest eigenvalue over the greatest.

    Raises
    ------
    InputError
        Where there is no b0, or no voxel of the mask is anisotropic enough.
    """
    from dipy.reconst.csdeconv import mask_for_response_ssst, response_from_mask_ssst

    _check(data, gtab, mask)
    if not gtab.b0s_mask.any():
        raise InputError("the gradient table has no b0: the response needs the signal without diffusion weighting")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "No voxel with a FA higher", UserWarning)  # the mask is searched then
        chosen = (mask_for_response_ssst(gtab, data, fa_thr=fa_threshold) > 0) & mask
    if not chosen.any():
        chosen = _anisotropic(data, gtab, mask, fa_threshold)
    (evals, unweighted), ratio = response_from_mask_ssst(gtab, data, chosen)
    return (np.asarray(evals), float(unweighted)), float(ratio)


def _anisotropic(data: Array, gtab: GradientTable, mask: Array, fa_threshold: float) -> Array:
    """Voxels of the mask above the threshold, by DIPY's tensor fit."""
    from dipy.reconst.dti import TensorModel

    anisotropy = np.zeros(mask.shape)
    if mask.any():
        anisotropy[mask] = np.nan_to_num(TensorModel(gtab).fit(data[mask]).fa)
    chosen = anisotropy > fa_threshold
    if not chosen.any():
        raise InputError(
            f"none of the {np.count_nonzero(mask)} voxels of the mask has an FA above {fa_threshold:g} (the greatest "
            f"is {anisotropy.max():.2f}): widen it to white matter, lower fa_threshold or give the response yourself"
        )
    return chosen


def fit_csd(
    data: Array,
    gtab: GradientTable,
    mask: npt.NDArray[np.bool_],
    response: Any,
    order: int = 8,
    threads: int | None = None,
    progress: Callable[[float], object] | None = None,
) -> npt.NDArray[np.float32]:
    """Fibre orientation distributions of DIPY's ``ConstrainedSphericalDeconvModel`` with its default options.

    Parameters
    ----------
    data : (x, y, z, n) signals of one shell; what b0s there are is not used.
    gtab : DIPY's gradient table of the n volumes.
    mask : (x, y, z), the voxels to fit.
    response : (evals, S0) as of :func:`csd_response`, or DIPY's ``AxSymShResponse``.
    order : greatest degree, even.
    threads : at most this many; all cores of the process if None.  The result does not depend on it.
    progress : called from this thread with the share that is done, 0 to 1.

    Returns
    -------
    (x, y, z, (order + 1) (order + 2) / 2) float32
        Coefficients in DIPY's default basis (descoteaux07, legacy), 0 outside the mask; computed in float64.  As in
        DIPY, a signal that is NaN makes its voxel NaN.

    Raises
    ------
    InputError
        Where the arrays do not go together, the order or the response is none, or the directions are too few for it.

    Warns
    -----
    UserWarning
        Where voxels did not converge, and, by DIPY, where there are fewer directions than coefficients.
    """
    _check(data, gtab, mask)
    if order < 2 or order % 2:
        raise InputError(f"order is {order}: give an even number from 2 on, e.g. 8")
    fitted = _deconvolution(gtab, response, order)
    weighted, voxels = ~np.asarray(gtab.b0s_mask), np.nonzero(mask)
    out = np.zeros((*mask.shape, fitted.coefficients), np.float32)
    count = len(voxels[0])

    def fit_block(first: int) -> Array:
        some = tuple(axis[first : first + BLOCK] for axis in voxels)
        out[some], failures = fitted.fit(data[some][:, weighted])
        return failures

    failures = np.zeros(2, np.int64)
    with closing(_in_threads(fit_block, range(0, count, BLOCK), threads)) as blocks:
        for done, more in enumerate(blocks, start=1):
            failures += more
            if progress is not None:
                progress(min(done * BLOCK, count) / count)
    unfinished, singular = failures
    if singular:
        raise InputError(
            f"{singular} of {count} voxels have no solution of order {order} with "
            f"{np.count_nonzero(weighted)} diffusion-weighted volumes: lower the order"
        )
    if unfinished:
        warnings.warn(f"{unfinished} of {count} voxels did not converge in {MOST_SOLUTIONS} iterations", stacklevel=2)
    return out


def _in_threads(task: Callable[[int], Any], items: range, threads: int | None) -> Generator[Any, None, None]:
    """Results of the task, in order; what has not begun is dropped if the caller stops."""
    pool = ThreadPoolExecutor(threads or usable_cores())
    try:
        yield from pool.map(task, items)
    finally:
        pool.shutdown(cancel_futures=True)


def _deconvolution(gtab: GradientTable, response: Any, order: int) -> Deconvolution:
    """DIPY's model as tables of the kernel."""
    from dipy.reconst.csdeconv import AxSymShResponse, ConstrainedSphericalDeconvModel
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    from .cholesky import Deconvolution

    if not isinstance(response, AxSymShResponse):
        evals, unweighted = np.asarray(response[0], float), float(response[1])
        if evals.shape != (3,) or not (np.isfinite(evals).all() and evals.min() > 0 and 0 < unweighted < np.inf):
            raise InputError(f"the response is {response}: give three eigenvalues in mm2/s and S0, all above 0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)  # DIPY's, at each use of a legacy basis
        model = ConstrainedSphericalDeconvModel(gtab, response, sh_order_max=order, convergence=MOST_SOLUTIONS)
    try:
        normal = _regular(csd_normal(model))
        unconstrained = cho_solve(cho_factor(normal), csd_design(model).T)
    except LinAlgError as error:
        raise InputError(f"the gradients do not determine coefficients of order {order}: lower the order") from error
    return Deconvolution(csd_design(model), model.B_reg, normal, unconstrained, model.tau, model.convergence)


def _regular(normal: Array) -> Array:
    """DIPY's X'X (n, n), with its small ridge where the Cholesky factor fails without."""
    from scipy.linalg import get_lapack_funcs

    (factorise,) = get_lapack_funcs(("potrf",), (normal,))
    _, info = factorise(normal, lower=False, clean=False)
    return normal + RIDGE * np.eye(len(normal)) if info > 0 else normal


def _check(data: Array, gtab: GradientTable, mask: Array | None = None) -> None:
    if data.ndim != 4 or data.shape[3] != len(gtab.bvals):
        raise InputError(f"data is {data.shape}, the gradient table has {len(gtab.bvals)} volumes: give one series")
    if mask is not None and (mask.shape != data.shape[:3] or mask.dtype != bool):
        raise InputError(f"mask is {mask.shape} {mask.dtype}, data {data.shape}: give a bool for each voxel")
    if np.asarray(gtab.b0s_mask).all():
        raise InputError("all volumes are b0s: give a series with diffusion weighting")
