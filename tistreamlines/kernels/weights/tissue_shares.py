"""Shares of tissues in the voxels of an image, by the tissues at a thousand points of each of them."""

from ...linker.lang import *
from ...linker.maths import floored
from ..lanes import MapVolume, map_around, point_in_map
from ..stopping.five_tissues import LEAST_SUM

SIDE = 10  # points along each side of a voxel
POINTS = SIDE * SIDE * SIDE
COUNTED = 4  # numbers of a lane: points in cortical and subcortical grey and in white matter, and in any tissue


class Shares(Record):
    """Voxels, x y z in turn; and the points that each of 32 lanes has counted: COUNTED times 32 numbers for each voxel."""

    voxels: Ints
    counts: Ints


@func
def tissue_here(tissues: MapVolume, q: vec3, number: i32) -> real:
    """Share of a tissue at each lane's point of the tissues' image."""
    return minimum(maximum(map_around(tissues, q, number), 0.0), 1.0)


@func
def count_tissues(item: i32, tissues: MapVolume, shares: Shares):
    """Count the points of a voxel that lie in each tissue, as MRtrix3's tcksift2 does."""
    grey = lanes(0)
    deep = lanes(0)
    white = lanes(0)
    known = lanes(0)
    for turn in range((POINTS + 31) // 32):
        number = lane() + 32 * turn
        tens = (number * 6554) >> 16  # lane values are not divided; this is exact below 16,384
        hundreds = (tens * 6554) >> 16
        p = vec3(
            real(shares.voxels[3 * item]) + (real(number - SIDE * tens) * 0.1 - 0.45),
            real(shares.voxels[3 * item + 1]) + (real(tens - SIDE * hundreds) * 0.1 - 0.45),
            real(shares.voxels[3 * item + 2]) + (real(hundreds) * 0.1 - 0.45),
        )
        q = point_in_map(tissues, p)
        x = i32(floored(q[0] + 0.5))
        y = i32(floored(q[1] + 0.5))
        z = i32(floored(q[2] + 0.5))
        there = (x >= 0) & (y >= 0) & (z >= 0) & (x < tissues.sides[0]) & (y < tissues.sides[1]) & (z < tissues.sides[2])
        cg = tissue_here(tissues, q, 0)
        sg = tissue_here(tissues, q, 1)
        wm = tissue_here(tissues, q, 2)
        csf = tissue_here(tissues, q, 3)
        path = tissue_here(tissues, q, 4)
        there = there & (number < POINTS) & (((cg + sg) + wm) + (csf + path) >= LEAST_SUM)
        most = maximum(csf, path)
        grey = grey + where(there & (cg >= sg) & (cg >= wm) & (cg > most), 1, 0)
        deep = deep + where(there & (sg > cg) & (sg >= wm) & (sg > most), 1, 0)
        white = white + where(there & (wm > cg) & (wm > sg) & (wm > most), 1, 0)
        known = known + where(there, 1, 0)
    put(shares.counts, 128 * item, grey)
    put(shares.counts, 128 * item + 32, deep)
    put(shares.counts, 128 * item + 64, white)
    put(shares.counts, 128 * item + 96, known)
