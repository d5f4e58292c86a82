"""The equations of CSD, those of DIPY's model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from ..aliases import Array, AxSymShResponse, GradientTable
from ..errors import InputError
from ..io.response import ZonalResponse
from ..space.harmonics import degrees, sampling_matrix
from ..space.sphere import load_sphere

Response: TypeAlias = "tuple[Array, float] | ZonalResponse | AxSymShResponse"
BASIS = "descoteaux07_legacy"
MOST_SOLUTIONS = 50  # DIPY's default
DIPYS_WEIGHT = 1.0  # its lambda_
TAU = 0.1  # DIPY's default
USUAL_DIRECTIONS = 362  # to whose number DIPY's lambda_ refers, as in MRtrix 0.2


@dataclass(frozen=True, eq=False)
class System:
    """The equations of DIPY's model: signals = design coefficients, and the constraint of small amplitudes.

    Attributes
    ----------
    design : (signals, n) float64
    normal : (n, n) float64, design' design.
    positivity : (directions, n) float64
        Maps coefficients to amplitudes times the weight, in DIPY's units.
    tau : amplitudes below ``tau`` times the mean are constrained.
    weight : DIPY's ``lambda_``.
    """

    design: Array
    normal: Array
    positivity: Array
    tau: float
    weight: float

    @classmethod
    def of(cls, gtab: GradientTable, response: Response, order: int, weight: float) -> System:
        """Return the equations of DIPY's ConstrainedSphericalDeconvModel, which takes 0.6 s to import.

        The response multiplies each coefficient of degree l by its zonal coefficient of this degree, over that of a
        delta function along z.

        Raises
        ------
        InputError
            If the order is odd or less than 2, or if the response is no response, or one of a lower order.
        """
        if order < 2 or order % 2:
            raise InputError(f"order is {order}: give an even number of at least 2, e.g. 8")
        harmonics = sampling_matrix(gtab.gradients[~np.asarray(gtab.b0s_mask)], order, BASIS)
        l_values, m_values = degrees(order)
        if isinstance(response, tuple | list):
            zonal = np.linalg.lstsq(harmonics, _signals_along_z(gtab, response), rcond=-1)[0][m_values == 0]
        else:
            zonal = np.asarray(response.dwi_response, np.float64)
        if len(zonal) <= order // 2:
            raise InputError(f"the response has order {2 * len(zonal) - 2}: give one of order {order}")
        factors = zonal[: order // 2 + 1] / sampling_matrix([[0.0, 0.0, 1.0]], order, BASIS)[0, m_values == 0]
        design = factors[l_values // 2] * harmonics
        positivity = _amplitudes(order)
        # the constraint counts the same for any number of coefficients and of directions
        scale = weight * design.shape[1] * factors[0] / (math.sqrt(len(positivity)) * math.sqrt(USUAL_DIRECTIONS))
        return cls(design, design.T @ design, positivity * scale, TAU, weight)

    def with_weight(self, weight: float) -> System:
        """Return the equations with another weight: only the rows of the constraint change."""
        return replace(self, positivity=self.positivity * (weight / self.weight), weight=weight)


@cache
def _amplitudes(order: int) -> Array:
    """Return the matrix (directions, coefficients) from coefficients to amplitudes along DIPY's directions."""
    return sampling_matrix(load_sphere("small")[0], order, BASIS)


def _signals_along_z(gtab: GradientTable, response: Sequence[Any]) -> Array:
    """Return the weighted signals of a tensor along z, of eigenvalues and the signal without weighting."""
    evals, unweighted = np.asarray(response[0], np.float64), float(response[1])
    if evals.shape != (3,) or not (np.isfinite(evals).all() and evals.min() > 0 and 0 < unweighted < np.inf):
        raise InputError(f"the response is {response}: give three eigenvalues in mm2/s and S0, all positive")
    weighted = ~np.asarray(gtab.b0s_mask)
    if gtab.btens is not None:
        return unweighted * np.exp(-np.einsum("nii,i->n", gtab.btens[weighted], evals[::-1]))
    bvecs = gtab.bvecs[weighted]
    return unweighted * np.exp(-gtab.bvals[weighted] * (bvecs * evals[::-1] * bvecs).sum(axis=1))
