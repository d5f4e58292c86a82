"""Stop in grey matter, which is valid, or in cerebrospinal fluid, which is not (DIPY's ``ActStoppingCriterion``).

Smith et al. 2012, without its rules for subcortical grey matter and without its backtracking.
"""

from __future__ import annotations

from ...linker.lang import *
from ..interpolate import STOP_CHANNEL, Volume
from ..stop_reasons import Stop

GROWING, VALID_END, INVALID_END = int(Stop.GROWING), int(Stop.VALID_END), int(Stop.INVALID_END)
MOST = 0.5  # of a tissue in which streamlines go on


class Act(Record):
    """The first map is the share of tissue where ends are valid, the second that where they are not."""


@func
def classify(stopping: Act, volume: Volume, p: vec3, row: Reals, c0: u32, c1: u32, c2: u32, key: Ints) -> i32:
    """Stop reason at the point whose interpolated row is given, or GROWING."""
    reason = GROWING
    if row[STOP_CHANNEL] > MOST:
        reason = VALID_END
    elif row[STOP_CHANNEL + 1] > MOST:
        reason = INVALID_END
    return reason
