"""The two ends of a streamline, and its length.

Lengths are whole numbers of 2^-16 mm, one for each segment, so that sums depend neither on their order nor on the device.
"""

from ...linker.lang import *
from ..halves import *
from ..lanes import length_of
from ..trail import *
from .points import Affine, transform_point

UNITS = 65536.0  # of length in a millimetre
FARTHEST = 16384.0  # mm; no segment is longer


@func
def segment(a: vec3, b: vec3) -> i32:
    """Distance between two points in RASmm, in 2^-16 mm."""
    length = length_of(vec3(b[0] - a[0], b[1] - a[1], b[2] - a[2]))
    return i32(floor(minimum(length, FARTHEST) * UNITS + 0.5))


@func
def measure_points(item: i32, points: Reals, offsets: Ints, lengths: Ints):
    """Measure a streamline whose points are in RASmm."""
    length = 0
    for k in range(offsets[item + 1] - offsets[item] - 1):
        place = 3 * (offsets[item] + k)
        here = vec3(points[place], points[place + 1], points[place + 2])
        length = length + segment(here, vec3(points[place + 3], points[place + 4], points[place + 5]))
    lengths[item] = length


@func
def measure_steps(item: i32, earlier: i32, accepted: Ints, run: Run, affine: Affine, ends: Ints):
    """Find the ends of a streamline that has grown, and measure it, by repeating its steps from the seed.

    It is number ``accepted[earlier + item]``.  From ``ends[7 * item]`` on stand the bits of its first point, which is the end
    of the backward half, those of its last one, and its length.
    """
    streamline = accepted[earlier + item]
    c0 = u32(run.halves.seed[streamline]) + run.rules.first_seed
    length = 0
    for side in range(2):
        half = 2 * streamline + side
        c2 = u32(run.halves.branch[streamline] * 2 + side)
        state = State()
        trail = Trail()
        begin_again(trail, state, half, c0, c2, run)
        here = transform_point(trail.p, affine)
        steps = run.halves.state[2 * half]
        for k in range(steps):
            take_again(trail, state, half, k, steps, c0, c2, run)
            there = transform_point(trail.p, affine)
            length = length + segment(here, there)
            here = there
        place = 7 * item + 3 - 3 * side
        ends[place] = bits(here[0])
        ends[place + 1] = bits(here[1])
        ends[place + 2] = bits(here[2])
    ends[7 * item + 6] = length
