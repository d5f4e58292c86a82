"""Kernels of every word of the language, and the words' values."""

from __future__ import annotations

import numpy as np

from tistreamlines.kernels.getters.prob import scan
from tistreamlines.linker.lang import (
    Constant,
    Ints,
    Reals,
    absolute,
    add,
    at,
    barrier,
    bits,
    collect,
    each,
    floor,
    from_bits,
    func,
    i32,
    lane,
    lanes,
    maximum,
    minimum,
    put,
    raised,
    real,
    spread,
    take,
    team_any,
    team_first,
    team_last,
    team_max,
    team_min,
    team_value,
    u32,
    umulhi,
    unrolled,
    vec3,
    where,
)

PATTERN = Constant("offsets of a spread")
OFFSETS = tuple(int(v) for v in np.repeat([0, 40, 7, 40], 8))


@func
def scalars(item: i32, a: Reals, b: Reals, out: Reals):
    """Scalar arithmetic on reals."""
    x = a[item]
    y = b[item]
    p = vec3(x, y, minimum(x, y))
    out[8 * item] = floor(x)
    out[8 * item + 1] = real(i32(x))
    out[8 * item + 2] = absolute(x)
    out[8 * item + 3] = maximum(x, y)
    out[8 * item + 4] = p[2]
    out[8 * item + 5] = where(x < y, 1.0, -1.0)
    out[8 * item + 6] = -x + p[1] * 0.5
    out[8 * item + 7] = real((i32(x) // 3) * 100 + i32(x) % 3)


@func
def whole(item: i32, a: Ints, b: Ints, out: Ints):
    """Whole numbers and words, the words in halves that fit any int."""
    x = u32(a[item])
    y = u32(b[item])
    total = x + y
    product = x * y
    high = umulhi(x, y)
    less = x - y
    out[12 * item] = i32(total >> u32(16))
    out[12 * item + 1] = i32(total & u32(0xFFFF))
    out[12 * item + 2] = i32(product >> u32(16))
    out[12 * item + 3] = i32(product & u32(0xFFFF))
    out[12 * item + 4] = i32(high >> u32(16))
    out[12 * item + 5] = i32(high & u32(0xFFFF))
    out[12 * item + 6] = i32(less >> u32(16))
    out[12 * item + 7] = i32(less & u32(0xFFFF))
    out[12 * item + 8] = i32((x << u32(5)) >> u32(16))
    out[12 * item + 9] = (a[item] >> 3) ^ (b[item] & 1023)
    out[12 * item + 10] = where(x < y, 1, 0)
    out[12 * item + 11] = a[item] | b[item]


@func
def lanewise(item: i32, a: Reals, index: Ints, out: Reals, picked: Ints, counter: Ints):
    """Lane values: loads, stores, choices, reductions."""
    x = at(a, 32 * item)
    y = take(a, at(index, 32 * item))
    z = spread(a, item, PATTERN, at(index, 0))
    put(out, 256 * item, x)
    put(out, 256 * item + 32, maximum(x, y) - minimum(y, x))
    put(out, 256 * item + 64, where((x > y) & (lane() >= 8), x, lanes(0.0)))
    put(out, 256 * item + 96, z + absolute(x))
    put(out, 256 * item + 128, lanes(team_max(x)) - team_min(y))
    put(out, 256 * item + 160, real((lane() * 3) & 7))
    put(out, 256 * item + 192, where(item > 0, x, y))
    put(out, 32 * item * 8, x * 2.0)
    put(out, 256 * item + 224, x)
    if item == 0:
        collect(picked, counter, where((x > 0.0) & (x >= y), 8, 0) | where(lane() < 2, 1, 0), 64)


@func
def votes(item: i32, a: Reals, holds: Ints, out: Reals):
    """Whether a condition holds in any lane, the first and the last one where it does, and values of the first."""
    x = at(a, 32 * item)
    own = at(holds, 32 * item) == 1
    first = team_first(own)
    out[7 * item] = real(team_any(own))
    out[7 * item + 1] = real(first)
    out[7 * item + 2] = team_value(x, minimum(first, 31))
    if team_any(own & (x > 0.0)) == 1:
        out[7 * item + 3] = 1.0
    out[7 * item + 4] = real(team_last(own))
    both = vec3(team_value(x, minimum(first, 31)), team_value(2.0 * x, minimum(first, 31)), 0.0)
    out[7 * item + 5] = both[0]
    out[7 * item + 6] = both[1]


@func
def below(item: i32, a: Reals, out: Reals):
    """What lanes have that are 1, 2, 5 and 16 below each one, and sums of the lanes up to each one."""
    x = at(a, 32 * item)
    put(out, 160 * item, raised(x, 1))
    put(out, 160 * item + 32, raised(x, 2))
    put(out, 160 * item + 64, raised(x, 5))
    put(out, 160 * item + 96, raised(x, 16))
    put(out, 160 * item + 128, scan(x))


@func
def shares(item: i32, out: Ints):
    """Loops of every kind, and a barrier between them."""
    for i in each(40):
        out[i] = i
    barrier()
    for i in unrolled(3):
        out[40 + i] = out[i] + 10
    for i in range(2):
        out[43 + i] = out[40 + i] + 10
    n = 0
    while n < 7:
        n = n + 2
    out[45] = n


@func
def sums(item: i32, index: Ints, out: Ints):
    """Additions to elements that many items share."""
    for i in each(index[item]):
        add(out, i, index[item])
        if i == 2:
            add(out, 15, 1)


@func
def float_bits(item: i32, a: Reals, out: Ints, back: Reals):
    """The bits of a float32, there and back."""
    b = bits(a[item])
    out[item] = b
    back[item] = from_bits(b + 1)


REAL = np.array([2.5, -2.5, 3.0, -3.0, 0.0, -0.25, 7.75, -8.0])
OTHER = np.array([1.0, -4.0, 3.0, 2.0, -1.0, 0.5, 8.0, -8.5])
