"""The solver of constrained spherical deconvolution, compiled by Numba (:mod:`.cholesky_kernels`).

It solves the normal equations of each voxel again for each set of constrained directions. Matrices are flat arrays
whose rows are padded to multiples of 32, so that all long sums use vector instructions
(:mod:`tistreamlines.backends.numba.memory`). The order of additions is fixed, no addition is fused with a product, so
the results are bit-identical for every CPU and number of threads.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..aliases import Array
from ..backends.numba.cache import Function, text_of
from ..space.sphere import padded

_deconvolve = Function(text_of(Path(__file__).with_name("cholesky_kernels.py")), "deconvolve")
ENDS = 3  # ways to end: converged, unfinished, singular


def _table(values: Array, rows: int, width: int, extra: int = 0) -> npt.NDArray[np.float64]:
    """Pad a matrix with zeros to (rows, width), flatten it, and append more zeros."""
    out = np.zeros(rows * width + extra)
    out[: rows * width].reshape(rows, width)[: values.shape[0], : values.shape[1]] = values
    return out


class Deconvolution:
    """One CSD model in the layout of the kernel.

    Parameters
    ----------
    design : (signals, n) float64
        X, which maps coefficients to signals.
    positivity : (directions, n) float64
        B, which maps coefficients to weighted amplitudes.
    normal : (n, n) float64
        P, X'X with a ridge if needed; positive definite.
    unconstrained : (n, signals) float64
        Maps signals s to the coefficients f that solve P f = X's.
    tau : float
        Amplitudes below ``tau`` times the mean amplitude (that of degree 0) are constrained.
    convergence : int
        Maximum number of solutions per voxel.
    """

    def __init__(
        self, design: Array, positivity: Array, normal: Array,
        unconstrained: Array, tau: float, convergence: int,
    ) -> None:
        signals, self.coefficients = design.shape
        n, width = self.coefficients, padded(self.coefficients + 1)  # one more column for the right-hand side
        beyond = 31  # elements that the kernels read after the last row of a symmetric matrix
        self._tables = (
            _table(design, signals, width), _table(unconstrained.T, signals, width),
            _table(normal, n + -n % 4, width, beyond), _table(positivity, len(positivity), width, beyond),
            _table(positivity.T, n, padded(len(positivity))),
        )
        self._rule, self._width = (float(tau), int(convergence)), width

    def fit(
        self, data: Array, voxels: npt.NDArray[np.int64], volumes: npt.NDArray[np.int64],
        out: npt.NDArray[np.float32], finished: npt.NDArray[np.int64], stop: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.int64]:
        """Deconvolve voxels in one call, without the GIL.

        Parameters
        ----------
        data : (v, volumes)
            The series, C-contiguous.
        voxels : (m,)
            Rows of the data to fit.
        volumes : (signals,)
            Columns of the data to fit.
        out : (v, n) float32
            Receives the coefficients of these voxels.
        finished : (1,)
            Counts the voxels that are finished.
        stop : (1,)
            Ends the fit if another thread makes it nonzero.

        Returns
        -------
        (2,) int64
            Number of voxels that did not converge, and of voxels whose matrix has no Cholesky factor.
        """
        ends = np.zeros(ENDS, np.int64)
        progress = ends, finished, stop
        _deconvolve(data, voxels, volumes, self._tables, *self._rule, self._memory(), progress, out)
        return ends[1:]

    def _memory(self) -> tuple[Array, ...]:
        """Return the arrays that the kernel works in."""
        moments, _, normal, table, sampling = self._tables
        n, signals, directions = self.coefficients, len(moments) // self._width, len(table) // self._width
        kinds = [(len(normal), float)] * 2 + [(directions, np.int32)] + [(directions, np.int64)] * 2
        kinds += [(size, float) for size in (self._width, self._width, len(sampling) // n, n, signals)]
        return tuple(np.zeros(size, kind) for size, kind in kinds)
