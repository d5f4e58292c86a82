"""The rules of SIFT2."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Sift2Rules:
    """Options of SIFT2, with the names that MRtrix3's tcksift2 gives them.

    Parameters
    ----------
    reg_tikhonov, reg_tv : float
        Factors of the regularisation: of coefficients, and of their differences from the mean of each fixel.
    min_td_frac : float
        A fixel takes no part if the density of its streamlines is less than this part of that of its fibres.
    min_iters, max_iters : int
        Fewest and most iterations.
    min_coeff, max_coeff : float
        Bounds of a coefficient, whose exponential is the weight. At the lower one, the weight is 0.
    max_coeff_step : float
        Greatest change of a coefficient in an iteration.
    min_cf_decrease : float
        Iterations go on while the cost falls by more than this part of the first one.
    fd_thresh : float
        Fixels with less fibre density do not count.
    remove_untracked : bool
        Fixels that no streamline visits do not count.
    linear : bool
        Estimate weights in one pass, without iterations.
    statistics : bool
        Also tell how steps and coefficients of each iteration are spread.
    """

    reg_tikhonov: float = 0.0
    reg_tv: float = 0.1
    min_td_frac: float = 0.1
    min_iters: int = 10
    max_iters: int = 1000
    min_coeff: float = -math.inf
    max_coeff: float = math.inf
    max_coeff_step: float = 1.0
    min_cf_decrease: float = 2.5e-5
    fd_thresh: float = 0.0
    remove_untracked: bool = False
    linear: bool = False
    statistics: bool = False
