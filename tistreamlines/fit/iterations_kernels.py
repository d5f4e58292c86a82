"""The kernel of FA by iterated least squares, as MRtrix3's ``dwi2tensor`` fits: 32 voxels, a lane of a team for each.

The first fit has the squared signals as weights, each other one the squared signals that the fit before predicts. It
fits the residuals of that one, which loses fewer digits. :mod:`.tensor_kernels` explains the coefficients and the sums.
"""

from ..linker.lang import *
from ..linker.wide_maths import inverse, inverse_root, log_of_bits
from .tensor_kernels import (
    BIG,
    CHUNK,
    FAINTEST,
    HIGHEST,
    NOT_FINITE,
    SUMS,
    TINY,
    UNDETERMINED,
    Model,
    Working,
    add_up,
    solve,
    weigh,
)

NO_LOG = 0x00800000  # bits of float32 below these have no logarithm here


@func
def brightest_signal(volumes: i32, voxel: i32, signals: Ints) -> i32:
    """Bits of the greatest signal of each lane's voxel; more than those of infinity if a signal is no number."""
    greatest = lanes(0)
    for i in range(volumes):
        word = take(signals, volumes * voxel + i)
        greatest = maximum(greatest, where((word & 0x7FFFFFFF) > NOT_FINITE, 0x7FFFFFFF, word))
    return greatest


@func
def read_signals(
    first: i32, count: i32, volumes: i32, voxel: i32, brightest: i32, least: i32, signals: Ints, work: Working
):
    """Logarithms of some volumes of each lane's voxel, and as weights their squares over the brightest one's."""
    scale = inverse(real(from_bits(brightest)))
    for i in range(count):
        word = maximum(take(signals, volumes * voxel + (first + i)), least)
        share = scale * real(from_bits(word))
        put(work.weights, 32 * i, share * share)
        put(work.logs, 32 * i, log_of_bits(word))


@func
def weigh_logs(count: i32, work: Working) -> real:
    """Multiply the residuals of some volumes by their weights."""
    for i in range(count):
        put(work.logs, 32 * i, at(work.weights, 32 * i) * (at(work.logs, 32 * i) - at(work.fit, 32 * 6)))
    return lanes(0.0)


@func
def add_equations(first: i32, count: i32, volumes: i32, model: Model, work: Working):
    """Add some weighted volumes to the normal equations."""
    for i in range(7):
        for j in range(7 - i):
            element = 9 * i + j
            add_up(volumes * element + first, count, model.products, 0, work.weights, element, work.sums)
        add_up(volumes * i + first, count, model.design, 0, work.logs, 8 * i + 7, work.sums)


@func
def anisotropy(scales: Reals, fit: Reals) -> real:
    """FA of the tensor from its elements, so that eigenvalues may be negative."""
    xx = scales[0] * at(fit, 0)
    yy = scales[1] * at(fit, 32)
    zz = scales[2] * at(fit, 64)
    yz = scales[3] * at(fit, 96)
    xz = scales[4] * at(fit, 128)
    xy = scales[5] * at(fit, 160)
    mixed = yz * yz + xz * xz + xy * xy
    differences = (xx - yy) * (xx - yy) + (yy - zz) * (yy - zz) + (zz - xx) * (zz - xx)
    total = (xx * xx + yy * yy + zz * zz) + 2.0 * mixed
    square = (0.5 * differences + 3.0 * mixed) * inverse(maximum(total, TINY))
    return square * inverse_root(maximum(square, TINY))


@func
def fit_iterated(
    item: i32, voxels: i32, volumes: i32, fits: i32, share: real, signals: Ints, model: Model, work: Working, out: Ints
):
    """FA of 32 voxels, each the sum of two float32, whose bits lie in two rows of ``out``; UNDETERMINED if it has none.

    Signals are the bits of float32, in rows of ``volumes``; they are at least so much of the brightest.
    """
    voxel = minimum(32 * item + lane(), voxels - 1)
    brightest = brightest_signal(volumes, voxel, signals)
    regular = (brightest < NOT_FINITE) & (brightest > NO_LOG)
    brightest = where(regular, brightest, 0x3F800000)
    least = maximum(bits(share * real(from_bits(brightest))), NO_LOG)
    for k in range(6):
        put(work.fit, 32 * k, lanes(0.0))
    put(work.fit, 32 * 6, log_of_bits(brightest))
    for turn in range(fits):
        for k in range(SUMS):
            put(work.sums, 32 * k, lanes(0.0))
        greatest = lanes(0.0 - BIG)
        for part in range((volumes + CHUNK - 1) // CHUNK):
            first = CHUNK * part
            count = minimum(CHUNK, volumes - first)
            read_signals(first, count, volumes, voxel, brightest, least, signals, work)
            if turn == 0:
                greatest = weigh_logs(count, work)
            else:
                greatest = maximum(greatest, weigh(first, count, 0, volumes, model, work))
            add_equations(first, count, volumes, model, work)
        determined = solve(work.sums)
        regular = regular & (determined == 1)
        regular = regular & (greatest > FAINTEST)
        regular = regular & (greatest < HIGHEST)
        for k in range(7):
            put(work.fit, 32 * k, at(work.fit, 32 * k) + at(work.sums, 32 * (8 * k + 7)))
    fa = where(regular, anisotropy(model.scales, work.fit), UNDETERMINED)
    high = bits(fa)
    put(out, 64 * item, high)
    put(out, 64 * item + 32, bits(fa - real(from_bits(high))))
