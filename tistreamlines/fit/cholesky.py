"""Constrained spherical deconvolution by Numba: a voxel's normal equations, solved again for each set of directions.

A matrix is a flat array of rows that are whole chunks of 32, so that all long sums run over lanes
(:mod:`tistreamlines.backends.numba.simd`).  The order of every addition is written down and none is fused with a
product: the same tables give the same bits, whatever the CPU's vectors and the number of threads.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..backends.numba.cache import load_source
from ..sphere.sphere import padded

_kernels = load_source(Path(__file__).with_name("cholesky_kernels.py"))


def _table(values: npt.NDArray[Any], rows: int, width: int) -> npt.NDArray[np.float64]:
    """A matrix in the corner of one of zeros, flat."""
    out = np.zeros((rows, width))
    out[: values.shape[0], : values.shape[1]] = values
    return out.ravel()


class Deconvolution:
    """One model, laid out for the kernel.

    Parameters
    ----------
    design : (signals, n) float64, X: from coefficients to signals.
    positivity : (directions, n) float64, B: from coefficients to weighted amplitudes.
    normal : (n, n) float64, positive definite, P: X'X and what makes it regular.
    unconstrained : (n, signals) float64: from signals to the coefficients that solve P f = X's.
    tau : an amplitude is small under ``tau`` times the first one's part of degree 0.
    convergence : most solutions of a voxel.
    """

    def __init__(
        self, design: npt.NDArray[Any], positivity: npt.NDArray[Any], normal: npt.NDArray[Any],
        unconstrained: npt.NDArray[Any], tau: float, convergence: int,
    ) -> None:  # fmt: skip
        signals, self.coefficients = design.shape
        n, width = self.coefficients, padded(self.coefficients + 1)  # a column more, for the right-hand side
        self._tables = (
            _table(design, signals, width), _table(unconstrained.T, signals, width), _table(normal, n + n % 2, width),
            _table(positivity, len(positivity), width), _table(positivity.T, n, padded(len(positivity))),
        )  # fmt: skip
        self._rule = float(tau), int(convergence)

    def fit(self, signals: npt.NDArray[Any]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """Deconvolve voxels (m, signals); without the GIL.

        Returns
        -------
        coefficients : (m, n) float64.
        failures : (2,) int64, voxels whose set of small amplitudes still changed at the last solution, and voxels whose
            matrix had no Cholesky factor.
        """
        out = np.empty((len(signals), self.coefficients))
        ends = _kernels.deconvolve(np.ascontiguousarray(signals, np.float64), *self._tables, *self._rule, out)
        return out, ends[[_kernels.UNFINISHED, _kernels.SINGULAR]]
