"""SD_STREAM: a step follows the peak of the FOD to which the last direction leads uphill (Tournier et al. 2012).

Nothing is drawn but the direction from which the first peak is sought, as in MRtrix3's tckgen.  In a plane, an FOD of order L
is a trigonometric polynomial of the angle, so L + 1 of its values give its derivatives exactly.  The lanes evaluate the FOD
around three great circles through a direction, and weighted sums of the amplitudes are its slopes and second derivatives.

The code of a step is its direction; see :func:`.shared.decoded`.
"""

from __future__ import annotations

from ...linker.lang import *
from ...linker.maths import reciprocal_root
from ..halves import *
from ..interpolate import Volume, interpolate_row
from ..lanes import cross, everywhere, normalised
from ..orientation.amplitudes import harmonic
from ..orientation.peaks import LEAVES, NONE, dot
from .fod import across, has_fod, start_of
from .shared import HeadingScratch, decoded, encoded

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

    Each round follows the gradient, as far as the top of a parabola of the same slope and curvature would be.  Where
    that does not settle in 50 rounds, as on a flat ridge, a half ends.  Newton's method for both axes would find a peak there, in
    half the rounds, but streamlines would be a tenth longer than tckgen's.
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
    return where((change < CLOSE) & (scratch.amplitudes[0] >= method.threshold), encoded(d), NONE)


# ----------------------------------------------------------------------------------------------------------------- half
@func
def begin_at_peak(volume: Volume, p: vec3, method: SdStream, scratch: SdStreamScratch, c0: u32, key: Ints) -> i32:
    """Find the peak uphill from a given or a random direction at a seed; return 0 if it is too low."""
    d = start_of(c0, u32(0), key)
    if DIRECTED:
        d = decoded(scratch.peaks.kept[0])
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
    """Start along the peak that was found at the seed, a backward half against it."""
    d = decoded(position.code >> 1)
    return where(((position.code ^ side) & 1) == 1, encoded(vec3(0.0 - d[0], 0.0 - d[1], 0.0 - d[2])), position.code >> 1)


@func
def choose_peak(position: Position, run: Run) -> i32:
    """Code of the peak uphill from the last direction; NONE if it is too low or too far aside, LEAVES where there is no FOD."""
    chosen = LEAVES
    if team_any(has_fod(run.volume, everywhere(position.p)) == 1) == 1:
        d = decoded(position.code)
        chosen = peak_from(run.method, run.scratch, d)
        if chosen >= 0:
            chosen = where(dot(decoded(chosen), d) < run.method.cos_angle, NONE, chosen)
    return chosen


@stage
def move_to_peak(position: Position, run: Run) -> vec3:
    """The point one step on."""
    return stepped(position.p, decoded(position.code), run.rules)
