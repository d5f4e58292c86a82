"""FODs of a series: csd's, of white matter alone, or msmt's, of several tissues."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ..aliases import Array
from ..devices import CPU
from ..io.nifti import Dwi
from ..space.harmonics import degrees, from_descoteaux, order_of, sampling_matrix
from .fod_fit import FodFit, residuals
from .model_fits import fit_fibres
from .models import BASIS as FITTED_BASIS
from .models import FitOptions
from .shells import b_value, on_shell, shell_of_models
from .tissues import BASIS


def csd_fods(
    dwi: Dwi, mask: npt.NDArray[np.bool_], options: FitOptions, threads: int | None = None,
    progress: Callable[[float], object] = lambda _: None, arch: str = CPU,
) -> FodFit:
    """Fit CSD to the shell that serves it best.

    Parameters
    ----------
    dwi : Dwi
        The series.
    mask : (x, y, z) bool
        Voxels to fit.
    options : FitOptions
        Options of the models, with the order of the harmonics.
    threads : int, optional
        Number of CPU threads; None is one per core.
    progress : callable, optional
        Receives the share of fitted voxels, 0 to 1.
    arch : str
        Where voxels are fitted.

    Returns
    -------
    FodFit

    Raises
    ------
    InputError
        If the series does not determine the FODs.
    """
    data, gtab = on_shell(dwi.data, dwi.gtab, shell_of_models)
    fit, weighted = fit_fibres(data, gtab, mask, options, threads, progress, arch), ~np.asarray(gtab.b0s_mask)
    signals, design, voxels = data[..., weighted], fit.system.design, fit.voxels
    return FodFit(
        {"wm": from_descoteaux(fit.coefficients, BASIS).astype(np.float32)},
        {"wm": zonal_response(design, gtab.bvecs[weighted])[None]},
        [b_value(gtab, weighted)], mask, mask & ~signals.any(axis=-1),
        residuals(signals, design, fit.coefficients, mask, threads), fit.chosen,
        {} if voxels is None else {"wm": voxels},
    )


def zonal_response(design: Array, directions: Array) -> npt.NDArray[np.float64]:
    """Return the zonal coefficients (degrees,) of the response that a design (n, k) in DIPY's basis convolves with."""
    order = order_of(design.shape[1])
    harmonics, (l_values, m) = sampling_matrix(directions, order, FITTED_BASIS), degrees(order)
    zonal = np.flatnonzero(m == 0)
    factors = (design * harmonics)[:, zonal].sum(axis=0) / (harmonics[:, zonal] ** 2).sum(axis=0)
    return factors * np.sqrt((2 * l_values[zonal] + 1) / (4 * np.pi))
