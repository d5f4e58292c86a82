"""Residual bootstrap of an OPDT or CSA orientation function (DIPY's ``BootDirectionGetter``).

At each step, the getter adds residuals drawn with replacement to the signal's fit by spherical harmonics (Berman et al.
2008, Haroon et al. 2009), and fits the model to this signal. The step follows the closest peak of its ODF.  Everything
linear in the signal is computed once for each voxel: a row holds the leverage-corrected, centred residuals and the
coefficients of the fit.  Fit and ODF are evaluated as polynomials of the directions.

OPDT: Tristan-Vega et al. 2009, 2010.  CSA: Aganj et al. 2010.
"""

from ...linker.lang import *
from ...linker.maths import divide, log
from ...linker.rng import philox
from ..interpolate import STOP_CHANNEL
from ..orientation.amplitudes import harmonic
from ..orientation.peaks import *

SIGNAL_CHUNKS = Constant("number of diffusion-weighted signals, rounded up, in units of 32")
PASSES = Constant("the same in units of 64, the signals of a pass")
COEFFICIENTS = Constant("number of spherical harmonics of the order used")
SPLIT = Constant("how many lanes share the fit of one coefficient (power of two)")
GROUPS = Constant("coefficients, rounded up, in units of 32")
FIT_STEPS = Constant("how many of a chunk's signals each of them adds up (a multiple of 4)")
FIT_PATTERN = Constant("where in the transformed signals each of the first 32 lanes begins")
SETS = Constant("sets of transformed signals: one (CSA), or one a harmonic degree (OPDT)")
OPDT = Constant("1: OPDT, 0: CSA")
ATTEMPTS = Constant("maximum number of draws at a point")
UNTIL_FIT = Constant("1: draw again until a peak is within the angle (cuslines), 0: until there is a peak (DIPY)")
ANGULAR = Constant("1: weight the ODF by its angle to the heading")

PASS = 2  # chunks of signals that are drawn with one word a lane and fitted together: GPUs have little team memory
SPAN = 32 * PASS + 1  # of a set of transformed signals, so that sets begin in different banks of shared memory
PATTERN_MASK = 0xFFFF  # more than any offset; shows compilers that no address overflows


class Boot(Record):
    """Tables of the method.

    gradients : x..., y..., z... of the signals' directions; leverage : sqrt(1 - H_tt) [signal]; fit : the fit matrix
    [group][chunk of signals][step][lane]; pattern : FIT_PATTERN as an array; bias : added to a coefficient; change :
    from harmonics to monomials, [group][harmonic][lane].
    """

    sphere: Sphere
    rule: PeakRule
    gradients: Reals
    leverage: Reals
    fit: Reals
    pattern: Ints
    bias: Reals
    change: Reals
    signals: i32
    min_signal: real
    angular_weight: real

    @staticmethod
    def sizes(getter):
        signals, wide = 32 * getter.signal_chunks, 32 * getter.groups
        return {
            "gradients": 3 * signals, "leverage": signals, "fit": signals * getter.groups * getter.fit_steps,
            "pattern": wide, "bias": wide, "change": wide * getter.coefficients,
        }


class BootScratch(Record):
    """Team memory: a point's row, a pass of its transformed signals, partial sums, coefficients, the ODF, the peaks."""

    row: Reals
    transformed: Reals
    sums: Reals
    coefficients: Reals
    odf: Reals
    peaks: PeakScratch

    @staticmethod
    def sizes(getter):
        odf, row, wide = 32 * getter.ball.vertex_chunks, 32 * getter.row.row_chunks, 32 * getter.groups
        transformed = max(getter.sets * SPAN, wide)
        row = max(row + transformed, odf)
        return {"row": row, "transformed": transformed, "sums": wide, "coefficients": wide, "odf": odf}


@func
def b0_scale(method: Boot, row: Reals) -> real:
    """One over the mean b0 signal."""
    return divide(1.0, maximum(row[STOP_CHANNEL - 1], method.min_signal))


@func
def fit_signals(method: Boot, row: Reals, c: i32) -> real:
    """The fit of 32 signals by spherical harmonics, from number ``c`` on."""
    x = at(method.gradients, c)
    y = at(method.gradients, c + 32 * SIGNAL_CHUNKS)
    z = at(method.gradients, c + 64 * SIGNAL_CHUNKS)
    return harmonic(row, 32 * SIGNAL_CHUNKS, x, y, z)


@func
def transform(method: Boot, scratch: BootScratch, signal: real, scale: real, place: i32):
    """Clip and normalise 32 signals, and store the transform in which the model's fit is linear."""
    attenuation = maximum(signal, method.min_signal) * scale
    if OPDT:
        logarithm = log(attenuation)
        product = (attenuation * logarithm) * (-1.5 - logarithm)
        for degree in unrolled(SETS):
            order = real(2 * degree)
            put(scratch.transformed, degree * SPAN + place, product + (0.25 * (order * (order + 1.0))) * attenuation)
    else:
        attenuation = minimum(maximum(attenuation, 0.001), 0.999)
        put(scratch.transformed, place, log(-log(attenuation)))


@func
def share(method: Boot, scratch: BootScratch, group: i32, t: i32) -> real:
    """The transformed signal that each lane multiplies at step ``t``."""
    if GROUPS == 1:
        z = spread(scratch.transformed, t, FIT_PATTERN, at(method.pattern, 0) & PATTERN_MASK)
    else:
        z = take(scratch.transformed, (at(method.pattern, 32 * group) & PATTERN_MASK) + t)
    return z


@func
def begin_fit(scratch: BootScratch):
    """Set the sums to zero."""
    for group in range(GROUPS):
        put(scratch.sums, 32 * group, lanes(0.0))


@func
def fit_pass(method: Boot, scratch: BootScratch, chunk: i32, count: i32):
    """Fit the model to ``count`` transformed chunks of signals, from number ``chunk`` on, and add that to ``sums``.

    Lane j of each of SPLIT parts adds up its share of coefficient j.  Steps that leave the same remainder by 4 are added
    up on their own: four sums that do not wait for one another.
    """
    barrier()
    for group in range(GROUPS):
        first = lanes(0.0)
        second = lanes(0.0)
        third = lanes(0.0)
        fourth = lanes(0.0)
        for k in range(count):
            for turn in unrolled(FIT_STEPS // 4):
                t = k * 32 + turn * 4
                c = 32 * ((group * SIGNAL_CHUNKS + chunk + k) * FIT_STEPS + turn * 4)
                first = first + share(method, scratch, group, t) * at(method.fit, c)
                second = second + share(method, scratch, group, t + 1) * at(method.fit, c + 32)
                third = third + share(method, scratch, group, t + 2) * at(method.fit, c + 64)
                fourth = fourth + share(method, scratch, group, t + 3) * at(method.fit, c + 96)
        put(scratch.sums, 32 * group, at(scratch.sums, 32 * group) + ((first + second) + (third + fourth)))
    barrier()


@func
def end_fit(method: Boot, scratch: BootScratch):
    """Add the partial sums to coefficients of harmonics, and convert these to coefficients of monomials.

    The former overwrite the transformed signals; the latter may overwrite the sums.
    """
    for group in range(GROUPS):
        j = (lane() & (32 // SPLIT - 1)) + 32 * group
        total = take(scratch.sums, j)
        for part in unrolled(SPLIT - 1):
            total = total + take(scratch.sums, j + (part + 1) * (32 // SPLIT))
        put(scratch.transformed, 32 * group, total + at(method.bias, 32 * group))
    barrier()
    for group in range(GROUPS):
        total = lanes(0.0)
        for j in range(COEFFICIENTS):
            total = total + at(method.change, 32 * (group * COEFFICIENTS + j)) * scratch.transformed[j]
        put(scratch.coefficients, 32 * group, total)
    barrier()


@func
def fit_plain(method: Boot, scratch: BootScratch):
    """Fit the model to the measured signals."""
    scale = b0_scale(method, scratch.row)
    mean = scratch.row[STOP_CHANNEL - 2]
    begin_fit(scratch)
    for turn in range(PASSES):
        chunk = turn * PASS
        count = minimum(PASS, SIGNAL_CHUNKS - chunk)
        for k in range(count):
            c = (chunk + k) * 32
            residual = at(method.leverage, c) * (at(scratch.row, c) + mean)
            transform(method, scratch, fit_signals(method, scratch.row, c) + residual, scale, k * 32)
        fit_pass(method, scratch, chunk, count)
    end_fit(method, scratch)


@func
def draw_pass(method: Boot, scratch: BootScratch, word: u32, chunk: i32, count: i32):
    """Transform ``count`` chunks of the signals' fit plus residuals drawn with replacement, from number ``chunk`` on.

    Each lane has a random word, whose first multiply-high draws for the first chunk, the remainder's for the next.
    """
    scale = b0_scale(method, scratch.row)
    n = u32(method.signals)
    for k in range(count):
        residual = take(scratch.row, i32(umulhi(word, n)))
        word = word * n
        transform(method, scratch, fit_signals(method, scratch.row, (chunk + k) * 32) + residual, scale, k * 32)


@func
def fit_drawn(method: Boot, scratch: BootScratch, c0: u32, c1: u32, c2: u32, c3: u32, key: Ints):
    """Fit the model to signals drawn anew; a Philox block of a lane serves four passes."""
    k0 = u32(key[0])
    k1 = u32(key[1])
    begin_fit(scratch)
    for block in range((PASSES + 3) // 4):
        w = philox(lanes(c0), lanes(c1), lanes(c2), c3 + u32(lane() + 32 * block), k0, k1)
        for turn in range(minimum(4, PASSES - 4 * block)):
            chunk = (4 * block + turn) * PASS
            count = minimum(PASS, SIGNAL_CHUNKS - chunk)
            word = where(turn < 2, where(turn == 0, w[0], w[1]), where(turn == 2, w[2], w[3]))
            draw_pass(method, scratch, word, chunk, count)
            fit_pass(method, scratch, chunk, count)
    end_fit(method, scratch)


@func
def sample_odf(method: Boot, scratch: BootScratch, heading: vec3):
    """Sample the ODF on the sphere; store its minimum and maximum in ``sums``."""
    low = lanes(3.0e38)
    high = lanes(-3.0e38)
    for chunk in range(VERTEX_CHUNKS):
        c = chunk * 32
        d = vertices_from(method.sphere, c)
        value = harmonic(scratch.coefficients, 0, d[0], d[1], d[2])
        if ANGULAR:
            cosine = dot(d, heading)
            value = value * ((1.0 - method.angular_weight) + method.angular_weight * absolute(cosine))
        low = minimum(low, value)
        high = maximum(high, value)
        put(scratch.odf, c, value)
    scratch.sums[0] = team_min(low)
    scratch.sums[1] = team_max(high)


@func
def odf_peaks(method: Boot, scratch: BootScratch, heading: vec3) -> i32:
    """Sample the ODF and find its peaks; return their number."""
    sample_odf(method, scratch, heading)
    return find_peaks(scratch.odf, method.sphere, method.rule, scratch.peaks, scratch.sums[0], scratch.sums[1])


@func
def initial_directions(method: Boot, scratch: BootScratch) -> i32:
    """Find the peaks of the measured signals' ODF at a point; return their number (``kept`` lists the vertices)."""
    barrier()
    fit_plain(method, scratch)
    return odf_peaks(method, scratch, vec3(0.0, 0.0, 0.0))


@func
def next_direction(
    method: Boot, scratch: BootScratch, heading: vec3, attempt: i32, c0: u32, c1: u32, c2: u32, key: Ints
) -> i32:
    """Code of the next direction at the point whose row is in the scratch; NONE, or AGAIN for another draw."""
    fit_drawn(method, scratch, c0, c1, c2, u32(attempt << 16), key)
    count = odf_peaks(method, scratch, heading)
    code = NONE
    if count > 0:
        code = closest_peak(method.sphere, method.rule, scratch.peaks, count, heading)
    again = count == 0
    if UNTIL_FIT:
        again = code < 0
    if again & (attempt + 1 < ATTEMPTS):
        code = AGAIN
    return code
