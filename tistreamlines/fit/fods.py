"""FODs of a series: csd's, of white matter alone, or msmt's, of several tissues."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt

from ..aliases import Array
from ..io.nifti import Dwi
from ..space.harmonics import degrees, from_descoteaux, order_of, sampling_matrix
from .csd import System
from .fits import Fits
from .fod_fit import FodFit, residuals
from .models import BASIS as FITTED_BASIS
from .models import FitOptions
from .response import response_of
from .shells import b_value, on_shell, shell_of_models
from .tissues import BASIS


def csd_fods(dwi: Dwi, fits: Fits, options: FitOptions, threads: int | None = None) -> FodFit:
    """Fit CSD to the shell that serves it best.

    Parameters
    ----------
    dwi : Dwi
        The series.
    fits : Fits
        Its fits.
    options : FitOptions
        Options of the models, with the order of the harmonics.
    threads : int, optional
        Number of CPU threads; None is one per core.

    Returns
    -------
    FodFit

    Raises
    ------
    InputError
        If the series does not determine the FODs.
    """
    coefficients, mask = fits.coefficients("csd", options), fits.mask
    data, gtab = on_shell(dwi.data, dwi.gtab, shell_of_models)
    response, weighted = response_of(fits.chosen["response"]), ~np.asarray(gtab.b0s_mask)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # DIPY's, of few directions; the fit has its own
        system = System.of(gtab, response, options.sh_order, fits.chosen["csd_lambda"])
    signals = data[..., weighted]
    return FodFit(
        {"wm": from_descoteaux(coefficients, BASIS).astype(np.float32)},
        {"wm": zonal_response(system.design, gtab.bvecs[weighted])[None]},
        [b_value(gtab, weighted)], mask, mask & ~signals.any(axis=-1),
        residuals(signals, system.design, coefficients, mask, threads), fits.chosen,
    )


def zonal_response(design: Array, directions: Array) -> npt.NDArray[np.float64]:
    """Return the zonal coefficients (degrees,) of the response that a design (n, k) in DIPY's basis convolves with."""
    order = order_of(design.shape[1])
    harmonics, (l_values, m) = sampling_matrix(directions, order, FITTED_BASIS), degrees(order)
    zonal = np.flatnonzero(m == 0)
    factors = (design * harmonics)[:, zonal].sum(axis=0) / (harmonics[:, zonal] ** 2).sum(axis=0)
    return factors * np.sqrt((2 * l_values[zonal] + 1) / (4 * np.pi))
