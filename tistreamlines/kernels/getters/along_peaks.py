"""SD_STREAM and FACT: a step follows a peak, as in MRtrix3's tckgen.

SD_STREAM follows the peak of the FOD to which the last direction leads uphill (Tournier et al. 2012).  In a plane, an FOD of
order L is a trigonometric polynomial of the angle, so L + 1 of its values give its derivatives exactly.  The lanes evaluate the
FOD around three great circles through a direction, and weighted sums of the amplitudes are its slopes and second derivatives.
FACT follows the peak of a voxel that is most collinear with the last one (Mori et al. 1999).

Nothing is drawn but the direction from which the first peak is sought.  The code of a step is its direction; see
:func:`.shared.decode_direction`.
"""

from ...linker.lang import *
from ...linker.maths import reciprocal_root
from ..halves import *
from ..interpolate import Corners, Volume, find_corners, interpolate_row, row_start
from ..lanes import cross, everywhere, normalised
from ..orientation.amplitudes import harmonic
from ..orientation.peaks import LEAVES, NONE, dot
from .fod import across, has_fod, start_of
from .shared import HeadingScratch, decode_direction, encode_direction

CIRCLE_CHUNKS = Constant("directions around the great circles, rounded up, in units of 32")
CIRCLE_POINTS = Constant("directions around the great circles")
ROUNDS = 50  # after which no peak is found
FARTHEST = 0.2  # radians, of one round
CLOSE = 1e-4  # radians: a round that goes on by less has found the peak
FLAT = 1e-30  # least squared slope, and least curvature, that count
LEVEL = 4e-6  # slope relative to the amplitude that rounding leaves where the FOD is level


class SdStream(Record):
    """Tables of the method.

    ``threshold``, amplitude below which no peak is followed; ``cos_angle``, of the greatest angle.  ``circles``, for each of
    the directions about a pole, the first of which is the pole, and then 32 apart: its parts along the pole and two axes
    across it.  ``weights``, for each of them: how much it adds to the slopes along both axes and to the second derivatives:
    both pure ones, and the mixed one; then zeros up to 32 numbers.
    """

    threshold: real
    cos_angle: real
    circles: Reals
    weights: Reals

    @staticmethod
    def sizes(getter):
        return {"circles": 96 * getter.circle_chunks, "weights": 32 * getter.circle_points}


class SdStreamScratch(HeadingScratch):
    """Team memory; ``amplitudes`` around the great circles, and the ``derivatives``."""

    amplitudes: Reals
    derivatives: Reals

    @staticmethod
    def sizes(getter):
        return HeadingScratch.sizes(getter) | {"amplitudes": 32 * getter.circle_chunks, "derivatives": 32}


# ----------------------------------------------------------------------------------------------------------------- peak
@func
def differentiate(method: SdStream, scratch: SdStreamScratch, d: vec3, u: vec3, v: vec3):
    """Find the amplitudes around a direction, and the derivatives of the FOD there along two axes across it."""
    barrier()
    for chunk in unrolled(CIRCLE_CHUNKS):
        a = at(method.circles, 96 * chunk)
        b = at(method.circles, 96 * chunk + 32)
        c = at(method.circles, 96 * chunk + 64)
        x = (a * d[0] + b * u[0]) + c * v[0]
        y = (a * d[1] + b * u[1]) + c * v[1]
        z = (a * d[2] + b * u[2]) + c * v[2]
        put(scratch.amplitudes, 32 * chunk, harmonic(scratch.row, 0, x, y, z))
    barrier()
    total = lanes(0.0)
    for i in range(CIRCLE_POINTS):
        total = total + scratch.amplitudes[i] * at(method.weights, 32 * i)
    put(scratch.derivatives, 0, total)
    barrier()


@func
def peak_from(method: SdStream, scratch: SdStreamScratch, begin: vec3) -> i32:
    """Code of the peak uphill from a direction, NONE if it is too low (MRtrix3's ``Math::SH::get_peak``).

    Each round follows the gradient, as far as the top of a parabola of the same slope and curvature would be.  A half
    ends if this does not settle in 50 rounds, as on a flat ridge.  Newton's method for both axes would find a peak
    there, in half the rounds, but streamlines would be a tenth longer than tckgen's.
    """
    d = begin
    change = real(FARTHEST)
    turn = 0
    while (turn < ROUNDS) & (change >= CLOSE):
        u = across(d)
        v = cross(d, u)
        differentiate(method, scratch, d, u, v)
        a = scratch.derivatives[0]
        b = scratch.derivatives[1]
        squared = maximum(a * a + b * b, FLAT)
        scale = reciprocal_root(squared)
        a = a * scale
        b = b * scale
        bend = ((a * a) * scratch.derivatives[2] + (b * b) * scratch.derivatives[3]) + (2.0 * (a * b)) * scratch.derivatives[4]
        inverse = reciprocal_root(maximum(absolute(bend), FLAT))
        change = minimum((squared * scale) * (inverse * inverse), FARTHEST)
        change = where(squared * scale > LEVEL * scratch.amplitudes[0], change, 0.0)
        a = a * change
        b = b * change
        d = normalised(vec3(d[0] + (a * u[0] + b * v[0]), d[1] + (a * u[1] + b * v[1]), d[2] + (a * u[2] + b * v[2])))
        turn = turn + 1
    return where((change < CLOSE) & (scratch.amplitudes[0] >= method.threshold), encode_direction(d), NONE)


# ----------------------------------------------------------------------------------------------------------------- half
@func
def begin_at_peak(volume: Volume, p: vec3, method: SdStream, scratch: SdStreamScratch, c0: u32, key: Ints) -> i32:
    """Find the peak uphill from a given or a random direction at a seed; return 0 if it is too low."""
    d = start_of(c0, u32(0), key)
    if DIRECTED:
        d = decode_direction(scratch.peaks.kept[0])
    interpolate_row(volume, p, scratch.row)
    code = NONE
    if team_any(has_fod(volume, everywhere(p)) == 1) == 1:
        code = peak_from(method, scratch, d)
    barrier()
    scratch.peaks.kept[0] = code
    barrier()
    return where(code == NONE, 0, 1)


@stage
def set_out_to_peak(position: Position, side: i32, first: i32, run: Run) -> i32:
    """Start along the peak at the seed, a backward half against it."""
    d = decode_direction(position.code >> 1)
    return where(((position.code ^ side) & 1) == 1, encode_direction(vec3(0.0 - d[0], 0.0 - d[1], 0.0 - d[2])), position.code >> 1)


@func
def choose_peak(position: Position, run: Run) -> i32:
    """Code of the peak uphill from the last direction; NONE if it is too low or too far aside, LEAVES where there is no FOD."""
    chosen = LEAVES
    if team_any(has_fod(run.volume, everywhere(position.p)) == 1) == 1:
        d = decode_direction(position.code)
        chosen = peak_from(run.method, run.scratch, d)
        if chosen >= 0:
            chosen = where(dot(decode_direction(chosen), d) < run.method.cos_angle, NONE, chosen)
    return chosen


@stage
def move_to_peak(position: Position, run: Run) -> vec3:
    """The point one step on."""
    return step_from(position.p, decode_direction(position.code), run.rules)


# ----------------------------------------------------------------------------------------------------------------- FACT
PEAKS = Constant("peaks of a voxel")
BLENDS = Constant("1: peaks of the eight voxels around a point are blended, 0: those of the nearest voxel count")
SHORT = 1e-30  # squared length below which there is no peak


class Fact(Record):
    """Tables of the method: length below which no peak is followed, and squared cosine of the greatest angle.

    A row has x, y and z of each peak in turn.
    """

    threshold: real
    cos_squared: real


@func
def collinear_peak(volume: Volume, row: i32, d: vec3, method: Fact) -> vec3:
    """The peak of a row that is most collinear with a direction, in its sense; zeros if none lies within the angle.

    The squared cosines of two peaks are compared without a division.
    """
    best = 0.0
    length = 1.0
    chosen = -1
    for peak in range(PEAKS):
        c = row + 3 * peak
        squared = (volume.rows[c] * volume.rows[c] + volume.rows[c + 1] * volume.rows[c + 1]) + volume.rows[c + 2] * volume.rows[c + 2]
        along = (volume.rows[c] * d[0] + volume.rows[c + 1] * d[1]) + volume.rows[c + 2] * d[2]
        share = along * along
        within = (squared > SHORT) & (share >= method.cos_squared * squared)
        closer = within & (share * length > best * squared)
        best = where(closer, share, best)
        length = where(closer, squared, length)
        chosen = where(closer, c, chosen)
    x = 0.0
    y = 0.0
    z = 0.0
    if chosen >= 0:
        x = volume.rows[chosen]
        y = volume.rows[chosen + 1]
        z = volume.rows[chosen + 2]
    sense = where((x * d[0] + y * d[1]) + z * d[2] < 0.0, -1.0, 1.0)
    return vec3(sense * x, sense * y, sense * z)


@func
def nearest_row(volume: Volume, p: vec3) -> i32:
    """First element of the row of the voxel nearest to a point inside the image; 0 if it has no peaks."""
    return row_start(volume, i32(floor(p[0] + 0.5)), i32(floor(p[1] + 0.5)), i32(floor(p[2] + 0.5)))


@func
def peak_at(volume: Volume, p: vec3, d: vec3, method: Fact) -> vec3:
    """The peak at a point that a direction leads to; blended, each voxel around it gives the one most collinear."""
    if BLENDS:
        corners = Corners()
        find_corners(corners, volume, p)
        a = collinear_peak(volume, corners.r000, d, method)
        b = collinear_peak(volume, corners.r001, d, method)
        peak = blend_peaks(vec3(corners.w000 * a[0], corners.w000 * a[1], corners.w000 * a[2]), corners.w001, b)
        peak = blend_peaks(peak, corners.w010, collinear_peak(volume, corners.r010, d, method))
        peak = blend_peaks(peak, corners.w011, collinear_peak(volume, corners.r011, d, method))
        peak = blend_peaks(peak, corners.w100, collinear_peak(volume, corners.r100, d, method))
        peak = blend_peaks(peak, corners.w101, collinear_peak(volume, corners.r101, d, method))
        peak = blend_peaks(peak, corners.w110, collinear_peak(volume, corners.r110, d, method))
        peak = blend_peaks(peak, corners.w111, collinear_peak(volume, corners.r111, d, method))
    else:
        peak = collinear_peak(volume, nearest_row(volume, p), d, method)
    return peak


@func
def blend_peaks(peak: vec3, weight: real, more: vec3) -> vec3:
    """The sum of a peak and of the share of another one."""
    return vec3(peak[0] + weight * more[0], peak[1] + weight * more[1], peak[2] + weight * more[2])


@func
def peak_code(volume: Volume, p: vec3, d: vec3, method: Fact) -> i32:
    """Code of the peak at a point that a direction leads to; NONE if it is too short, LEAVES where there are no peaks."""
    code = LEAVES
    if nearest_row(volume, p) > 0:
        peak = peak_at(volume, p, d, method)
        code = NONE
        if dot(peak, peak) >= method.threshold * method.threshold:
            code = encode_direction(peak)
    return code


@func
def begin_at_fixel(volume: Volume, p: vec3, method: Fact, scratch: HeadingScratch, c0: u32, key: Ints) -> i32:
    """Find the peak at a seed that a given or a random direction leads to; return 0 if there is none."""
    d = start_of(c0, u32(0), key)
    if DIRECTED:
        d = decode_direction(scratch.peaks.kept[0])
    code = peak_code(volume, p, d, method)
    barrier()
    scratch.peaks.kept[0] = code
    barrier()
    return where(code >= 0, 1, 0)


@func
def choose_fixel(position: Position, run: Run) -> i32:
    """Code of the peak that the last direction leads to; NONE if it is too short, LEAVES where there are no peaks."""
    return peak_code(run.volume, position.p, decode_direction(position.code), run.method)
