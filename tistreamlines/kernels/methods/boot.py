"""Residual bootstrap of an OPDT or CSA orientation function (DIPY's ``BootDirectionGetter``).

At each step the signal's fit by spherical harmonics gets residuals drawn with replacement (Berman et al. 2008,
Haroon et al. 2009), the model is fitted to that signal, and the closest peak of its ODF is followed.  What is
linear in the signal is done once for each voxel: a row holds the leveraged, centred residuals and the coefficients
of the fit on an orthonormal basis U of the harmonics (the hat matrix is U U^T), so no square matrix is left.

OPDT: Tristan-Vega et al. 2009, 2010.  CSA: Aganj et al. 2010.
"""

from __future__ import annotations

from ..interpolate import ROW_CHUNKS
from ..lang import (
    Constant,
    Ints,
    Reals,
    Record,
    absolute,
    at,
    barrier,
    i32,
    lane,
    lanes,
    maximum,
    minimum,
    put,
    real,
    spread,
    take,
    team_max,
    team_min,
    twin,
    u32,
    umulhi,
    unrolled,
    vec3,
    where,
)
from ..maths import divide, log
from ..peaks import NONE, VERTEX_CHUNKS, VERTEX_UNROLL, PeakRule, PeakScratch, Sphere, closest_peak, find_peaks
from ..rng import philox

SIGNAL_CHUNKS = Constant("number of diffusion-weighted signals, rounded up, in units of 32")
SIGNAL_BLOCKS = Constant("the same in units of 256: one Philox block of a lane draws eight residuals")
COEFFICIENTS = Constant("number of spherical harmonics of the order used")
SPLIT = Constant("how many lanes share the fit of one coefficient (power of two)")
GROUPS = Constant("coefficients, rounded up, in units of 32")
FIT_STEPS = Constant("signals that each of them adds up")
FIT_UNROLL = Constant("steps of the fit that a compiler writes out (a multiple of 4 that divides FIT_STEPS)")
FIT_PATTERN = Constant("where in the transformed signals each of the first 32 lanes begins")
SPAN = Constant("length of one set of transformed signals")
SETS = Constant("sets of transformed signals: one (CSA), or one a harmonic degree (OPDT)")
OPDT = Constant("1: OPDT, 0: CSA")
ATTEMPTS = Constant("draws made before giving up")
UNTIL_FIT = Constant("1: draw again until a peak is within the angle (cuslines), 0: until there is a peak (DIPY)")
ANGULAR = Constant("1: weight the ODF by its angle to the heading")

PATTERN_MASK = 0xFFFF  # more than any offset; tells compilers that no address overflows


class Boot(Record):
    """Tables of the method.

    basis : U, [coefficient][signal]; leverage : sqrt(1 - H_tt) [signal]; fit : the fit matrix [step][lane];
    pattern : FIT_PATTERN as an array; bias : added to a coefficient; sampling : harmonics [coefficient][vertex].
    The first coefficient, of degree 0, has the same factor everywhere: first_basis, first_harmonic.
    """

    sphere: Sphere
    rule: PeakRule
    basis: Reals
    leverage: Reals
    fit: Reals
    pattern: Ints
    bias: Reals
    sampling: Reals
    first_basis: real
    first_harmonic: real
    signals: i32
    min_signal: real
    angular_weight: real


class BootScratch(Record):
    """Team memory: a point's row, its transformed signals, partial sums, coefficients, the ODF, the peaks."""

    row: Reals
    transformed: Reals
    sums: Reals
    coefficients: Reals
    odf: Reals
    peaks: PeakScratch


@twin
def b0_scale(method: Boot, row: Reals) -> real:
    """One over the mean b0 signal."""
    return divide(1.0, maximum(row[32 * ROW_CHUNKS - 2], method.min_signal))


@twin
def fitted(method: Boot, row: Reals, c: i32) -> real:
    """The harmonics' fit of 32 signals from ``c`` on."""
    h = lanes(method.first_basis * row[32 * SIGNAL_CHUNKS])
    for j in unrolled(COEFFICIENTS - 1):
        h = h + at(method.basis, j * (32 * SIGNAL_CHUNKS) + c) * row[32 * SIGNAL_CHUNKS + 1 + j]
    return h


@twin
def transform(method: Boot, scratch: BootScratch, signal: real, scale: real, c: i32):
    """Clip and normalise 32 signals and put down what the model's fit is linear in."""
    attenuation = maximum(signal, method.min_signal) * scale
    if OPDT:
        logarithm = log(attenuation)
        product = (attenuation * logarithm) * (-1.5 - logarithm)
        for degree in unrolled(SETS):
            order = real(2 * degree)
            put(scratch.transformed, degree * SPAN + c, product + (0.25 * (order * (order + 1.0))) * attenuation)
    else:
        attenuation = minimum(maximum(attenuation, 0.001), 0.999)
        put(scratch.transformed, c, log(-log(attenuation)))


@twin
def plain_signals(method: Boot, scratch: BootScratch):
    """Transform the signals as they are."""
    scale = b0_scale(method, scratch.row)
    mean = scratch.row[32 * ROW_CHUNKS - 3]
    for chunk in range(SIGNAL_CHUNKS):
        c = chunk * 32
        residual = at(method.leverage, c) * (at(scratch.row, c) + mean)
        transform(method, scratch, fitted(method, scratch.row, c) + residual, scale, c)


@twin
def drawn_signals(method: Boot, scratch: BootScratch, c0: u32, c1: u32, c2: u32, c3: u32, key: Ints):
    """Transform the signals' fit plus residuals drawn with replacement.

    Signal l + 32 k belongs to lane l and is drawn by word k // 2 mod 4 of the lane's block k // 8: its first
    multiply-high serves an even k, the remainder's an odd one.
    """
    scale = b0_scale(method, scratch.row)
    n = u32(method.signals)
    k0 = u32(key[0])
    k1 = u32(key[1])
    for block in range(SIGNAL_BLOCKS):
        w = philox(lanes(c0), lanes(c1), lanes(c2), c3 + u32(lane() + 32 * block), k0, k1)
        for k in range(minimum(8, SIGNAL_CHUNKS - 8 * block)):
            c = (block * 8 + k) * 32
            word = where(k < 4, where(k < 2, w[0], w[1]), where(k < 6, w[2], w[3]))
            word = where((k & 1) == 1, word * n, word)
            residual = take(scratch.row, i32(umulhi(word, n)))
            transform(method, scratch, fitted(method, scratch.row, c) + residual, scale, c)


@twin
def share(method: Boot, scratch: BootScratch, group: i32, t: i32) -> real:
    """The transformed signal that each lane multiplies at step ``t``."""
    if GROUPS == 1:
        z = spread(scratch.transformed, t, FIT_PATTERN, at(method.pattern, 0) & PATTERN_MASK)
    else:
        z = take(scratch.transformed, (at(method.pattern, 32 * group) & PATTERN_MASK) + t)
    return z


@twin
def fit_model(method: Boot, scratch: BootScratch):
    """Fit the model to the transformed signals: lane j of each of SPLIT parts adds up its share of coefficient j.

    Steps that leave the same remainder by 4 are added up on their own: four sums that do not wait for one another.
    """
    barrier()
    for group in range(GROUPS):
        first = lanes(0.0)
        second = lanes(0.0)
        third = lanes(0.0)
        fourth = lanes(0.0)
        for block in range(FIT_STEPS // FIT_UNROLL):
            for turn in unrolled(FIT_UNROLL // 4):
                t = block * FIT_UNROLL + turn * 4
                c = 32 * (group * FIT_STEPS + t)
                first = first + share(method, scratch, group, t) * at(method.fit, c)
                second = second + share(method, scratch, group, t + 1) * at(method.fit, c + 32)
                third = third + share(method, scratch, group, t + 2) * at(method.fit, c + 64)
                fourth = fourth + share(method, scratch, group, t + 3) * at(method.fit, c + 96)
        put(scratch.sums, 32 * group, (first + second) + (third + fourth))
    barrier()
    for group in range(GROUPS):
        j = (lane() & (32 // SPLIT - 1)) + 32 * group
        total = take(scratch.sums, j)
        for part in unrolled(SPLIT - 1):
            total = total + take(scratch.sums, j + (part + 1) * (32 // SPLIT))
        put(scratch.coefficients, 32 * group, total + at(method.bias, 32 * group))
    barrier()


@twin
def sample_odf(method: Boot, scratch: BootScratch, heading: vec3):
    """Sample the ODF on the sphere; its least and greatest sample go to ``sums``."""
    mean = lanes(method.first_harmonic * scratch.coefficients[0])
    low = lanes(3.0e38)
    high = lanes(-3.0e38)
    for block in range(VERTEX_CHUNKS // VERTEX_UNROLL):
        for turn in unrolled(VERTEX_UNROLL):
            c = (block * VERTEX_UNROLL + turn) * 32
            value = mean
            for j in unrolled(COEFFICIENTS - 1):
                value = value + at(method.sampling, j * (32 * VERTEX_CHUNKS) + c) * scratch.coefficients[j + 1]
            if ANGULAR:
                cosine = at(method.sphere.vertices, c) * heading[0]
                cosine = cosine + at(method.sphere.vertices, c + 32 * VERTEX_CHUNKS) * heading[1]
                cosine = cosine + at(method.sphere.vertices, c + 64 * VERTEX_CHUNKS) * heading[2]
                value = value * ((1.0 - method.angular_weight) + method.angular_weight * absolute(cosine))
            low = minimum(low, value)
            high = maximum(high, value)
            put(scratch.odf, c, value)
    scratch.sums[0] = team_min(low)
    scratch.sums[1] = team_max(high)


@twin
def odf_peaks(method: Boot, scratch: BootScratch, heading: vec3) -> i32:
    """Sample the ODF and find its peaks; return their number."""
    sample_odf(method, scratch, heading)
    return find_peaks(scratch.odf, method.sphere, method.rule, scratch.peaks, scratch.sums[0], scratch.sums[1])


@twin
def initial_directions(method: Boot, scratch: BootScratch) -> i32:
    """Peaks of the plain ODF at the point whose row is in the scratch: their number (``kept`` lists the vertices)."""
    barrier()
    plain_signals(method, scratch)
    fit_model(method, scratch)
    return odf_peaks(method, scratch, vec3(0.0, 0.0, 0.0))


@twin
def next_direction(
    method: Boot, scratch: BootScratch, heading: vec3, c0: u32, c1: u32, c2: u32, key: Ints
) -> i32:
    """Code of the direction to follow from the point whose row is in the scratch, or NONE."""
    code = NONE
    attempt = 0
    while attempt < ATTEMPTS:
        drawn_signals(method, scratch, c0, c1, c2, u32(attempt << 16), key)
        fit_model(method, scratch)
        count = odf_peaks(method, scratch, heading)
        attempt = attempt + 1
        if count > 0:
            code = closest_peak(method.sphere, method.rule, scratch.peaks, count, heading)
            if UNTIL_FIT == 0:
                attempt = ATTEMPTS
            if code >= 0:
                attempt = ATTEMPTS
    return code
