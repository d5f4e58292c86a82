"""Constrained spherical deconvolution (CSD): the fibre orientation distributions of DIPY, fitted on all cores.

DIPY builds the model. A kernel compiled by Numba (``cholesky_kernels.py``) replaces DIPY's ``csdeconv``, since it takes
5.4 s for 226,024 voxels on two cores, where DIPY takes 44 s (``cpu-two-cores-csd.json``). It solves the normal
equations of each voxel again for each set of constrained directions. Matrices are flat arrays whose rows are padded to
multiples of 32, so that all long sums use vector instructions. The order of additions is fixed, and no addition is
fused with a product, so the results are bit-identical for every CPU and number of threads.

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
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from ..aliases import Array, AxSymShResponse, GradientTable, Json
from ..devices import usable_cores
from ..errors import InputError
from ..space.harmonics import order_of
from ..space.sphere import round_up
from .dipy_private import csd_design, csd_normal

if TYPE_CHECKING:
    from dipy.reconst.csdeconv import ConstrainedSphericalDeconvModel

    from ..backends.numba.cache import Function

Response: TypeAlias = "tuple[Array, float] | AxSymShResponse"
POLL = 0.1  # s between two reports of progress
MOST_SOLUTIONS = 50  # DIPY's default
DIPYS_WEIGHT = 1.0  # its lambda_
RIDGE = 1e-5  # DIPY's mu, added to the diagonal if the directions do not determine the coefficients
ENDS = 3  # ways in which the kernel ends: converged, unfinished, singular
BEYOND = 31  # elements that it reads after the last row of a symmetric matrix

__all__ = ["fit_csd"]


@dataclass(frozen=True, eq=False)
class System:
    """The equations of DIPY's model: signals = design coefficients, and the constraint of small amplitudes.

    Attributes
    ----------
    design : (signals, n) float64
    normal : (n, n) float64, design' design.
    positivity : (directions, n) float64
        Maps coefficients to amplitudes times the weight, in DIPY's units.
    tau : amplitudes below ``tau`` times the mean are constrained.
    weight : DIPY's ``lambda_``.
    """

    design: Array
    normal: Array
    positivity: Array
    tau: float
    weight: float

    @classmethod
    def of(cls, gtab: GradientTable, response: Response, order: int, weight: float) -> System:
        """Return the equations of DIPY's model."""
        if order < 2 or order % 2:
            raise InputError(f"order is {order}: give an even number of at least 2, e.g. 8")
        model = _dipys_model(gtab, response, order, weight)
        return cls(csd_design(model), csd_normal(model), np.asarray(model.B_reg), model.tau, weight)

    def with_weight(self, weight: float) -> System:
        """Return the equations with another weight: only the rows of the constraint change."""
        return replace(self, positivity=self.positivity * (weight / self.weight), weight=weight)


@dataclass(frozen=True, eq=False)
class Deconvolution:
    """Coefficients (x, y, z, n), the equations, and the numbers of voxels not converged and without a solution."""

    coefficients: npt.NDArray[np.float32]
    system: System
    unfinished: int
    singular: int


def fit_csd(
    data: Array,
    gtab: GradientTable,
    mask: npt.NDArray[np.bool_],
    response: Response,
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
        One of those of :mod:`.response`, or DIPY's.
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
    check_series(data, gtab, mask)
    return fit_system(data, gtab, mask, System.of(gtab, response, order, weight), threads, progress)


def fit_system(
    data: Array, gtab: GradientTable, mask: npt.NDArray[np.bool_], system: System, threads: int | None = None,
    progress: Callable[[float], object] = lambda _: None,
) -> npt.NDArray[np.float32]:
    """Do what :func:`fit_csd` does with equations that are known."""
    solved, order = deconvolve_series(data, gtab, mask, system, threads, progress), order_of(system.design.shape[1])
    count = np.count_nonzero(mask)
    if solved.singular:
        raise InputError(
            f"{solved.singular} of {count} voxels have no solution of order {order} with "
            f"{np.count_nonzero(~gtab.b0s_mask)} diffusion-weighted volumes: {_lower(order)}"
        )
    if solved.unfinished:
        what = f"{solved.unfinished} of {count} voxels did not converge in {MOST_SOLUTIONS} iterations"
        warnings.warn(what, stacklevel=3)
    return solved.coefficients


def deconvolve_series(
    data: Array, gtab: GradientTable, mask: npt.NDArray[np.bool_], system: System, threads: int | None = None,
    progress: Callable[[float], object] = lambda _: None,
) -> Deconvolution:
    """Do what :func:`fit_system` does, and leave its failures to the caller."""
    tables, kernel = _tables(system), _kernel()
    out = np.zeros((*mask.shape, system.design.shape[1]), np.float32)
    voxels, volumes = np.flatnonzero(mask), np.flatnonzero(~np.asarray(gtab.b0s_mask))
    rows, flat = np.ascontiguousarray(data).reshape(mask.size, -1), out.reshape(mask.size, -1)
    parts = min(threads or usable_cores(), len(voxels))
    ends, finished, stop = np.zeros((parts, ENDS), np.int64), np.zeros((parts, 1), np.int64), np.zeros(1, np.int64)

    def fit_part(part: int) -> None:
        """Fit every so many voxels in one call, because a thread waits for Python's lock between two calls."""
        state = ends[part], finished[part], stop
        rule = float(system.tau), MOST_SOLUTIONS
        kernel(rows, voxels[part::parts].copy(), volumes, tables, *rule, _memory(system), state, flat)

    with ThreadPoolExecutor(max(parts, 1)) as pool:
        try:
            tasks = [pool.submit(fit_part, part) for part in range(parts)]
            while wait(tasks, POLL).not_done:
                progress(finished.sum() / len(voxels))
        finally:
            stop[:] = 1
    for task in tasks:
        task.result()
    progress(1.0)
    _, unfinished, singular = ends.sum(axis=0).tolist()
    return Deconvolution(out, system, unfinished, singular)


@cache
def _kernel() -> Function:
    from ..backends.numba.cache import Function, text_of

    return Function(text_of(Path(__file__).with_name("cholesky_kernels.py")), "deconvolve")


def _dipys_model(
    gtab: GradientTable, response: Response, order: int, weight: float
) -> ConstrainedSphericalDeconvModel:
    """Build DIPY's model."""
    from dipy.reconst.csdeconv import AxSymShResponse, ConstrainedSphericalDeconvModel

    if not isinstance(response, AxSymShResponse):
        evals, unweighted = np.asarray(response[0], float), float(response[1])
        if evals.shape != (3,) or not (np.isfinite(evals).all() and evals.min() > 0 and 0 < unweighted < np.inf):
            raise InputError(f"the response is {response}: give three eigenvalues in mm2/s and S0, all positive")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)  # DIPY's, at each use of a legacy basis
        options: Json = {"sh_order_max": order, "lambda_": weight, "convergence": MOST_SOLUTIONS}
        return ConstrainedSphericalDeconvModel(gtab, response, **options)


def _tables(system: System) -> tuple[npt.NDArray[np.float64], ...]:
    """Lay the equations out for the kernel: the fields of its ``Tables``."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    (signals, n), directions = system.design.shape, len(system.positivity)
    try:
        normal = _regular(system.normal)
        unconstrained = cho_solve(cho_factor(normal), system.design.T)  # from signals to coefficients
    except LinAlgError as error:
        order = order_of(n)
        raise InputError(f"the gradients do not determine coefficients of order {order}: {_lower(order)}") from error
    width = round_up(n + 1)  # one more column for the right-hand side
    return (
        _table(system.design, signals, width), _table(unconstrained.T, signals, width),
        _table(normal, round_up(n, 4), width, BEYOND), _table(system.positivity, directions, width, BEYOND),
        _table(system.positivity.T, n, round_up(directions)),
    )


def _table(values: Array, rows: int, width: int, extra: int = 0) -> npt.NDArray[np.float64]:
    """Pad a matrix with zeros to (rows, width), flatten it, and append more zeros."""
    out = np.zeros(rows * width + extra)
    out[: rows * width].reshape(rows, width)[: values.shape[0], : values.shape[1]] = values
    return out


def _memory(system: System) -> tuple[Array, ...]:
    """Return the arrays that the kernel works in: the fields of its ``Work``."""
    (signals, n), directions = system.design.shape, len(system.positivity)
    width = round_up(n + 1)
    kinds = [(round_up(n, 4) * width + BEYOND, float)] * 2 + [(directions, np.int32)] + [(directions, np.int64)] * 2
    kinds += [(size, float) for size in (width, width, round_up(directions), n, signals)]
    return tuple(np.zeros(size, kind) for size, kind in kinds)


def _lower(order: int) -> str:
    return "lower the order (--sh-order)" if order > 2 else "give a series of more directions"


def _regular(normal: Array) -> Array:
    """Return X'X (n, n), with DIPY's small ridge if it has no Cholesky factor otherwise."""
    from scipy.linalg import get_lapack_funcs

    (factorise,) = get_lapack_funcs(("potrf",), (normal,))
    _, info = factorise(normal, lower=False, clean=False)
    return normal + RIDGE * np.eye(len(normal)) if info > 0 else normal


def check_series(data: Array, gtab: GradientTable, mask: Array | None = None) -> None:
    """Check that data, gradients and mask belong together, and that volumes are diffusion-weighted."""
    if data.ndim != 4 or data.shape[3] != len(gtab.bvals):
        raise InputError(f"data is {data.shape}, the gradient table has {len(gtab.bvals)} volumes: give one series")
    if mask is not None and (mask.shape != data.shape[:3] or mask.dtype != bool):
        raise InputError(f"mask is {mask.shape} {mask.dtype}, data {data.shape}: give a bool for each voxel")
    if np.asarray(gtab.b0s_mask).all():
        raise InputError("all volumes are b0s: give a diffusion-weighted series")
