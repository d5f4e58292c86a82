"""CSD of several shells together, whose responses are those of the same voxels.

The outermost shell is the one to which CSD of one shell is fitted, and inner shells add what they know of the
directions. Grey matter and fluid decay otherwise than white matter, so that the mean signal of a shell says little
about another one. Hence the mean of each inner shell is free, and that of the outermost one alone tells the amount of
fibres. The constraint is that of CSD of the outermost shell (:mod:`.csd`).

References
----------
Cheng, Deriche, Jiang, Shen, Yap. Non-negative spherical deconvolution (NNSD) for estimation of fiber orientation
distribution function in single-/multi-shell diffusion MRI. NeuroImage 101, 2014 (deconvolution of several shells).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..aliases import Array, GradientTable, Json
from ..io.response import FA, TOURNIER, ZonalResponse
from ..space.harmonics import degrees, sampling_matrix
from .csd import DIPYS_WEIGHT, System
from .response import BASIS, anisotropic_fibres, iterative_fibres, zonal_response
from .shells import b_value, gradients_on_shell, on_shell, shell_of_models, shells_of_csd

SHARPER = 2.0  # halvings of the weight below the mean, as csd_weight.SHARPER of one shell
LEAST_ORDER = 8  # of responses
MOST = 4096  # voxels of a response, or up to twice as many


@dataclass(frozen=True, eq=False)
class ShellResponses:
    """The signal of a single fibre in each shell.

    Attributes
    ----------
    zonal : (shells, degrees) float64
        Harmonics of the degrees 0, 2, ... about the axis of the fibre, by rising b-value.
    unweighted : float
        Mean b0 signal of the voxels.
    way : str
        In which way the voxels were selected: 'fa' or 'tournier'.
    """

    zonal: npt.NDArray[np.float64]
    unweighted: float
    way: str

    @classmethod
    def of(cls, signals: Array, axes: Array, gtab: GradientTable, order: int, way: str = FA) -> ShellResponses:
        """Return the responses of voxels (m, n) whose fibres have axes (m, 3)."""
        order, step = max(order, LEAST_ORDER), max(len(axes) // MOST, 1)
        signals, axes = signals[::step], axes[::step]
        rows = [zonal_response(signals[:, shell], axes, gtab.bvecs[shell], order) for shell in shells_of_csd(gtab)]
        return cls(np.stack(rows), float(signals[:, np.asarray(gtab.b0s_mask)].mean()), way)

    def outermost(self, order: int) -> ZonalResponse:
        """Return that of the outermost shell, up to an order."""
        return ZonalResponse(self.unweighted, self.zonal[-1, : order // 2 + 1])

    def system(self, gtab: GradientTable, order: int, weight: float = DIPYS_WEIGHT) -> System:
        """Return the equations of CSD of all shells."""
        weighted, known = ~np.asarray(gtab.b0s_mask), shells_of_csd(gtab)
        harmonics, (l_values, _) = sampling_matrix(gtab.bvecs, order, BASIS), degrees(order)
        factors = self.zonal * np.sqrt(4 * np.pi / (4 * np.arange(self.zonal.shape[1]) + 1))
        design = np.zeros(harmonics.shape)
        for row, shell in zip(factors, known, strict=True):
            design[shell] = harmonics[shell] * row[l_values // 2]
        for shell in known[:-1]:
            design[shell] -= design[shell].mean(axis=0)
        one_shell = System.of(gradients_on_shell(gtab, shell_of_models)[0], self.outermost(order), order, weight)
        return replace(one_shell, design=design[weighted], normal=design[weighted].T @ design[weighted])

    def record(self, gtab: GradientTable) -> Json:
        """Return them as the record of a run has them."""
        bvals = [round(b_value(gtab, shell), 1) for shell in shells_of_csd(gtab)]
        return {"b": bvals, "zonal": self.zonal.tolist(), "b0_signal": self.unweighted, "way": self.way}


def responses_of_high_fa(
    data: Array, gtab: GradientTable, mask: Array, order: int, fa: float, fewest: int, threads: int | None
) -> ShellResponses:
    """Return the responses of the voxels of high FA; raise InputError if there are fewer than ``fewest``."""
    voxels, axes = anisotropic_fibres(data, gtab, mask, fa, fewest, threads)
    return ShellResponses.of(data[voxels], axes, gtab, order)


def responses_of_tournier(
    data: Array, gtab: GradientTable, mask: Array, order: int, threads: int | None
) -> ShellResponses:
    """Return the responses of the voxels that are most like a single fibre in the outermost shell."""
    outer, outer_gtab = on_shell(data, gtab, shell_of_models)
    order_there = min(order, LEAST_ORDER)
    voxels, axes, _ = iterative_fibres(outer, outer_gtab, mask, order_there, threads)
    return ShellResponses.of(data.reshape(mask.size, -1)[voxels], axes, gtab, order, TOURNIER)

