"""Constrained spherical deconvolution (CSD): the fibre orientation distributions of DIPY, fitted on all cores.

DIPY builds the model. A kernel compiled by Numba (:mod:`tistreamlines.fit.cholesky`) replaces DIPY's ``csdeconv``; only
:func:`fit_csd` imports it.

References
----------
Tournier, Calamante, Connelly. Robust determination of the fibre orientation distribution in diffusion MRI:
non-negativity constrained super-resolved spherical deconvolution. NeuroImage 35, 2007.
Tournier, Calamante, Gadian, Connelly. Direct estimation of the fiber orientation density function from
diffusion-weighted MRI data using spherical deconvolution. NeuroImage 23, 2004 (the response).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..devices import usable_cores
from ..errors import InputError
from .dipy_private import csd_design, csd_normal
from .tensor import anisotropy

if TYPE_CHECKING:
    from dipy.core.gradients import GradientTable

    from .cholesky import Deconvolution

Array = npt.NDArray[Any]
POLL = 0.1  # s between two reports of progress
RADIUS = 10  # voxels; that of DIPY's cube
MOST_SOLUTIONS = 50  # DIPY's default
DIPYS_WEIGHT = 1.0  # its lambda_
RIDGE = 1e-5  # DIPY's mu, added to the diagonal if the directions do not determine the coefficients

__all__ = ["csd_response", "fit_csd"]


def csd_response(
    data: Array, gtab: GradientTable, mask: npt.NDArray[np.bool_], fa_threshold: float = 0.7, threads: int | None = None
) -> tuple[tuple[Array, float], float]:
    """Estimate the response of a single fibre, as DIPY's ``auto_response_ssst`` does.

    It is the mean tensor of the voxels with high FA in a cube of 21 voxels' edge at the centre of the volume. Unlike
    DIPY, only voxels in the mask are used; if there are none in the cube, the whole mask is searched.

    Parameters
    ----------
    data : (x, y, z, n)
        Signals of one shell and its b0s.
    gtab : dipy.core.gradients.GradientTable
        Gradients of the n volumes.
    mask : (x, y, z) bool
        Brain mask.
    fa_threshold : float
        FA that a voxel must exceed.
    threads : int, optional
        Number of threads; by default all available cores. The result does not depend on it.

    Returns
    -------
    response : (evals, S0)
        Eigenvalues (3,) in mm2/s, the last two equal, and the b0 signal: DIPY's ``response``.
    ratio : float
        Smallest eigenvalue over the largest.

    Raises
    ------
    InputError
        If there is no b0, or if no voxel of the mask exceeds the FA threshold.
    """
    from dipy.reconst.csdeconv import response_from_mask_ssst

    _check(data, gtab, mask)
    if not gtab.b0s_mask.any():
        raise InputError("the gradient table has no b0: the response needs the signal without diffusion weighting")
    cube = np.zeros_like(mask)
    cube[tuple(slice(max(n // 2 - RADIUS, 0), n // 2 + RADIUS + 1) for n in mask.shape)] = True
    chosen, _ = _anisotropic(data, gtab, mask & cube, fa_threshold, threads)
    if not chosen.any():
        chosen, most = _anisotropic(data, gtab, mask, fa_threshold, threads)
        if not chosen.any():
            raise InputError(
                f"none of the {np.count_nonzero(mask)} voxels of the mask has an FA above {fa_threshold:g} (the "
                f"greatest is {most:.2f}): widen it to white matter, lower fa_threshold or give the response yourself"
            )
    (evals, unweighted), ratio = response_from_mask_ssst(gtab, data, chosen)
    return (np.asarray(evals), float(unweighted)), float(ratio)


def _anisotropic(
    data: Array, gtab: GradientTable, mask: Array, fa_threshold: float, threads: int | None
) -> tuple[Array, float]:
    """Return the voxels of the mask whose FA exceeds the threshold, and the greatest FA."""
    found, chosen = anisotropy(data, gtab, mask, threads), np.zeros_like(mask)
    chosen[mask] = found > fa_threshold
    return chosen, found.max(initial=0)


@dataclass(frozen=True)
class Deconvolved:
    """Coefficients (x, y, z, n), DIPY's model, and the numbers of voxels not converged and without a solution."""

    coefficients: npt.NDArray[np.float32]
    model: Any
    unfinished: int
    singular: int


def fit_csd(
    data: Array,
    gtab: GradientTable,
    mask: npt.NDArray[np.bool_],
    response: Any,
    order: int = 8,
    threads: int | None = None,
    progress: Callable[[float], object] = lambda _: None,
    weight: float = DIPYS_WEIGHT,
) -> npt.NDArray[np.float32]:
    """Fit fibre orientation distributions, as DIPY's ``ConstrainedSphericalDeconvModel``.

    Parameters
    ----------
    data : (x, y, z, n)
        Signals of one shell; b0s are ignored.
    gtab : dipy.core.gradients.GradientTable
        Gradients of the n volumes.
    mask : (x, y, z) bool
        Voxels to fit.
    response : (evals, S0) or AxSymShResponse
        The response of :func:`csd_response`, or DIPY's.
    order : int
        Maximum order of the spherical harmonics, even.
    threads : int, optional
        Number of threads; by default all available cores. The result does not depend on it.
    progress : callable, optional
        Called from this thread with the fraction of finished voxels, 0 to 1.
    weight : float
        Weight of the constraint that distributions are not negative, DIPY's ``lambda_``.

    Returns
    -------
    (x, y, z, (order + 1) (order + 2) / 2) float32
        Coefficients in DIPY's default basis (descoteaux07, legacy), 0 outside the mask; computed in float64. As in
        DIPY, a NaN signal makes its voxel NaN.

    Raises
    ------
    InputError
        If the arrays do not match, the order or the response is invalid, or there are too few directions for the order.

    Warns
    -----
    UserWarning
        If voxels did not converge, and, from DIPY, if there are fewer directions than coefficients.
    """
    found = deconvolved(data, gtab, mask, response, order, weight, threads, progress)
    count = np.count_nonzero(mask)
    if found.singular:
        raise InputError(
            f"{found.singular} of {count} voxels have no solution of order {order} with "
            f"{np.count_nonzero(~gtab.b0s_mask)} diffusion-weighted volumes: lower the order"
        )
    if found.unfinished:
        what = f"{found.unfinished} of {count} voxels did not converge in {MOST_SOLUTIONS} iterations"
        warnings.warn(what, stacklevel=2)
    return found.coefficients


def deconvolved(
    data: Array, gtab: GradientTable, mask: npt.NDArray[np.bool_], response: Any, order: int, weight: float,
    threads: int | None = None, progress: Callable[[float], object] = lambda _: None,
) -> Deconvolved:  # fmt: skip
    """Do what :func:`fit_csd` does, and leave its failures to the caller."""
    _check(data, gtab, mask)
    if order < 2 or order % 2:
        raise InputError(f"order is {order}: give an even number of at least 2, e.g. 8")
    model = _dipys_model(gtab, response, order, weight)
    fitted = _deconvolution(model, order)
    out = np.zeros((*mask.shape, fitted.coefficients), np.float32)
    unfinished, singular = _fit_voxels(fitted, data, mask, ~np.asarray(gtab.b0s_mask), out, threads, progress)
    progress(1.0)
    return Deconvolved(out, model, int(unfinished), int(singular))


def _fit_voxels(
    fitted: Deconvolution, data: Array, mask: Array, weighted: Array, out: Array, threads: int | None,
    progress: Callable[[float], object],
) -> Array:  # fmt: skip
    """Fit the voxels of the mask into ``out``; return :meth:`Deconvolution.fit`'s failures.

    Each thread makes one call for its share, every so many voxels, because it waits for the GIL between two calls.
    """
    voxels, volumes = np.flatnonzero(mask), np.flatnonzero(weighted)
    rows, flat = np.ascontiguousarray(data).reshape(mask.size, -1), out.reshape(mask.size, -1)
    parts = min(threads or usable_cores(), len(voxels))
    finished, stop = np.zeros((parts, 1), np.int64), np.zeros(1, np.int64)

    def fit_part(part: int) -> Array:
        return fitted.fit(rows, voxels[part::parts].copy(), volumes, flat, finished[part], stop)

    with ThreadPoolExecutor(max(parts, 1)) as pool:
        try:
            tasks = [pool.submit(fit_part, part) for part in range(parts)]
            while wait(tasks, POLL).not_done:
                progress(finished.sum() / len(voxels))
        finally:
            stop[:] = 1
    return sum((task.result() for task in tasks), np.zeros(2, np.int64))


def _dipys_model(gtab: GradientTable, response: Any, order: int, weight: float) -> Any:
    """Build DIPY's model."""
    from dipy.reconst.csdeconv import AxSymShResponse, ConstrainedSphericalDeconvModel

    if not isinstance(response, AxSymShResponse):
        evals, unweighted = np.asarray(response[0], float), float(response[1])
        if evals.shape != (3,) or not (np.isfinite(evals).all() and evals.min() > 0 and 0 < unweighted < np.inf):
            raise InputError(f"the response is {response}: give three eigenvalues in mm2/s and S0, all positive")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)  # DIPY's, at each use of a legacy basis
        options: dict[str, Any] = {"sh_order_max": order, "lambda_": weight, "convergence": MOST_SOLUTIONS}
        return ConstrainedSphericalDeconvModel(gtab, response, **options)


def _deconvolution(model: Any, order: int) -> Deconvolution:
    """Lay DIPY's model out for the kernel."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    from .cholesky import Deconvolution

    try:
        normal = _regular(csd_normal(model))
        unconstrained = cho_solve(cho_factor(normal), csd_design(model).T)
    except LinAlgError as error:
        raise InputError(f"the gradients do not determine coefficients of order {order}: lower the order") from error
    return Deconvolution(csd_design(model), model.B_reg, normal, unconstrained, model.tau, model.convergence)


def _regular(normal: Array) -> Array:
    """Return X'X (n, n), with DIPY's small ridge if it has no Cholesky factor otherwise."""
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
        raise InputError("all volumes are b0s: give a diffusion-weighted series")
