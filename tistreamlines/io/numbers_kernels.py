"""The kernel of :mod:`.number_lines`, which loads a copy of this file, hence the whole name of a module.

Digits are those of the exact value, rounded half to even, as Python's ``%.9g`` and ``%.10g`` have them: a product with
a power of ten comes with its rounding error, by the splitting of Dekker (Numerische Mathematik 18, 1971).
"""

from __future__ import annotations

import numpy as np

from tistreamlines.backends.numba.compiler import compiled

LEAST, GREATEST = 1e-12, 1e21  # within which powers of ten up to 10^22 do, which are exact
WHOLE = 2.0**53  # below which a real is a whole number exactly
SPLIT = 134217729.0  # 2^27 + 1
LOG_2 = 0.30102999566398114  # of base 10, rounded down
ZERO, MINUS, PLUS, POINT, EXPONENT, SMALL_A, SMALL_N, LINE = 48, 45, 43, 46, 101, 97, 110, 10  # characters
SIZE = np.int64((1 << 63) - 1)  # bits of a real but for its sign


@compiled
def error_of_product(a, b, product):
    """Return by how much the exact product of two reals is above the rounded one."""
    high = SPLIT * a
    high = high - (high - a)
    low = a - high
    other = SPLIT * b
    other = other - (other - b)
    rest = b - other
    return ((high * other - product) + high * rest + low * other) + low * rest


@compiled
def scaled(value, tens, places):
    """Return a value times a power of ten, and the rounding error, of which only the sign is exact."""
    if places >= 0:
        product = value * tens[places]
        return product, error_of_product(value, tens[places], product)
    quotient = value / tens[-places]
    product = quotient * tens[-places]
    return quotient, (value - product) - error_of_product(quotient, tens[-places], product)


@compiled
def digits_of(value, bits, tens, precision):
    """Return so many digits of a value above 0 as a whole number, and the power of ten of the first one.

    ``bits`` are those of the value, whose first ones are its power of two.
    """
    exponent = np.int64(np.floor(((bits >> 52) - 1023) * LOG_2))
    number, more = scaled(value, tens, precision - 1 - exponent)
    if number >= tens[precision]:
        exponent += 1
        number, more = scaled(value, tens, precision - 1 - exponent)
    whole = np.floor(number)
    digits = np.int64(whole)
    half = (number - whole) - 0.5
    if half > 0.0 or (half == 0.0 and (more > 0.0 or (more == 0.0 and digits % 2 == 1))):
        digits += 1
    if digits == np.int64(tens[precision]):
        digits = np.int64(tens[precision - 1])
        exponent += 1
    return digits, exponent


@compiled
def put_whole(number, count, text, place):
    """Write the digits of a whole number from 0 on, at least so many; return the place after them."""
    size = 1
    bound = np.int64(10)
    while number >= bound or size < count:
        size += 1
        bound *= 10
    for back in range(size):
        text[place + size - 1 - back] = ZERO + number % 10
        number //= 10
    return place + size


@compiled
def put_real(value, bits, tens, precision, text, place):
    """Write a value above 0 with so many digits; return the place after it."""
    digits, exponent = digits_of(value, bits, tens, precision)
    kept = precision
    while digits % 10 == 0:
        digits //= 10
        kept -= 1
    if exponent < -4 or exponent >= precision:
        last = put_whole(digits, kept, text, place + (1 if kept > 1 else 0))
        if kept > 1:
            text[place] = text[place + 1]
            text[place + 1] = POINT
        text[last] = EXPONENT
        text[last + 1] = MINUS if exponent < 0 else PLUS
        return put_whole(abs(exponent), 2, text, last + 2)
    if exponent < 0:
        text[place] = ZERO
        text[place + 1] = POINT
        return put_whole(digits, kept - exponent - 1, text, place + 2)
    whole = exponent + 1
    if kept <= whole:
        last = put_whole(digits, kept, text, place)
        for _ in range(kept, whole):
            text[last] = ZERO
            last += 1
        return last
    last = put_whole(digits, kept, text, place + 1)
    for index in range(whole):
        text[place + index] = text[place + index + 1]
    text[place + whole] = POINT
    return last


@compiled
def put_number(value, bits, whole, tens, precision, text, place):
    """Write a value, as a whole number if it is one of those; return the place after it."""
    if value < 0.0:
        text[place] = MINUS
        place += 1
        value = -value
    if value == 0.0:
        text[place] = ZERO
        return place + 1
    if value != value:
        text[place] = text[place + 2] = SMALL_N
        text[place + 1] = SMALL_A
        return place + 3
    if whole:
        return put_whole(np.int64(value), 1, text, place)
    return put_real(value, bits & SIZE, tens, precision, text, place)


@compiled
def write_lines(values, bits, tens, precision, separator, text, state):
    """Write a line for each row of values, (n, m), of which ``bits`` are the bits, with so many digits.

    ``state`` receives the number of bytes, or -1 if there is an infinite value, or one beyond LEAST or GREATEST.
    """
    place = 0
    for row in range(values.shape[0]):
        whole = True
        for column in range(values.shape[1]):
            size = abs(values[row, column])
            if size != 0.0 and (size < LEAST or size > GREATEST):
                state[0] = -1
                return
            if not size < WHOLE or size != np.floor(size):
                whole = False
        for column in range(values.shape[1]):
            if column > 0:
                text[place] = separator
                place += 1
            place = put_number(values[row, column], bits[row, column], whole, tens, precision, text, place)
        text[place] = LINE
        place += 1
    state[0] = place


@compiled
def write_symmetric(uppers, columns, lowers, order, rows, values, bits, tens, precision, separator, cells, ends, wholes,
                    text, state):
    """Write a symmetric matrix as :func:`write_lines` does; its upper triangle has few values.

    Row k has the values from ``uppers[k]`` to ``uppers[k + 1]``, in ``columns``, and below the diagonal those of
    ``order[lowers[k]:lowers[k + 1]]``, whose columns are their ``rows``. ``cells``, ``ends`` and ``wholes`` are memory
    for the text of each value, and for whether a row has whole numbers alone.
    """
    count = len(uppers) - 1
    for row in range(count):
        wholes[row] = 1
    place = 0
    for edge in range(len(values)):
        value = values[edge]
        size = abs(value)
        if size != 0.0 and (size < LEAST or size > GREATEST):
            state[0] = -1
            return
        whole = size < WHOLE and size == np.floor(size)
        if not whole:
            wholes[rows[edge]] = wholes[columns[edge]] = 0
        if not (whole and size >= tens[precision]):  # else the text depends on others of its row
            place = put_number(value, bits[edge], whole, tens, precision, cells, place)
        ends[edge] = place
    place = 0
    for row in range(count):
        column = 0
        first, last = lowers[row], lowers[row + 1] + uppers[row + 1] - uppers[row]
        for item in range(first, last + 1):
            edge, other = np.int64(-1), count  # after the last value, zeros
            if item < lowers[row + 1]:
                edge = order[item]
                other = np.int64(rows[edge])
            elif item < last:
                edge = uppers[row] + item - lowers[row + 1]
                other = np.int64(columns[edge])
            for _ in range(column, other):
                text[place] = ZERO
                text[place + 1] = separator
                place += 2
            column = other + 1
            if edge >= 0:
                begin = ends[edge - 1] if edge > 0 else 0
                for byte in range(begin, ends[edge]):
                    text[place + byte - begin] = cells[byte]
                place += ends[edge] - begin
                if begin == ends[edge]:
                    place = put_number(values[edge], bits[edge], wholes[row] == 1, tens, precision, text, place)
                text[place] = separator
                place += 1
        text[place - 1] = LINE
    state[0] = place
