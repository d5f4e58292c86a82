"""Every word of the kernel language means the same on each face, and what numpy says it means."""

from __future__ import annotations

import numpy as np
import pytest
from faces import FACES, ints, reals, run

from tistreamlines.linker import lang
from tistreamlines.linker.lang import (
    Constant,
    Ints,
    Reals,
    absolute,
    at,
    barrier,
    bits,
    collect,
    each,
    floor,
    from_bits,
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

PATTERN = Constant("offsets of a spread")
OFFSETS = tuple(int(v) for v in np.repeat([0, 40, 7, 40], 8))


@twin
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


@twin
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


@twin
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


@twin
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


@twin
def float_bits(item: i32, a: Reals, out: Ints, back: Reals):
    """The bits of a float32, there and back."""
    b = bits(a[item])
    out[item] = b
    back[item] = from_bits(b + 1)


REAL = np.array([2.5, -2.5, 3.0, -3.0, 0.0, -0.25, 7.75, -8.0])
OTHER = np.array([1.0, -4.0, 3.0, 2.0, -1.0, 0.5, 8.0, -8.5])


@pytest.mark.parametrize("face", FACES)
def test_scalars(face):
    got = run(face, scalars, 8, {"a": REAL, "b": OTHER, "out": reals(64)})["out"].reshape(8, 8)
    cut = np.trunc(REAL)
    expected = [
        np.floor(REAL), cut, np.abs(REAL), np.maximum(REAL, OTHER), np.minimum(REAL, OTHER),
        np.where(REAL < OTHER, 1, -1), -REAL + OTHER * 0.5, (cut // 3) * 100 + cut % 3,
    ]  # fmt: skip
    assert np.array_equal(got, np.transpose(expected))


@pytest.mark.parametrize("face", FACES)
def test_words_wrap(face):
    rng = np.random.default_rng(0)
    a, b = rng.integers(-(2**31), 2**31, (2, 50)).astype(np.int32)
    a[:3], b[:3] = [-1, 0, 2**31 - 1], [-1, -1, 2]
    got = run(face, whole, 50, {"a": a, "b": b, "out": ints(600)})["out"].reshape(50, 12)
    x, y = a.view(np.uint32), b.view(np.uint32)
    high = ((x.astype(np.uint64) * y) >> np.uint64(32)).astype(np.uint32)
    halves = [half for v in (x + y, x * y, high, x - y) for half in (v >> 16, v & 0xFFFF)]
    expected = [*halves, (x << np.uint32(5)) >> 16, (a >> 3) ^ (b & 1023), x < y, a | b]
    assert np.array_equal(got, np.transpose([v.astype(np.int64) for v in expected]).astype(np.int32))


@pytest.mark.parametrize("face", FACES)
def test_lane_values(face):
    rng = np.random.default_rng(1)
    a = rng.normal(size=96).astype(np.float32).astype(float)
    index = rng.integers(0, 96, 64).astype(np.int32)
    values = {"a": a, "index": index, "out": reals(512), "picked": ints(64), "counter": ints(1)}
    held = run(face, lanewise, 2, values, {"PATTERN": OFFSETS})
    bound = 0 if face != "numba32" else 1e-6
    lane_number = np.arange(32)
    for item, got in enumerate(held["out"].reshape(2, 8, 32)):
        x, y = a[32 * item : 32 * item + 32], a[index[32 * item : 32 * item + 32]]
        expected = [
            2 * x, np.maximum(x, y) - np.minimum(x, y), np.where((x > y) & (lane_number >= 8), x, 0),
            a[item + np.array(OFFSETS)] + np.abs(x), np.full(32, x.max() - y.min()), (lane_number * 3) & 7,
            x if item else y, x,
        ]  # fmt: skip
        assert np.allclose(got, expected, rtol=bound, atol=bound)
    x, y = a[:32], a[index[:32]]
    marked = (x > 0) & (x >= y)
    picked = [n for number in range(32) for n in [number] * (number < 2) + [number + 96] * int(marked[number])]
    assert held["counter"][0] == len(picked)
    assert held["picked"][: len(picked)].tolist() == picked


@pytest.mark.parametrize("face", FACES)
def test_loops(face):
    got = run(face, shares, 1, {"out": ints(46)})["out"]
    assert got.tolist() == [*range(40), 10, 11, 12, 20, 21, 8]


@pytest.mark.parametrize("face", ["python", "numba32"])
def test_bits(face):
    a = np.array([1.0, -2.0, 0.15625, 3.4e38, 1.2e-38], np.float32)
    held = run(face, float_bits, 5, {"a": a, "out": ints(5), "back": reals(5)})
    assert np.array_equal(held["out"], a.view(np.int32))
    assert np.array_equal(held["back"].astype(np.float32), (a.view(np.int32) + 1).view(np.float32))


def test_a_lane_value_is_not_a_view():
    table = np.arange(64.0)
    held = lang.at(table, 0)
    lang.put(table, 0, lang.lanes(5.0))
    assert np.array_equal(held, np.arange(32.0))


def test_words_of_scalars_and_lanes_mix():
    assert lang.umulhi(0xD2511F53, np.array([2**32 - 1, 1])).tolist() == [0xD2511F52, 0]
    assert lang.umulhi(np.array([2**32 - 1]), 0xD2511F53).tolist() == [0xD2511F52]
    assert lang.u32(np.array([-1])).tolist() == [2**32 - 1]


def test_a_kernel_function_is_not_called_unlinked():
    with pytest.raises(TypeError, match="scalars is a kernel function"):
        scalars(0, REAL, OTHER, REAL)
