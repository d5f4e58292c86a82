"""Arithmetic that is the same on every device, bit for bit: division, roots, logarithm, exponential.

GPUs differ in how they round division and square root, and libraries in their logarithms.  These functions use only
integers, and sums and products of reals, which all devices round in the same way.
"""

from __future__ import annotations

from .lang import *


@func
def divide(a: real, b: real) -> real:
    """``a / b`` correctly rounded, for positive normal float32 (long division of the significands, 8 bits a time)."""
    x = bits(a)
    y = bits(b)
    numerator = u32((x & 0x7FFFFF) | 0x800000)
    denominator = u32((y & 0x7FFFFF) | 0x800000)
    exponent = (x >> 23) - (y >> 23)
    if numerator < denominator:
        numerator = numerator << u32(1)
        exponent = exponent - 1
    quotient = numerator // denominator
    rest = numerator - quotient * denominator
    for _ in range(3):
        rest = rest << u32(8)
        digit = rest // denominator
        rest = rest - digit * denominator
        quotient = (quotient << u32(8)) | digit
    # quotient holds 25 significant bits: the last decides the rounding, the rest breaks a tie upwards of it
    rounded = i32(quotient >> u32(1))
    if (quotient & u32(1)) == u32(1):
        if rest > u32(0):
            rounded = rounded + 1
        else:
            rounded = rounded + (rounded & 1)
    return from_bits(rounded + ((exponent + 126) << 23))


@func
def square_root(a: real) -> real:
    """Square root of a positive normal float32, correctly rounded (two bits of the radicand a turn)."""
    x = bits(a)
    exponent = (x >> 23) - 127
    odd = exponent & 1
    radicand = u32((x & 0x7FFFFF) | 0x800000) << u32(1 + odd)
    root = u32(0)
    rest = u32(0)
    for turn in range(25):
        rest = rest << u32(2)
        if turn < 13:
            rest = rest | ((radicand >> u32(24 - 2 * turn)) & u32(3))
        trial = (root << u32(2)) | u32(1)
        root = root << u32(1)
        if rest >= trial:
            rest = rest - trial
            root = root | u32(1)
    # 25 significant bits; a square root never lies half way between two floats, so the last bit decides
    rounded = i32(root >> u32(1)) + i32(root & u32(1))
    return from_bits(rounded + ((((exponent - odd) >> 1) + 126) << 23))


@func
def log(x: real) -> real:
    """Natural logarithm of a positive normal float32, to within 2 units in the last place.

    Range reduction to [sqrt(1/2), sqrt(2)) and the minimax polynomial of Cephes' ``logf`` (Moshier 1989).
    """
    b = bits(x)
    small = (b & 0x7FFFFF) < 0x3504F3
    e = real(((b >> 23) & 255) - where(small, 127, 126))
    m = from_bits((b & 0x7FFFFF) | where(small, 0x3F800000, 0x3F000000)) - 1.0
    z = m * m
    y = 7.0376836292e-2 * m - 1.1514610310e-1
    y = y * m + 1.1676998740e-1
    y = y * m - 1.2420140846e-1
    y = y * m + 1.4249322787e-1
    y = y * m - 1.6668057665e-1
    y = y * m + 2.0000714765e-1
    y = y * m - 2.4999993993e-1
    y = y * m + 3.3333331174e-1
    y = (y * m) * z
    y = y - 2.12194440e-4 * e
    y = y - 0.5 * z
    return (m + y) + 0.693359375 * e


@func
def reciprocal_root(x: real) -> real:
    """``1 / sqrt(x)`` of a positive normal float32 to within 2.5 units in the last place; of 0 a large number.

    Newton's iteration from Lomont's 2003 guess; no branch and no loop over bits, so lanes can share it.
    """
    half = 0.5 * x
    y = from_bits(0x5F375A86 - (bits(x) >> 1))
    y = y * (1.5 - (half * y) * y)
    y = y * (1.5 - (half * y) * y)
    y = y * (1.5 - (half * y) * y)
    return y * (1.5 - (half * y) * y)


@func
def exp(x: real) -> real:
    """``e**x`` to within 2 units in the last place, for results that are normal float32 (-87 <= x <= 88).

    Cephes' ``expf`` (Moshier 1989): e**x = 2**n e**r with r at most log(2) / 2.
    """
    n = floored(1.44269504088896341 * x + 0.5)
    r = (x - 0.693359375 * n) + 2.12194440e-4 * n
    y = 1.9875691500e-4 * r + 1.3981999507e-3
    y = y * r + 8.3334519073e-3
    y = y * r + 4.1665795894e-2
    y = y * r + 1.6666665459e-1
    y = y * r + 5.0000001201e-1
    y = ((y * r) * r + r) + 1.0
    return y * from_bits((i32(n) + 127) << 23)


@func
def floored(x: real) -> real:
    """Largest whole number not above ``x``, if it fits an int; for lane values too."""
    whole = real(i32(x))
    return where(whole > x, whole - 1.0, whole)


@func
def quarter_turn(x: real) -> vec3:
    """Cosine and sine of ``x`` quarter turns, for ``x`` of -0.5 to 0.5, to within 1e-7 (Taylor's series)."""
    t = 1.5707963267948966 * x
    s = t * t
    c = s * 2.48015873015873e-5 - 1.388888888888889e-3
    c = c * s + 4.1666666666666664e-2
    c = c * s - 0.5
    c = c * s + 1.0
    d = s * 2.7557319223985893e-6 - 1.984126984126984e-4
    d = d * s + 8.333333333333333e-3
    d = d * s - 0.16666666666666666
    d = d * s + 1.0
    return vec3(c, d * t, 0.0)
