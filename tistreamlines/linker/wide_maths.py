"""Arithmetic of reals of 64 bits that is the same on every device, bit for bit, of one value or of lanes.

Inverses and roots begin with a guess from the bits of the float32 next to their argument, which has to be a normal number.

Devices differ in how they round division and square root, and the language has no operation that rounds a product and a
sum once. So an error of a product is computed from the halves of its factors, each of 26 bits (Dekker 1971). It tells
exactly whether a neighbour of the approximation is nearer. On the CPU, its own division and square root replace these
functions (``backends/numba/dialect.py``).
"""

from __future__ import annotations

from .lang import *

SPLIT = 134217729.0  # 2^27 + 1
NEXT = 1.1102230246251568e-16  # slightly more than 2^-53: a number and so much of it are rounded to the next number
LEAST, GREATEST = 1.0e-250, 1.0e250  # quotients whose errors are computed


@func
def rough_inverse(x: real) -> real:
    """``1 / x`` of a positive number, to 1e-7 of it."""
    y = real(from_bits(0x7EF311C7 - bits(x)))
    for _ in unrolled(3):  # Newton's method
        y = y * (2.0 - x * y)
    return y


@func
def inverse(x: real) -> real:
    """``1 / x`` of a positive number, to within a few units in the last place."""
    y = rough_inverse(x)
    for _ in unrolled(2):
        y = y * (2.0 - x * y)
    return y


@func
def inverse_root(x: real) -> real:
    """``1 / square_root(x)`` of a positive number, to within a few units in the last place."""
    half = 0.5 * x
    y = real(from_bits(0x5F3759DF - (bits(x) >> 1)))
    for _ in unrolled(4):  # Newton's method
        y = y * (1.5 - half * y * y)
    return y


@func
def log_of_bits(b: i32) -> real:
    """Natural logarithm of the positive normal float32 that has these bits, to within 1.1e-13.

    A minimax polynomial after range reduction to [sqrt(1/2), sqrt(2)).
    """
    small = (b & 0x7FFFFF) < 0x3504F3
    e = real((b >> 23) - where(small, 127, 126))
    m = real(from_bits((b & 0x7FFFFF) | where(small, 0x3F800000, 0x3F000000))) - 1.0
    y = 0.07920684271924677 - 0.038871612816231214 * m
    y = y * m - 0.0824502565074284
    y = y * m + 0.0769951228297265
    y = y * m - 0.081813256819716
    y = y * m + 0.09072787538010386
    y = y * m - 0.10010029904388151
    y = y * m + 0.11112762228270176
    y = y * m - 0.12499653070523752
    y = y * m + 0.14285651767534413
    y = y * m - 0.1666667282322684
    y = y * m + 0.2000000104854377
    y = y * m - 0.24999999950761742
    y = y * m + 0.3333333332696426
    y = y * m - 0.5000000000011996
    y = y * m + 1.0000000000000617
    return y * m + 0.6931471805599453 * e


@func
def wide_log(x: real) -> real:
    """Natural logarithm of a positive number that is a normal one as float32, to within 1.2e-13."""
    word = bits(x)
    near = real(from_bits(word))
    return log_of_bits(word) + (x - near) * rough_inverse(near)


@func
def wide_exp(x: real) -> real:
    """``e**x`` to 4e-13 of it, for -80 <= x <= 80.

    e**x = 2**n (e**r)**2 with r at most log(2) / 4, and a minimax polynomial for e**r.
    """
    n = i32(1.4426950408889634 * x + 128.5)
    r = 0.5 * x - 0.34657359027997264 * real(n - 128)
    y = 0.0013903790720754155 + 0.00019857826051135032 * r
    y = y * r + 0.008333330225753742
    y = y * r + 0.041666638695396344
    y = y * r + 0.1666666666855306
    y = y * r + 0.5000000001679955
    y = y * r + 0.9999999999999825
    y = y * r + 0.9999999999998423
    return (y * y) * real(from_bits((n - 1) << 23))


@func
def remainder(a: real, q: real, b: real) -> real:
    """``a - q b`` exactly, for ``q`` next to ``a / b``."""
    product = q * b
    shifted = SPLIT * q
    high = shifted - (shifted - q)
    low = q - high
    shifted = SPLIT * b
    upper = shifted - (shifted - b)
    lower = b - upper
    error = ((high * upper - product) + high * lower + low * upper) + low * lower
    return (a - product) - error


@func
def neighbour(x: real, direction: real) -> real:
    """The next number above ``x``, or below it if the direction is negative."""
    step = NEXT * absolute(x)
    return where(direction < 0.0, x - step, x + step)


@func
def divide(a: real, b: real) -> real:
    """``a / b`` correctly rounded, for ``b`` from 1e-30 to 1e30; a quotient beyond 1e-250 or 1e250 is less exact."""
    share = inverse(b)
    rough = a * share
    q = rough + share * remainder(a, rough, b)
    rest = remainder(a, q, b)
    other = neighbour(q, rest)
    q = where(2.0 * absolute(rest) > absolute(other - q) * b, other, q)
    size = absolute(rough)
    return where((size > LEAST) & (size < GREATEST), q, rough)


@func
def square_root(a: real) -> real:
    """Square root, correctly rounded, of a number from 1e-30 to 1e30."""
    share = inverse_root(a)
    rough = a * share
    root = rough + 0.5 * share * remainder(a, rough, rough)
    rest = remainder(a, root, root)
    other = neighbour(root, rest)
    limit = root * (other - root)  # the rest is a whole multiple of the last place's square, so no quarter of it counts
    return where(rest < 0.0, where(rest <= limit, other, root), where(rest > limit, other, root))
