"""Steps along samples of fibres, as bedpostX draws them (Behrens et al. 2003, 2007).

A step draws a voxel, along each axis the upper neighbour with a probability equal to the fraction, and one of its samples.  It
follows the fibre of this sample that is nearest to the heading among those whose volume fraction is high enough.  The first
step of both halves is along a direction that is drawn at the seed.

A direction's code, BITS long: bit 0 is its sense, bits 1 to 3 say which of the eight voxels around the point has been drawn (z,
y, x), and those above are ``sample * FIBRES + fibre``.  The voxel's row gives the direction, on the device and on the host.
With the modified Euler method the code of a step has another direction above it, that one step ahead, plus one; 0 for none.
"""

from ...linker.lang import *
from ...linker.rng import philox, uniform
from ..halves import *
from ..interpolate import Volume, row_start
from ..lanes import normalised
from ..orientation.peaks import NONE
from .shared import HeadingScratch

FIBRES = Constant("fibres of a sample")
DRAWN = Constant("samples of a voxel")
FIRST = Constant("fibres that may be the first one: 1, or all of a sample")
BITS = Constant("bits of a direction's code")
USE_F = Constant("1: a half ends with a probability of one minus the volume fraction at each step")
MODIFIED_EULER = Constant("1: steps are along the mean of the direction at a point and that one step ahead")

PLACE = 4  # place of a fibre's number in a code


class Bedpostx(Record):
    """Tables of the method.

    least : volume fraction up to which a fibre does not count; cos_angle : of the greatest angle.
    """

    least: real
    cos_angle: real


# ------------------------------------------------------------------------------------------------------------- a draw
@func
def draw_sample(p: vec3, w: words) -> i32:
    """Code of the first fibre in a voxel around a point and a sample of it, which four random words choose."""
    x = where(uniform(w[0]) < p[0] - floor(p[0]), 2, 0)
    y = where(uniform(w[1]) < p[1] - floor(p[1]), 4, 0)
    z = where(uniform(w[2]) < p[2] - floor(p[2]), 8, 0)
    return ((i32(umulhi(w[3], u32(DRAWN))) * FIBRES) << PLACE) | (x | (y | z))


@func
def fibre_at(volume: Volume, p: vec3, code: i32) -> i32:
    """First of a fibre's four numbers in ``volume.rows``: x, y, z and the volume fraction."""
    x = i32(floor(p[0])) + ((code >> 1) & 1)
    y = i32(floor(p[1])) + ((code >> 2) & 1)
    z = i32(floor(p[2])) + ((code >> 3) & 1)
    return row_start(volume, x, y, z) + 4 * ((code >> PLACE) & ((1 << (BITS - PLACE)) - 1))


@func
def along_fibre(volume: Volume, p: vec3, code: i32) -> vec3:
    """Direction of a code."""
    c = fibre_at(volume, p, code)
    sense = where((code & 1) == 1, -1.0, 1.0)
    return vec3(sense * volume.rows[c], sense * volume.rows[c + 1], sense * volume.rows[c + 2])


@func
def nearest_fibre(volume: Volume, p: vec3, d: vec3, method: Bedpostx, w: words) -> i32:
    """Code of the fibre nearest to a heading in the voxel and sample that are drawn, in its sense; NONE if none is near."""
    code = draw_sample(p, w)
    place = fibre_at(volume, p, code)
    best = method.cos_angle
    code_of_nearest = NONE
    for fibre in range(FIBRES):
        c = place + 4 * fibre
        cosine = (volume.rows[c] * d[0] + volume.rows[c + 1] * d[1]) + volume.rows[c + 2] * d[2]
        nearer = (volume.rows[c + 3] > method.least) & (absolute(cosine) > best)
        code_of_nearest = where(nearer, (code + (fibre << PLACE)) | where(cosine < 0.0, 1, 0), code_of_nearest)
        best = where(nearer, absolute(cosine), best)
    return code_of_nearest


# ------------------------------------------------------------------------------------------------------------- a half
@func
def begin_by_sample(volume: Volume, p: vec3, method: Bedpostx, scratch: HeadingScratch, c0: u32, key: Ints) -> i32:
    """Draw the initial direction at a point: the sample's first fibre, or any that counts; return 0 if there is none."""
    code = draw_sample(p, philox(c0, u32(0), u32(0), u32(0), u32(key[0]), u32(key[1])))
    place = fibre_at(volume, p, code)
    count = 0
    for fibre in range(FIRST):
        count = count + where(volume.rows[place + 4 * fibre + 3] > method.least, 1, 0)
    w = philox(c0, u32(0), u32(0), u32(1), u32(key[0]), u32(key[1]))
    chosen = i32(umulhi(w[0], u32(count)))
    before = 0
    number = 0
    for fibre in range(FIRST):
        counts = volume.rows[place + 4 * fibre + 3] > method.least
        number = where(counts & (before == chosen), fibre, number)
        before = before + where(counts, 1, 0)
    barrier()
    scratch.peaks.kept[0] = (code + (number << PLACE)) >> 1
    barrier()
    return minimum(count, 1)


@stage
def set_out_from_seed(position: Position, side: i32, first: i32, run: Run) -> i32:
    """Start along the initial direction, a backward half against it."""
    position.state.d = along_fibre(run.volume, position.p, position.code ^ side)
    return position.code ^ side


@func
def choose_fibre(position: Position, run: Run) -> i32:
    """Code of the next step, or NONE; the first one is along the initial direction."""
    code = position.code
    if i32(position.c1) > 1:
        code = nearest_fibre(run.volume, position.p, position.state.d, run.method, philox(position.c0, position.c1, position.c2, u32(0), u32(run.rules.key[0]), u32(run.rules.key[1])))
    if USE_F:
        if code >= 0:
            w = philox(position.c0, position.c1, position.c2, u32(1), u32(run.rules.key[0]), u32(run.rules.key[1]))
            code = where(run.volume.rows[fibre_at(run.volume, position.p, code) + 3] <= uniform(w[0]), NONE, code)
    if MODIFIED_EULER:
        if code >= 0:
            d = along_fibre(run.volume, position.p, code)
            v = philox(position.c0, position.c1, position.c2, u32(2), u32(run.rules.key[0]), u32(run.rules.key[1]))
            code = code | ((nearest_fibre(run.volume, step_from(position.p, d, run.rules), d, run.method, v) + 1) << BITS)
    return code


@stage
def move_along_fibre(position: Position, run: Run) -> vec3:
    """The point one step on; where nothing is known one step ahead, the step is Euler's."""
    d = along_fibre(run.volume, position.p, position.code)
    if MODIFIED_EULER:
        if (position.code >> BITS) > 0:
            e = along_fibre(run.volume, step_from(position.p, d, run.rules), (position.code >> BITS) - 1)
            d = normalised(vec3(d[0] + e[0], d[1] + e[1], d[2] + e[2]))
    position.state.d = d
    return step_from(position.p, d, run.rules)
