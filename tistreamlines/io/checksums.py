"""Checksums of ZIP archives, also of data whose parts several threads sum.

Such a checksum is the remainder of a division of polynomials with coefficients of 0 and 1, which a number of 32 bits
holds from the highest bit on. Data that follow others multiply the remainder of these by x^8 for each of their bytes.
"""

from __future__ import annotations

from functools import cache

from .ahead import quick_zlib

BITS, POLYNOMIAL = 32, 0xEDB88320


def crc32(data: memoryview | bytes, before: int = 0) -> int:
    """Return the checksum of data that follow others with a checksum."""
    return quick_zlib().crc32(data, before)


def join_crc32(first: int, second: int, size: int) -> int:
    """Return the checksum of data in two parts, of those of the parts; the second one has ``size`` bytes."""
    for bit in range(size.bit_length()):
        if size >> bit & 1:
            first = _product(_power(bit), first)
    return first ^ second


@cache
def _power(bit: int) -> int:
    """Return x^8 to the power 2^bit."""
    return _product(_power(bit - 1), _power(bit - 1)) if bit else 1 << BITS - 1 - 8


def _product(first: int, second: int) -> int:
    """Return the product of two remainders."""
    total = 0
    for bit in reversed(range(BITS)):
        if first >> bit & 1:
            total ^= second
        second = second >> 1 ^ (POLYNOMIAL if second & 1 else 0)  # times x
    return total
