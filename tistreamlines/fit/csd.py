"""Constrained spherical deconvolution (CSD): the fibre orientation distributions of DIPY, fitted on all cores or a GPU.

The equations are those of DIPY's model. A kernel (:mod:`.csd_kernels`) replaces DIPY's ``csdeconv``, since it takes
9 s for 226,024 voxels on two cores, where DIPY takes 57 s (``cpu-two-cores-csd.json``). It runs on GPUs too. The
results are bit-identical on every device, for every number of threads.

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
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..aliases import Array, GradientTable
from ..devices import CPU, choose_wide
from ..errors import InputError
from ..space.harmonics import order_of
from .csd_batches import ENDS, Batches, lower
from .csd_system import DIPYS_WEIGHT, MOST_SOLUTIONS, Response, System
from .series import batches_of, check_series

__all__ = ["fit_csd"]


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
    arch: str = CPU,
) -> npt.NDArray[np.float32]:
    """Fit fibre orientation distributions, as DIPY's ``ConstrainedSphericalDeconvModel``.

    Parameters
    ----------
    data : (x, y, z, n)
        Signals of one shell, which are taken as float32; b0s are ignored.
    gtab : dipy.core.gradients.GradientTable
        Gradients of the n volumes.
    mask : (x, y, z) bool
        Voxels to fit.
    response : (evals, S0), ZonalResponse or AxSymShResponse
        One of those of :mod:`.response`, or DIPY's.
    order : int
        Maximum order of the spherical harmonics, even.
    threads : int, optional
        Number of threads; by default all available cores. The result does not depend on it.
    progress : callable, optional
        Called from this thread with the fraction of finished voxels, 0 to 1.
    weight : float
        Weight of the constraint that distributions are not negative, DIPY's ``lambda_``.
    arch : str
        Where to compute: 'cpu', 'cuda', 'vulkan' or 'auto'. The bits of the result are the same. A device without reals
        of 64 bits, such as Metal's, leaves the fit to the CPU.

    Returns
    -------
    (x, y, z, (order + 1) (order + 2) / 2) float32
        Coefficients in DIPY's default basis (descoteaux07, legacy), 0 outside the mask; computed in float64. As in
        DIPY, a NaN signal makes its voxel NaN.

    Raises
    ------
    InputError
        If the arrays do not match, the order or the response is invalid, or there are too few directions for the order.
    DeviceError
        If the device cannot compute this.

    Warns
    -----
    UserWarning
        If voxels did not converge, or if the device leaves the fit to the CPU.
    """
    check_series(data, gtab, mask)
    return fit_system(data, gtab, mask, System.of(gtab, response, order, weight), threads, progress, arch)


def fit_system(
    data: Array, gtab: GradientTable, mask: npt.NDArray[np.bool_], system: System, threads: int | None = None,
    progress: Callable[[float], object] = lambda _: None, arch: str = CPU,
) -> npt.NDArray[np.float32]:
    """Do what :func:`fit_csd` does with equations that are known."""
    solved = deconvolve_series(data, gtab, mask, system, threads, progress, arch)
    order = order_of(system.design.shape[1])
    count = np.count_nonzero(mask)
    if solved.singular:
        raise InputError(
            f"{solved.singular} of {count} voxels have no solution of order {order} with "
            f"{np.count_nonzero(~gtab.b0s_mask)} diffusion-weighted volumes: {lower(order)}"
        )
    if solved.unfinished:
        what = f"{solved.unfinished} of {count} voxels did not converge in {MOST_SOLUTIONS} iterations"
        warnings.warn(what, stacklevel=3)
    return solved.coefficients


def deconvolve_series(
    data: Array, gtab: GradientTable, mask: npt.NDArray[np.bool_], system: System, threads: int | None = None,
    progress: Callable[[float], object] = lambda _: None, arch: str = CPU,
) -> Deconvolution:
    """Do what :func:`fit_system` does, and leave its failures to the caller."""
    n = system.design.shape[1]
    out, ends = np.zeros((mask.size, n), np.float32), np.zeros(ENDS, np.int64)
    volumes = np.flatnonzero(~np.asarray(gtab.b0s_mask))
    batches = Batches(choose_wide(arch, "csd"), system, int(mask.sum()), MOST_SOLUTIONS, threads)
    for rows, signals in batches_of(data, mask, volumes, batches.voxels, threads, progress):
        out[rows], ended = batches.fit(signals)
        ends += ended
    _, unfinished, singular = ends.tolist()
    return Deconvolution(out.reshape(*mask.shape, n), system, unfinished, singular)
