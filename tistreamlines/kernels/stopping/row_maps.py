"""The rules of DIPY's stopping criteria, by maps at the end of each voxel's row: a threshold, a mask, ACT and CMC."""

from ...linker.lang import *
from ...linker.maths import log
from ...linker.rng import STOPPING, STREAM, philox, uniform
from ..interpolate import STOP_CHANNEL, Volume, row_start
from ..stop_reasons import END_POINT, GROWING, INVALID_END, VALID_END


# Stop where an interpolated scalar map is not above a threshold (DIPY's ``ThresholdStoppingCriterion``).
class Threshold(Record):
    """Streamlines go on where the map is above ``threshold``."""

    threshold: real


@func
def classify_threshold(
    stopping: Threshold, volume: Volume, p: vec3, row: Reals, c0: u32, c1: u32, c2: u32, key: Ints
) -> i32:
    """Stop reason at the point whose interpolated row is given, or GROWING."""
    reason = END_POINT
    if row[STOP_CHANNEL] > stopping.threshold:
        reason = GROWING
    return reason


# Stop outside a mask (DIPY's ``BinaryStoppingCriterion``).
class Binary(Record):
    """Streamlines go on where the map of the nearest voxel is above 0."""


@func
def classify_binary(
    stopping: Binary, volume: Volume, p: vec3, row: Reals, c0: u32, c1: u32, c2: u32, key: Ints
) -> i32:
    """Stop reason at a point inside the image, or GROWING."""
    nearest = row_start(volume, i32(floor(p[0] + 0.5)), i32(floor(p[1] + 0.5)), i32(floor(p[2] + 0.5)))
    reason = VALID_END
    if volume.rows[nearest + STOP_CHANNEL] > 0.0:
        reason = GROWING
    return reason


# Stop in grey matter, which is valid, or in cerebrospinal fluid, which is not (DIPY's ``ActStoppingCriterion``).
# Smith et al. 2012, without its rules for subcortical grey matter and without its backtracking.
MOST = 0.5  # of a tissue in which streamlines go on


class Act(Record):
    """The first map is the share of tissue where ends are valid, the second that where they are not."""


@func
def classify_act(stopping: Act, volume: Volume, p: vec3, row: Reals, c0: u32, c1: u32, c2: u32, key: Ints) -> i32:
    """Stop reason at the point whose interpolated row is given, or GROWING."""
    reason = GROWING
    if row[STOP_CHANNEL] > MOST:
        reason = VALID_END
    elif row[STOP_CHANNEL + 1] > MOST:
        reason = INVALID_END
    return reason


# Stop at random, the more likely the less white matter there is (DIPY's ``CmcStoppingCriterion``).
# Girard et al. 2014. DIPY compares a random number u with a power p^c of the share p of white matter; here the
# logarithm of u is compared with c log(p), since powers round differently on different devices.
LEAST = 1.0e-6  # least share of white matter that differs from none, as sums of interpolated maps round
HALF = 2.98023223876953125e-08  # of the smallest difference of two random numbers, so that none is 0


class Cmc(Record):
    """The maps are those of :class:`Act`; ``exponent`` is the step in mean voxel sides."""

    exponent: real


@func
def classify_cmc(stopping: Cmc, volume: Volume, p: vec3, row: Reals, c0: u32, c1: u32, c2: u32, key: Ints) -> i32:
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
