"""Stop at random, the more likely the less white matter there is (DIPY's ``CmcStoppingCriterion``).

Girard et al. 2014.  DIPY compares a random number u with a power p^c of the share p of white matter; here the logarithm of
u is compared with c log(p), since powers round differently on different devices.
"""

from __future__ import annotations

from ...linker.lang import *
from ...linker.maths import log
from ...linker.rng import STOPPING, STREAM, philox, uniform
from ..interpolate import STOP_CHANNEL, Volume
from ..stop_reasons import Stop

GROWING, VALID_END, INVALID_END = int(Stop.GROWING), int(Stop.VALID_END), int(Stop.INVALID_END)
LEAST = 1.0e-6  # share of white matter that is told from none, as sums of interpolated maps round
HALF = 2.98023223876953125e-08  # of the smallest difference of two random numbers, so that none is 0


class Cmc(Record):
    """The maps are those of :class:`.act.Act`; ``exponent`` is the step in mean voxel sides."""

    exponent: real


@func
def classify(stopping: Cmc, volume: Volume, p: vec3, row: Reals, c0: u32, c1: u32, c2: u32, key: Ints) -> i32:
    """Stop reason at the point whose interpolated row is given, or GROWING."""
    include = row[STOP_CHANNEL]
    both = include + row[STOP_CHANNEL + 1]
    white = 1.0 - both
    reason = GROWING
    if both > 0.0:
        w = philox(c0, c1, c2, u32(STOPPING << STREAM), u32(key[0]), u32(key[1]))
        goes_on = 0
        if white > LEAST:
            if log(uniform(w[0]) + HALF) < stopping.exponent * log(white):
                goes_on = 1
        if goes_on == 0:
            reason = INVALID_END
            if uniform(w[1]) * both < include:
                reason = VALID_END
    return reason
