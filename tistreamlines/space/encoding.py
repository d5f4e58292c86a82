"""The diffusion encoding of a series: the b-value and the direction of each volume."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..aliases import Array, GradientTable

NORM_TOLERANCE = 0.01  # as in DIPY: vectors of other lengths are no directions
B0_THRESHOLD = 50  # s/mm^2, as in DIPY: volumes with a b-value up to this are b0s
TENSOR = [[0, 1, 3], [1, 2, 4], [3, 4, 5]]  # elements of a tensor, as a row of :func:`tensor_design` has them


@dataclass(frozen=True, eq=False)
class Encoding:
    """The b-values and directions of volumes, with all that DIPY's models read from its GradientTable.

    To import that class takes DIPY 570 modules and 0.4 s.

    Parameters
    ----------
    bvals : (n,) float64
        s/mm^2.
    bvecs : (n, 3) float64
        Unit directions, or zeros.
    b0_threshold : float
        Volumes with a b-value up to this are b0s.
    big_delta, small_delta : float or None
        Separation and duration of the pulses, if they are known.
    btens : (n, 3, 3) float64 or None
        b-tensors, unless all are linear.
    """

    bvals: npt.NDArray[np.float64]
    bvecs: npt.NDArray[np.float64]
    b0_threshold: float = B0_THRESHOLD
    big_delta: float | None = None
    small_delta: float | None = None
    btens: Array | None = None

    @classmethod
    def of(cls, bvals: npt.ArrayLike, bvecs: npt.ArrayLike, b0_threshold: float = B0_THRESHOLD) -> Encoding:
        """Return an encoding; vectors that are no directions, as those of b0s may be, become 0 with their b-values."""
        values, vectors = np.asarray(bvals, np.float64), np.asarray(bvecs, np.float64)
        vectors = np.where(np.isnan(vectors), 0, vectors)
        unit = np.abs(np.sqrt((vectors * vectors).sum(axis=1)) - 1) <= NORM_TOLERANCE
        return cls(values * unit, np.where(unit[:, None], vectors, 0), b0_threshold)

    @property
    def b0s_mask(self) -> npt.NDArray[np.bool_]:
        """Which volumes are b0s, (n,)."""
        return self.bvals <= self.b0_threshold

    @property
    def gradients(self) -> npt.NDArray[np.float64]:
        """Directions, each as long as its b-value, (n, 3)."""
        return self.bvals[:, None] * self.bvecs

    def __len__(self) -> int:
        """Return the number of volumes."""
        return len(self.bvals)


def select_volumes(gtab: GradientTable, keep: Array) -> Encoding:
    """Return the encoding of some volumes, (n,) bool."""
    btens = None if gtab.btens is None else gtab.btens[keep]
    return Encoding(gtab.bvals[keep], gtab.bvecs[keep], gtab.b0_threshold, gtab.big_delta, gtab.small_delta, btens)


def with_directions(gtab: GradientTable, bvecs: npt.NDArray[np.float64]) -> Encoding:
    """Return the encoding with other directions (n, 3), without pulses and b-tensors."""
    return Encoding(gtab.bvals, bvecs, gtab.b0_threshold)


def tensor_design(gtab: GradientTable) -> npt.NDArray[np.float64]:
    """Return the design (n, 7) of a tensor fit, -b times the elements xx, xy, yy, xz, yz and zz, and -1.

    The logarithm of a signal is its row times the tensor and -log S0. The values are those of DIPY's ``design_matrix``.
    """
    linear = gtab.bvecs[:, :, None] * gtab.bvecs[:, None] * gtab.bvals[:, None, None]
    tensors = linear if gtab.btens is None else gtab.btens
    columns = tensors[:, [0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]] * [1, 2, 1, 2, 2, 1]
    return -np.column_stack([columns, np.ones(len(columns))])
