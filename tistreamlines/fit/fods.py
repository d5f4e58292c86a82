"""FODs of a series, with what they were fitted with: responses, the voxels of these, and what the fit leaves over."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..aliases import Array, Json
from ..devices.threads import in_threads
from ..io.nifti import Dwi
from ..space.harmonics import degrees, from_descoteaux, order_of, sampling_matrix
from .csd import System
from .fits import Fits
from .models import BASIS as FITTED_BASIS
from .models import FitOptions
from .response import response_of
from .shells import b_value, on_shell, shell_of_models

BASIS = "tournier07"  # of the coefficients
BLOCK = 1 << 13  # voxels whose residuals are computed at a time


@dataclass(frozen=True, eq=False)
class FodFit:
    """FODs and other tissues of a series; directions are along the axes of the gradients.

    Attributes
    ----------
    coefficients : mapping of str to (x, y, z, n) float32
        In ``BASIS``, of 'wm' and perhaps of 'gm' and 'csf', 0 outside the mask.
    responses : mapping of str to (shells, degrees) float64
        Zonal coefficients of even degrees, a row for each shell.
    shells : list of float, s/mm2
        b-values of these rows.
    mask, failed : (x, y, z) bool
        Voxels that are fitted, and those of them without a solution.
    residual : (x, y, z) float32
        Root of the mean squared difference between the signals and those of the fit.
    chosen : dict
        What was chosen from the data, for the record.
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
        warnings.simplefilter("ignore", UserWarning)  # DIPY's, of few directions, which the fit has told
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
