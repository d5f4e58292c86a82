"""The equations of CSD, those of DIPY's model."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ..aliases import Array, AxSymShResponse, GradientTable, Json
from ..errors import InputError
from .dipy_private import csd_design, csd_normal

if TYPE_CHECKING:
    from dipy.reconst.csdeconv import ConstrainedSphericalDeconvModel

Response: TypeAlias = "tuple[Array, float] | AxSymShResponse"
MOST_SOLUTIONS = 50  # DIPY's default
DIPYS_WEIGHT = 1.0  # its lambda_


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
        """Return the equations of DIPY's model."""
        if order < 2 or order % 2:
            raise InputError(f"order is {order}: give an even number of at least 2, e.g. 8")
        model = _dipys_model(gtab, response, order, weight)
        return cls(csd_design(model), csd_normal(model), np.asarray(model.B_reg), model.tau, weight)

    def with_weight(self, weight: float) -> System:
        """Return the equations with another weight: only the rows of the constraint change."""
        return replace(self, positivity=self.positivity * (weight / self.weight), weight=weight)


def _dipys_model(
    gtab: GradientTable, response: Response, order: int, weight: float
) -> ConstrainedSphericalDeconvModel:
    """Build DIPY's model."""
    from dipy.reconst.csdeconv import AxSymShResponse, ConstrainedSphericalDeconvModel

    if not isinstance(response, AxSymShResponse):
        evals, unweighted = np.asarray(response[0], float), float(response[1])
        if evals.shape != (3,) or not (np.isfinite(evals).all() and evals.min() > 0 and 0 < unweighted < np.inf):
            raise InputError(f"the response is {response}: give three eigenvalues in mm2/s and S0, all positive")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)  # DIPY's, at each use of a legacy basis
        options: Json = {"sh_order_max": order, "lambda_": weight, "convergence": MOST_SOLUTIONS}
        return ConstrainedSphericalDeconvModel(gtab, response, **options)
