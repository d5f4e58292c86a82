"""The weight of CSD's constraint that fibre orientation distributions are not negative, chosen from the data.

A high weight smooths the distributions: where fibres cross at small angles, one broad lobe takes the place of two. A
low one lets the noise through. On phantoms whose bundles are known (``benchmarks/quality.py``), most streamlines are
valid about the least weight whose generalised cross-validation (GCV) lies within 5 % of the best: there GCV is nearly
flat, and lobes that stand apart serve tractography more than the last per cent of the fit.

GCV may be flat down to weights with which the distributions are noise, as in the FiberCup, where the signal of a fibre
hardly depends on the direction. The residual bootstrap tells: the residuals of the fit change places, and the series
that they make is fitted again. If the distributions are then others, the weight is the one with which they stay most
alike.

References
----------
Berman, Chung, Mukherjee, Hess, Han, Henry. Probabilistic streamline q-ball tractography using the residual bootstrap.
NeuroImage 39, 2008.
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
ALIKE = 0.75  # of the likeness with DIPY's weight, below which distributions are noise
LOOKED_AT, SAMPLE = 4096, 256  # voxels, of which the FA is fitted, and that are deconvolved with each weight
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
        if not len(sample):
            return DIPYS_WEIGHT
        trial = Trial(sample, gtab, System.of(gtab, response, order, DIPYS_WEIGHT), threads)
        good = _good_weights(trial)
        if len(good) == 1 or trial.likeness(min(good)) >= ALIKE * trial.likeness(max(good)):
            return min(good)
        return max(good, key=trial.likeness)


def _good_weights(trial: Trial) -> list[float]:
    """Return the weights from DIPY's down to the last whose score lies within TOLERANCE of the best."""
    scores: dict[float, float] = {}
    for weight in map(float, DIPYS_WEIGHT * 0.5 ** np.arange(HALVINGS + 1)):
        score = trial.cross_validation(weight)
        if not score <= (1 + TOLERANCE) * min(scores.values(), default=np.inf):  # NaN without a solution
            break
        scores[weight] = score
    return list(scores) or [DIPYS_WEIGHT]


class Trial:
    """Signals (m, 1, 1, n) that are deconvolved with different weights.

    Parameters
    ----------
    signals : (m, 1, 1, n) float32
    gtab : dipy.core.gradients.GradientTable
    system : System
        The equations with DIPY's weight.
    threads : int or None
        Number of threads; None is all available cores.
    """

    def __init__(self, signals: Array, gtab: GradientTable, system: System, threads: int | None) -> None:
        self._gtab, self._system, self._threads = gtab, system, threads
        self._everywhere, self._weighted = np.ones(signals.shape[:3], bool), ~np.asarray(gtab.b0s_mask)
        self._whole, self._signals = signals, signals[:, 0, 0][:, self._weighted]
        self._found: dict[float, Deconvolved] = {}

    def fitted(self, weight: float) -> Deconvolved:
        """Return the functions of all voxels."""
        if weight not in self._found:
            self._found[weight] = self._deconvolved(self._whole, weight)
        return self._found[weight]

    def cross_validation(self, weight: float) -> float:
        """Return the geometric mean over voxels of n RSS / (n - tr H)^2, where H maps signals to fitted ones.

        The constraint is a sum of squares over the amplitudes that are too small, so H is linear for those of the
        solution. NaN if a voxel has no solution.
        """
        found = self.fitted(weight)
        if found.singular:
            return np.nan
        return _cross_validation(self._signals, found, self._threads)

    def likeness(self, weight: float) -> float:
        """Return the mean cosine between the functions and those after the residuals of DIPY's weight change places.

        The mean of a function does not count. A lower weight follows the noise, so that less of it is left.
        """
        functions, predicted = self._predicted(weight)
        residuals = self._signals - self._predicted(DIPYS_WEIGHT)[1]
        residuals -= residuals.mean(axis=1, keepdims=True)
        others = np.zeros_like(self._whole)
        others[:, 0, 0, self._weighted] = predicted + np.random.default_rng(0).permuted(residuals, axis=1)
        again = _rows(self._deconvolved(others, weight))
        one, two = functions[:, 1:], again[:, 1:]
        lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(two, axis=1)
        return float(((one * two).sum(axis=1) / np.maximum(lengths, np.finfo(np.float64).tiny)).mean())

    def _predicted(self, weight: float) -> tuple[Array, Array]:
        """Return the coefficients (m, k) and the signals (m, n) that they predict."""
        functions = _rows(self.fitted(weight))
        return functions, functions @ self._system.design.T

    def _deconvolved(self, signals: Array, weight: float) -> Deconvolved:
        return deconvolved(signals, self._gtab, self._everywhere, self._system.weighted(weight), self._threads)


def _rows(found: Deconvolved) -> Array:
    """Return the coefficients (m, k) float64."""
    return found.coefficients.reshape(-1, found.coefficients.shape[-1]).astype(np.float64)


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
    """Do what :meth:`Trial.cross_validation` does, from signals (m, n) and what they were fitted with."""
    system, solved = found.system, _rows(found)
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
