"""Stop where a scalar map, interpolated, is not above a threshold (DIPY's ``ThresholdStoppingCriterion``).

The map is the last channel of the voxel's row, so that it comes with the row's interpolation.
"""

from __future__ import annotations

from ..lang import Constant, Reals, Record, i32, real, twin
from ..stop_reasons import Stop

STOP_CHANNEL = Constant("where in a voxel's row the stop map lies")
GROWING = int(Stop.GROWING)
END_POINT = int(Stop.END_POINT)


class Threshold(Record):
    """Streamlines go on where the map is above ``threshold``."""

    threshold: real


@twin
def classify(stopping: Threshold, row: Reals) -> i32:
    """Stop reason at the point whose interpolated row is given, or GROWING."""
    reason = END_POINT
    if row[STOP_CHANNEL] > stopping.threshold:
        reason = GROWING
    return reason
