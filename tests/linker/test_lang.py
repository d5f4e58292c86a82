"""Every word of the kernel language means the same on each dialect, and what numpy says it means."""

from __future__ import annotations

import numpy as np
import pytest
from dialects import DIALECTS, ints, reals, run
from lang_kernels import OFFSETS, OTHER, REAL, below, float_bits, lanewise, scalars, shares, sums, votes, whole

from tistreamlines.linker import lang


@pytest.mark.parametrize("dialect", DIALECTS)
def test_scalars(dialect):
    got = run(dialect, scalars, 8, {"a": REAL, "b": OTHER, "out": reals(64)})["out"].reshape(8, 8)
    cut = np.trunc(REAL)
    expected = [
        np.floor(REAL), cut, np.abs(REAL), np.maximum(REAL, OTHER), np.minimum(REAL, OTHER),
        np.where(REAL < OTHER, 1, -1), -REAL + OTHER * 0.5, (cut // 3) * 100 + cut % 3,
    ]
    assert np.array_equal(got, np.transpose(expected))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_words_wrap(dialect):
    rng = np.random.default_rng(0)
    a, b = rng.integers(-(2**31), 2**31, (2, 50)).astype(np.int32)
    a[:3], b[:3] = [-1, 0, 2**31 - 1], [-1, -1, 2]
    got = run(dialect, whole, 50, {"a": a, "b": b, "out": ints(600)})["out"].reshape(50, 12)
    x, y = a.view(np.uint32), b.view(np.uint32)
    high = ((x.astype(np.uint64) * y) >> np.uint64(32)).astype(np.uint32)
    halves = [half for v in (x + y, x * y, high, x - y) for half in (v >> 16, v & 0xFFFF)]
    expected = [*halves, (x << np.uint32(5)) >> 16, (a >> 3) ^ (b & 1023), x < y, a | b]
    assert np.array_equal(got, np.transpose([v.astype(np.int64) for v in expected]).astype(np.int32))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_lane_values(dialect):
    rng = np.random.default_rng(1)
    a = rng.normal(size=96).astype(np.float32).astype(float)
    index = rng.integers(0, 96, 64).astype(np.int32)
    values = {"a": a, "index": index, "out": reals(512), "picked": ints(64), "counter": ints(1)}
    held = run(dialect, lanewise, 2, values, {"PATTERN": OFFSETS})
    bound = 0 if dialect != "numba32" else 1e-6
    lane_number = np.arange(32)
    for item, got in enumerate(held["out"].reshape(2, 8, 32)):
        x, y = a[32 * item : 32 * item + 32], a[index[32 * item : 32 * item + 32]]
        expected = [
            2 * x, np.maximum(x, y) - np.minimum(x, y), np.where((x > y) & (lane_number >= 8), x, 0),
            a[item + np.array(OFFSETS)] + np.abs(x), np.full(32, x.max() - y.min()), (lane_number * 3) & 7,
            x if item else y, x,
        ]
        assert np.allclose(got, expected, rtol=bound, atol=bound)
    x, y = a[:32], a[index[:32]]
    marked = (x > 0) & (x >= y)
    picked = [n for number in range(32) for n in [number] * (number < 2) + [number + 96] * int(marked[number])]
    assert held["counter"][0] == len(picked)
    assert held["picked"][: len(picked)].tolist() == picked


@pytest.mark.parametrize("dialect", DIALECTS)
def test_votes_of_lanes(dialect):
    """In no lane, in each alone, in two, and in all."""
    holds = np.concatenate([np.zeros((1, 32)), np.eye(32), np.eye(32) + np.eye(32)[::-1], np.ones((1, 32))]) > 0
    x = np.random.default_rng(3).normal(size=holds.shape).astype(np.float32).astype(float)
    values = {"a": x.ravel(), "holds": holds.astype(np.int32).ravel(), "out": reals(7 * len(holds))}
    got = run(dialect, votes, len(holds), values)["out"].reshape(-1, 7)
    first = [list(row).index(True) if row.any() else 32 for row in holds]
    assert got[:, 0].tolist() == holds.any(axis=1).tolist()
    assert got[:, 1].tolist() == first
    assert got[:, 2].tolist() == [x[k, min(number, 31)] for k, number in enumerate(first)]
    assert got[:, 3].tolist() == (holds & (x > 0)).any(axis=1).tolist()
    assert got[:, 4].tolist() == [np.flatnonzero(row).max(initial=-1) for row in holds]
    np.testing.assert_array_equal(got[:, 5:], got[:, 2, None] * [1, 2])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_lanes_get_what_others_have(dialect):
    x = np.random.default_rng(4).integers(1, 100, (3, 32)).astype(float)  # sums of such numbers are not rounded
    got = run(dialect, below, 3, {"a": x.ravel(), "out": reals(480)})["out"].reshape(3, 5, 32)
    for number, step in enumerate((1, 2, 5, 16)):
        assert (got[:, number, :step] == 0).all()
        np.testing.assert_array_equal(got[:, number, step:], x[:, :-step])
    np.testing.assert_array_equal(got[:, 4], x.cumsum(axis=1))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_loops(dialect):
    got = run(dialect, shares, 1, {"out": ints(46)})["out"]
    assert got.tolist() == [*range(40), 10, 11, 12, 20, 21, 8]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_additions_of_many_items(dialect):
    """Two threads add to the same elements."""
    index = np.random.default_rng(2).integers(0, 15, 20_000 if dialect != "python" else 200).astype(np.int32)
    got = run(dialect, sums, len(index), {"index": index, "out": ints(16)})["out"]
    assert got.tolist() == [*(int(index[index > i].sum()) for i in range(15)), int((index > 2).sum())]


@pytest.mark.parametrize("dialect", ["python", "numba32"])
def test_bits(dialect):
    a = np.array([1.0, -2.0, 0.15625, 3.4e38, 1.2e-38], np.float32)
    held = run(dialect, float_bits, 5, {"a": a, "out": ints(5), "back": reals(5)})
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
