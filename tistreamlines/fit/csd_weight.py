"""The weight of CSD's constraint that fibre orientation distributions are not negative, chosen from the data.

A high weight smooths the distributions: where fibres cross at small angles, one broad lobe takes the place of two. A
low one lets the noise through. On phantoms whose bundles are known (``benchmarks/quality.py``), most streamlines are
valid about the least weight whose generalised cross-validation (GCV) lies within 5 % of the best: there GCV is nearly
flat, and lobes that stand apart serve tractography more than the last per cent of the fit.

References
----------
Golub, Heath, Wahba. Generalized cross-validation as a method for choosing a good ridge parameter. Technometrics 21,
1979.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .csd import DIPYS_WEIGHT, Deconvolved, System, deconvolved
from .tensor import anisotropy
from .threads import in_threads, single_blas

if TYPE_CHECKING:
    from dipy.core.gradients import GradientTable

Array = npt.NDArray[Any]
HALVINGS = 6  # of DIPY's weight, at most
TOLERANCE = 0.05  # of GCV above the least
LOOKED_AT, SAMPLE = 4096, 512  # voxels, of which the FA is fitted, and that are deconvolved with each weight
WHITE_FA = 0.2
BLOCK, FEW = 32, 512  # voxels whose traces, and whose FA, are computed at a time


def chosen_weight(
    data: Array, gtab: GradientTable, mask: npt.NDArray[np.bool_], response: Any, order: int = 8,
    threads: int | None = None,
) -> float:  # fmt: skip
    """Choose the weight of CSD's constraint by generalised cross-validation in some hundred voxels of white matter.

    Parameters
    ----------
    data : (x, y, z, n)
        Signals of one shell; b0s are ignored.
    gtab : dipy.core.gradients.GradientTable
        Gradients of the n volumes.
    mask : (x, y, z) bool
        Voxels that will be fitted.
    response : (evals, S0) or AxSymShResponse
        One of those of :mod:`.response`, or DIPY's.
    order : int
        Maximum order of the spherical harmonics, even.
    threads : int, optional
        Number of threads; by default all available cores.

    Returns
    -------
    float
        1, which is DIPY's, or the half, a quarter and so on, to 1/64.
    """
    with single_blas():
        sample = _sample(data, gtab, mask, threads)
        return _least_of_the_good(sample, gtab, response, order, threads) if len(sample) else DIPYS_WEIGHT


def _least_of_the_good(sample: Array, gtab: GradientTable, response: Any, order: int, threads: int | None) -> float:
    """Return the least weight whose score lies within TOLERANCE of the best.

    Where the score is as good down to the least weight of all, it does not tell noise from fibres, as with a response
    that hardly depends on the direction. Then the greatest weight is returned whose score lies within TOLERANCE.
    """
    everywhere = np.ones(sample.shape[:3], bool)
    system = System.of(gtab, response, order, DIPYS_WEIGHT)
    scores: dict[float, float] = {}
    for weight in map(float, DIPYS_WEIGHT * 0.5 ** np.arange(HALVINGS + 1)):
        found = deconvolved(sample, gtab, everywhere, system.weighted(weight), threads)
        if found.singular:
            return min(scores, default=DIPYS_WEIGHT)
        score = _cross_validation(sample[:, 0, 0][:, ~np.asarray(gtab.b0s_mask)], found, threads)
        if score > (1 + TOLERANCE) * min(scores.values(), default=np.inf):
            return min(scores)
        scores[weight] = score
    return next(weight for weight, score in scores.items() if score <= (1 + TOLERANCE) * min(scores.values()))


def _sample(data: Array, gtab: GradientTable, mask: Array, threads: int | None) -> Array:
    """Return the signals (m, 1, 1, n) of voxels with the FA of white matter, or of any, from all parts of the mask."""
    voxels = _spaced(np.argwhere(mask), LOOKED_AT)
    signals = data[tuple(voxels.T)][:, None, None]
    signals = signals[np.isfinite(signals).all(axis=(1, 2, 3))]
    white = anisotropy(signals, gtab, np.ones(signals.shape[:3], bool), threads, FEW) > WHITE_FA
    return _spaced(signals[white] if white.sum() > SAMPLE // 8 else signals, SAMPLE)


def _spaced(rows: Array, most: int) -> Array:
    """Return at most so many rows, evenly spaced."""
    return rows[np.linspace(0, len(rows) - 1, min(most, len(rows))).astype(np.int64)]


def _cross_validation(signals: Array, found: Deconvolved, threads: int | None) -> float:
    """Return the geometric mean over voxels of n RSS / (n - tr H)^2, where H maps signals to fitted ones.

    The constraint is a sum of squares over the amplitudes that are too small, so H is linear for those of the solution.
    """
    system, solved = found.system, found.coefficients.reshape(len(signals), -1).astype(np.float64)
    design, gram, positivity = system.design, system.normal, system.positivity
    residual = ((signals - solved @ design.T) ** 2).sum(axis=1)
    small = solved @ positivity.T < system.tau * positivity[0, 0] * solved[:, :1]
    ridge = np.eye(len(gram)) * np.trace(gram) * 1e-12

    def traces(first: int) -> Array:
        rows = small[first : first + BLOCK, :, None] * positivity
        normal = gram + ridge + rows.transpose(0, 2, 1) @ rows
        return np.trace(np.linalg.solve(normal, np.broadcast_to(gram, normal.shape)), axis1=1, axis2=2)

    free = len(design) - np.concatenate([*in_threads(traces, range(0, len(signals), BLOCK), threads)])
    scores = len(design) * residual / np.maximum(free, 1e-3) ** 2
    return float(np.exp(np.log(np.maximum(scores, 1e-30)).mean()))
