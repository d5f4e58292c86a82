"""Arithmetic of reals of 64 bits that is the same on every device, bit for bit.

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
