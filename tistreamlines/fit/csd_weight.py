"""The weight of CSD's constraint that fibre orientation distributions are not negative, chosen from the data.

A high weight smooths the distributions: where fibres cross at small angles, one broad lobe takes the place of two. A
low one lets the noise through. The weights 1, which is DIPY's, 1/2, 1/4 and 1/8 are tried on some hundred voxels of
white matter. Their geometric mean is taken, in which each counts as ``GCV^(-1 / WIDTH)`` by its generalised
cross-validation, the error with which the signal is predicted. A small change of the data changes the mean by little,
where the best weight alone would jump. Lobes that stand apart serve tractography more than the last per cent of the
fit, so the weight is SHARPER halvings below the mean.

Where the signal of a fibre hardly depends on the direction, as in the FiberCup, GCV does not tell fibres from noise. So
the chosen weight goes over to DIPY's as the FA of the response falls from 0.4 to 0.2.

The order of the voxels and of the axes does not matter: which voxels are tried follows from their signals, and the axes
are turned as the gradients tell. ``SHARPER`` and ``WIDTH`` were chosen on phantoms whose bundles are known
(``docs/truth.md``).

References
----------
Golub, Heath, Wahba. Generalized cross-validation as a method for choosing a good ridge parameter. Technometrics 21,
1979.
Efraimidis, Spirakis. Weighted random sampling with a reservoir. Information Processing Letters 97, 2006.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations, product

import numpy as np
import numpy.typing as npt

from ..aliases import Array, GradientTable
from ..devices.threads import in_threads, single_blas
from ..space.encoding import with_directions
from .csd import DIPYS_WEIGHT, Deconvolution, Response, System, deconvolve_series
from .response import response_fa
from .tensor import anisotropy

HALVINGS = 3  # of DIPY's weight, that are tried
WIDTH = 0.04  # by which the logarithm of GCV must be higher for a weight to count e times less
SHARPER = 1.2  # halvings
FLAT = (0.2, 0.4)  # FA of the response up to which the weight is DIPY's, and from which the chosen one
DIGITS = 3  # of the weight; more would be rounding errors of the order in which voxels are stored
LOOKED_AT, SAMPLE = 4096, 256  # voxels, of which the FA is fitted, and that are deconvolved with each weight
WHITE_FA, RARITY = 0.2, 6  # a voxel of less FA is drawn as often as (FA / WHITE_FA)^RARITY tells
BLOCK, MANY = 32, 1 << 14  # voxels whose traces and numbers are computed at a time
NO_SIGNAL, LOW_BITS = (1 << 64) - 1, (1 << 32) - 1
TINY = 1e-30


def choose_weight(
    data: Array, gtab: GradientTable, mask: npt.NDArray[np.bool_], response: Response, order: int = 8,
    threads: int | None = None, equations: Callable[[GradientTable], System] | None = None, sharper: float = SHARPER,
) -> float:
    """Choose the weight of CSD's constraint from some hundred voxels of white matter.

    Parameters
    ----------
    data : (x, y, z, n)
        Signals of one shell, or of those that the equations have; b0s are ignored.
    gtab : dipy.core.gradients.GradientTable
        Gradients of the n volumes.
    mask : (x, y, z) bool
        Voxels that will be fitted.
    response : (evals, S0), ZonalResponse or AxSymShResponse
        One of those of :mod:`.response`, or DIPY's.
    order : int
        Maximum order of the spherical harmonics, even.
    threads : int, optional
        Number of threads; by default all available cores. The result does not depend on it.
    equations : callable, optional
        Returns the equations with DIPY's weight for gradients; by default those of the shell and the response.
    sharper : float
        Halvings of the weight below the mean.

    Returns
    -------
    float
        1, which is DIPY's, where a fibre's signal hardly depends on the direction, else 1/2 to 1/18.
    """
    with single_blas():
        signals = _sample(data, gtab, mask, threads)
        if not len(signals):
            return DIPYS_WEIGHT
        share = float(np.interp(response_fa(response, signals[:, np.asarray(gtab.b0s_mask)]), FLAT, (0, 1)))
        if not share:
            return DIPYS_WEIGHT
        turned = _turn_gradients(gtab)
        system = System.of(turned, response, order, DIPYS_WEIGHT) if equations is None else equations(turned)
        trial = Trial(signals, turned, system, threads)
        mean = mean_halvings(np.array([trial.cross_validation(number) for number in range(HALVINGS + 1)]))
        for further in (sharper, 0.0):
            if not trial.fit(halvings := share * (mean + further)).singular:
                return float(f"{DIPYS_WEIGHT * 0.5**halvings:.{DIGITS}g}")
        return DIPYS_WEIGHT


def mean_halvings(errors: npt.NDArray[np.float64]) -> float:
    """Return how often DIPY's weight is halved, from the logarithm of GCV for each number of times (k,)."""
    if not np.isfinite(errors).any():
        return 0.0
    return float(np.average(np.arange(len(errors)), weights=np.exp((errors.min() - errors) / WIDTH)))


class Trial:
    """Signals (m, n) that are deconvolved with different weights.

    Parameters
    ----------
    signals : (m, n) float32
    gtab : dipy.core.gradients.GradientTable
    system : System
        With DIPY's weight.
    threads : int or None
        Number of threads; None is all available cores.
    """

    def __init__(self, signals: Array, gtab: GradientTable, system: System, threads: int | None) -> None:
        self._signals, self._gtab, self._system, self._threads = signals, gtab, system, threads

    def fit(self, halvings: float) -> Deconvolution:
        """Return the functions (m, 1, 1, k) with DIPY's weight that is halved so often."""
        rows, system = self._signals[:, None, None], self._system.with_weight(DIPYS_WEIGHT * 0.5**halvings)
        return deconvolve_series(rows, self._gtab, np.ones(rows.shape[:3], bool), system, self._threads)

    def cross_validation(self, halvings: float) -> float:
        """Return the logarithm of the geometric mean over voxels of GCV, infinite if one has no solution."""
        fitted = self.fit(halvings)
        if fitted.singular:
            return np.inf
        return _cross_validation(self._signals[:, ~np.asarray(self._gtab.b0s_mask)], fitted, self._threads)


def _cross_validation(signals: Array, fitted: Deconvolution, threads: int | None) -> float:
    """Return the mean logarithm over voxels of n RSS / (n - tr H)^2, where H maps signals (m, n) to fitted ones.

    The constraint is a sum of squares over the amplitudes that are too small, so H is linear for those of the
    solution.
    """
    system, solved = fitted.system, fitted.coefficients[:, 0, 0].astype(np.float64)
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
    return float(np.log(np.maximum(scores, TINY)).mean())


def _sample(data: Array, gtab: GradientTable, mask: Array, threads: int | None) -> Array:
    """Return the signals (m, n) of voxels with the FA of white matter, or with the highest, from all parts of the mask.

    A voxel is drawn by the number that its signals make, and the rarer, the less FA it has: with a threshold, more
    voxels would come and go with small changes of the data.
    """
    rows, voxels = np.ascontiguousarray(data, np.float32).reshape(mask.size, -1), np.flatnonzero(mask)
    blocks = [voxels[first : first + MANY] for first in range(0, len(voxels), MANY)]
    drawn = [np.empty(0, np.uint64), *in_threads(lambda block: _numbers(rows[block]), blocks, threads)]
    numbers = np.concatenate(drawn)
    lowest = np.argpartition(numbers, LOOKED_AT)[:LOOKED_AT] if len(numbers) > LOOKED_AT else np.arange(len(numbers))
    looked_at = lowest[np.argsort(numbers[lowest], kind="stable")]
    looked_at = looked_at[numbers[looked_at] < NO_SIGNAL]
    signals, numbers = rows[voxels[looked_at]], numbers[looked_at] & np.uint64(LOW_BITS)
    inside = np.ones((len(signals), 1, 1), bool)
    share = np.minimum(anisotropy(signals[:, None, None], gtab, inside, threads) / WHITE_FA, 1) ** RARITY
    waits = -np.log((numbers + 0.5) / (LOW_BITS + 1)) / np.maximum(share, TINY)
    return signals[np.argsort(waits, kind="stable")[:SAMPLE]]


def _numbers(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.uint64]:
    """Return a number (m,) for each row (m, n) that looks random but follows from its values; the greatest for NaN."""
    factors = np.random.default_rng(0).integers(0, 1 << 63, (2, rows.shape[1]), np.uint64) * np.uint64(2) + np.uint64(1)
    numbers = (rows.view(np.uint32) * factors[0]).sum(axis=1, dtype=np.uint64)
    numbers ^= numbers >> np.uint64(32)  # the low bits of a sum of products follow from low bits alone
    numbers *= factors[1, 0]
    numbers ^= numbers >> np.uint64(32)
    return np.where(np.isfinite(rows).all(axis=1), numbers, np.uint64(NO_SIGNAL))


def _turn_gradients(gtab: GradientTable) -> GradientTable:
    """Turn the gradients about the axes so that they are the same however the axes of the image are stored.

    Harmonics and the directions of the constraint are not the same along all axes. Of the ways in which three axes can
    be exchanged and reversed, the one whose gradients are the first in the order of numbers is taken. A gradient and
    its opposite are the same.
    """

    def turned(way: tuple[tuple[int, ...], tuple[int, ...]]) -> Array:
        rows = gtab.bvecs[:, way[0]] * way[1]
        rounded = np.rint(rows * 1e6)  # rounding errors decide nothing
        first = np.take_along_axis(rounded, (rounded != 0).argmax(axis=1)[:, None], axis=1)
        return rows * np.where(first < 0, -1, 1)

    ways = product(permutations(range(3)), product((1, -1), repeat=3))
    first = min(map(turned, ways), key=lambda rows: np.rint(rows * 1e6).ravel().tolist())
    return with_directions(gtab, first)
