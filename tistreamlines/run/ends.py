"""What the ends of the halves say about a run."""

from __future__ import annotations

import numpy.typing as npt
from numpy import int64

from ..kernels.stop_reasons import Stop
from ..option import flag
from ..options.option_groups import SOURCES
from ..options.parameters import Parameters

MOST = 0.8  # of the halves; with the default options, no reason below ends more than 0.4 of them in data of a brain
FEWEST = 200  # halves, of which so many may end alike by chance or by a user's choice of a few seeds
SMALL_ANGLE = 3.2  # degrees: pi, the greatest angle in radians


def doubt(ends: npt.NDArray[int64], parameters: Parameters, step_mm: float) -> str:
    """Say so if nearly all halves ended for one reason that hints at a mistake, and name likely causes.

    Parameters
    ----------
    ends : (len(Stop),) int64
        Halves that ended for each reason.
    parameters : Parameters
        Options of the run.
    step_mm : float
        Step size, mm.

    Returns
    -------
    str
        A warning, or nothing.
    """
    total = int(ends.sum() - ends[Stop.NOT_GROWN])
    if total < FEWEST:
        return ""
    for reason, causes in ((Stop.NO_DIRECTION, _no_direction), (Stop.MAX_LENGTH, _maximum), (Stop.INVALID_END, _tissue)):
        share = ends[reason] / total
        if share > MOST and not (reason is Stop.MAX_LENGTH and parameters.too_long == "truncate"):
            return f"{share:.0%} of the halves ended {causes(parameters, step_mm)}"
    return ""


def _no_direction(parameters: Parameters, step_mm: float) -> str:
    causes = []
    if parameters.max_angle < SMALL_ANGLE:
        causes.append(f"--max-angle {parameters.max_angle:g} is in degrees, not in radians")
    if step_mm < 0.1:
        causes.append(f"a step is {step_mm:.3g} mm long (--step-size)")
    if parameters.source == "peaks":
        causes.append("peaks of neighbouring voxels differ (--peak-width, --max-angle)")
    if parameters.source in ("sh", "peaks"):
        causes.append(f"directions may be along other axes ({flag(parameters.source + '_frame')})")
    if parameters.source not in SOURCES:
        causes.append("the gradients may be along other axes (--bvecs-frame)")
    causes.append("seeds or the stop map may reach beyond white matter, or the data may be too noisy")
    return f"since no direction lay within --max-angle {parameters.max_angle:g}: {'; '.join(causes)}"


def _maximum(parameters: Parameters, step_mm: float) -> str:
    after = f"after --max-steps {parameters.max_steps}, at {parameters.max_steps * step_mm:.3g} mm"
    return f"{after}: give a longer --step-size or more steps, or check whether the maps end streamlines anywhere"


def _tissue(parameters: Parameters, _: float) -> str:
    return f"in cerebrospinal fluid (--stopping {parameters.stopping}): the tissue maps may be exchanged or shifted"
