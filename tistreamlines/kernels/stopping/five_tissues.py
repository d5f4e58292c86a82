"""The five tissues at a point: their shares, of which one it lies, and whether a streamline may begin there.

As MRtrix3's tckgen tells them.
"""

import math

from ...linker.lang import *
from ...linker.maths import floored
from ..interpolate import inside
from ..lanes import MapVolume, corner_voxel, corner_weight, everywhere, point_in_map

TISSUES = 5
VALUES = TISSUES + 1  # of a voxel: the tissues and their sum
WHITES, FLUIDS = 2, 3  # numbers of white matter and fluid among them
OUTSIDE_TISSUES = 2.0
LEAST_SUM = 0.5  # of all tissues inside the image
NEAR = 0.01  # difference of grey and white matter at which their interface is found
# where a streamline may begin
REFUSED, IN_WHITE, IN_DEEP_GREY, BEYOND = 0, 1, 2, 3
# kinds of a point
NOWHERE, FLUID, CORTEX, SUBCORTEX, PATHOLOGY, WHITE = 0, 1, 2, 3, 4, 5


class Act5(MapVolume):
    """The five tissues and their sum on another grid, and the sides of a voxel of the tracked image.

    ``plain`` has 1 for voxels whose neighbours, and they themselves, have more white matter than anything else, so that all
    points around them do.  Most points of most streamlines lie there, and need no interpolation: a million seeds grow in
    0.0 s instead of 0.0 on an H200.
    """

    plain: Ints
    side_x: real
    side_y: real
    side_z: real

    def elements(self, rule):
        return super().elements(rule) | {"plain": math.prod(map(int, self.sides))}


class Five(Record):
    """Local variables: the shares of the five tissues at a point, and their sum."""

    cortical: real
    subcortical: real
    white: real
    fluid: real
    pathology: real
    all: real


# Four groups of eight lanes each read the values of one voxel, so that two turns interpolate between eight. The last group
# adds them up, in the order of the voxels.
SUMS = 24  # the lane that has the share of the first tissue


@func
def shares_of(tissues: Act5, q: vec3, number: i32, turn: i32) -> real:
    """Each lane's part of the interpolation between eight voxels, from the voxel of its group in a turn."""
    corner = 4 * turn + (lane() >> 3)
    i = (corner >> 2) & 1
    j = (corner >> 1) & 1
    k = corner & 1
    place = corner_voxel(tissues.sides, q, i, j, k) * VALUES + number
    return corner_weight(q, i, j, k) * take(tissues.maps, place)


@func
def added_to(total: real, shares: real) -> real:
    """Add the shares of all four groups to the total that the last group has."""
    return ((total + raised(shares, 24)) + raised(shares, 16)) + raised(shares, 8) + shares


@func
def tissues_at(tissues: Act5, p: vec3) -> real:
    """Shares of the tissues at a point of the tracked image, in the lanes from SUMS on; all 0 outside the tissues' image.

    Plain white matter counts as pure.
    """
    q = point_in_map(tissues, p)
    number = minimum(lane() & 7, VALUES - 1)
    value = lanes(0.0)
    if inside(tissues.sides, q) == 1:
        x = i32(floor(q[0] + 0.5))
        y = i32(floor(q[1] + 0.5))
        z = i32(floor(q[2] + 0.5))
        voxel = (x * tissues.sides[1] + y) * tissues.sides[2] + z
        # as tckgen's masked interpolation, a voxel of zeros is outside, whatever lies beside it
        if tissues.plain[voxel] == 1:
            value = where(number == WHITES, 1.0, value)
        elif team_any(take(tissues.maps, voxel * VALUES + number) != 0.0) == 1:
            around = everywhere(q)
            value = added_to(value, shares_of(tissues, around, number, 0))
            value = added_to(value, shares_of(tissues, around, number, 1))
    return minimum(maximum(value, 0.0), 1.0)


@func
def tissue(shares: real, number: i32) -> real:
    """The share of one tissue."""
    return team_value(shares, SUMS + number)


@stage
def tell_apart(share: Five, shares: real):
    """Tell the shares apart that the lanes hold."""
    share.cortical = tissue(shares, 0)
    share.subcortical = tissue(shares, 1)
    share.white = tissue(shares, 2)
    share.fluid = tissue(shares, 3)
    share.pathology = tissue(shares, 4)
    share.all = ((share.cortical + share.subcortical) + share.white) + (share.fluid + share.pathology)


@func
def kind_of(shares: real) -> i32:
    """The tissue of a point with these shares."""
    share = Five()
    tell_apart(share, shares)
    grey = share.cortical + share.subcortical
    most = maximum(maximum(share.cortical, share.subcortical), share.white)
    kind = WHITE
    if share.all < LEAST_SUM:
        kind = NOWHERE
    elif (share.fluid >= most) & (share.fluid >= share.pathology):
        kind = FLUID
    elif (grey >= share.white) & (grey > share.fluid) & (grey > share.pathology):
        kind = where(share.cortical >= share.subcortical, CORTEX, SUBCORTEX)
    elif (share.pathology >= most) & (share.pathology > share.fluid):
        kind = PATHOLOGY
    return kind


@func
def may_begin(shares: real) -> i32:
    """Whether a streamline may begin at a point with these shares: in which matter, BEYOND the interface, or REFUSED."""
    share = Five()
    tell_apart(share, shares)
    grey = share.cortical + share.subcortical
    rest = maximum(maximum(share.cortical, share.fluid), share.pathology)
    begins = REFUSED
    if share.all >= LEAST_SUM:
        if (share.subcortical > rest) & (share.subcortical >= share.white):
            begins = IN_DEEP_GREY
        elif (kind_of(shares) != FLUID) & (share.white > 0.0) & (grey - share.white < NEAR):
            begins = IN_WHITE
            if (grey > share.white) & (share.cortical > share.subcortical):
                begins = BEYOND
    return begins


@func
def fluid_at(tissues: Act5, p: vec3) -> real:
    """Share of fluid at each lane's point of the tracked image; OUTSIDE_TISSUES where that is outside the tissues' image.

    0 if all of them lie in plain white matter.
    """
    q = point_in_map(tissues, p)
    x = i32(floored(q[0] + 0.5))
    y = i32(floored(q[1] + 0.5))
    z = i32(floored(q[2] + 0.5))
    there = (x >= 0) & (y >= 0) & (z >= 0) & (x < tissues.sides[0]) & (y < tissues.sides[1]) & (z < tissues.sides[2])
    voxel = where(there, (x * tissues.sides[1] + y) * tissues.sides[2] + z, 0)
    fluid = lanes(0.0)
    if team_any(take(tissues.plain, voxel) == 0) == 1:  # as the first voxel is, since it has no neighbours on one side
        total = lanes(0.0)
        for corner in unrolled(8):  # without a loop, compilers compute the terms that several corners share only once
            i = (corner >> 2) & 1
            j = (corner >> 1) & 1
            k = corner & 1
            place = corner_voxel(tissues.sides, q, i, j, k) * VALUES
            weight = corner_weight(q, i, j, k)
            total = total + weight * take(tissues.maps, place + TISSUES)
            fluid = fluid + weight * take(tissues.maps, place + FLUIDS)
        within = there & (take(tissues.maps, voxel * VALUES + TISSUES) > 0.0) & (total >= LEAST_SUM)
        fluid = where(within, fluid, OUTSIDE_TISSUES)
    return fluid


@func
def excess_at(stopping: Act5, p: vec3) -> real:
    """Grey less white matter at a point."""
    shares = tissues_at(stopping, p)
    return (tissue(shares, 0) + tissue(shares, 1)) - tissue(shares, 2)
