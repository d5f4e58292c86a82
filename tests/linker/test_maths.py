"""Division, roots, logarithm, exponential and circular functions of the kernels, against numpy's."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from dialects import DIALECTS, reals, run
from maths_kernels import divide_all, log_all, random_floats, square_root_all

from tistreamlines.linker.lang import Ints, Reals, at, func, i32, put
from tistreamlines.linker.maths import exp, log, quarter_turn, reciprocal_root

TINY, HUGE = np.finfo(np.float32).tiny, np.finfo(np.float32).max


@func
def log_lanes(item: i32, a: Reals, out: Reals, unused: Ints):
    """Logarithms, 32 at once."""
    put(out, 32 * item, log(at(a, 32 * item)))


def call(dialect: str, kernel, *arrays: np.ndarray) -> np.ndarray:
    values = dict(zip("ab", arrays, strict=False)) | {"out": reals(len(arrays[0]))}
    return run(dialect, kernel, len(arrays[0]), values)["out"]


@pytest.mark.parametrize(("dialect", "n"), [("numba32", 4_000_000), ("python bits", 3000)])
def test_division_is_numpys_to_the_bit(dialect, n):
    a, b = random_floats(n, 1), np.random.default_rng(2).permutation(random_floats(n, 3))
    with np.errstate(over="ignore"):
        expected = a / b
    normal = (a.astype(float) / b >= TINY) & (expected <= HUGE)
    assert normal.mean() > 0.7
    assert np.array_equal(call(dialect, divide_all, a[normal], b[normal]).astype(np.float32), expected[normal])


def test_division_of_close_significands_rounds_well():
    # near-ties: quotients of neighbours in a few small ranges of significands
    unit = np.float32(1).view(np.int32)
    near = (unit + np.concatenate([np.arange(700), 2**23 - 1 - np.arange(700)])).astype(np.int32).view(np.float32)
    a, b = (side.ravel() for side in np.meshgrid(near, near))
    assert np.array_equal(call("numba32", divide_all, a, b), a / b)


def test_square_root_is_numpys_to_the_bit_for_every_significand():
    # scaling by 4 only moves the exponent, so two binades and a sample of all exponents cover every input
    every = np.arange(np.float32(1).view(np.int32), np.float32(4).view(np.int32), dtype=np.int32).view(np.float32)
    for a in (every, random_floats(1_000_000, 4)):
        assert np.array_equal(call("numba32", square_root_all, a), np.sqrt(a))
    few = random_floats(3000, 5)
    assert np.array_equal(call("python bits", square_root_all, few).astype(np.float32), np.sqrt(few))


def test_logarithm_is_within_its_bound():
    near_one = np.random.default_rng(7).uniform(0.5, 2, 1_000_000).astype(np.float32)
    a = np.concatenate([random_floats(3_000_000, 6), near_one])
    exact = np.log(a.astype(np.float64))
    error = np.abs(call("numba32", log_all, a) - exact)
    # in units in the last place; near 1 the logarithm itself vanishes, and its bound is that of an attenuation's
    assert (error / np.maximum(np.spacing(np.abs(exact).astype(np.float32)), 2.0**-149)).max() < 2
    near = np.abs(a - 1) < 0.01
    assert error[near].max() < 1e-9


def test_logarithm_agrees_with_mpmath():
    a = random_floats(2000, 8)
    with mpmath.workdps(30):
        exact = np.array([float(mpmath.log(mpmath.mpf(float(x)))) for x in a])
    got = call("numba32", log_all, a).astype(np.float64)
    assert np.all(np.abs(got - exact) <= 2 * np.spacing(np.abs(exact).astype(np.float32)))


def test_logarithm_is_monotone_around_one():
    unit = np.float32(1).view(np.int32)
    a = np.arange(unit - 200_000, unit + 100_000, dtype=np.int32).view(np.float32)
    got = call("numba32", log_all, a)
    assert np.all(np.diff(got) >= 0)
    assert got[200_000] == 0
    assert np.all(got[:200_000] < 0)
    assert np.all(got[200_001:] > 0)


@pytest.mark.parametrize("dialect", ["numba32", "numba64"])
def test_lanes_have_the_scalars_logarithm(dialect):
    a = random_floats(32 * 500, 9)
    got = run(dialect, log_lanes, 500, {"a": a, "out": reals(len(a)), "unused": np.zeros(1, np.int32)})["out"]
    assert np.array_equal(got, call(dialect, log_all, a))


@pytest.mark.parametrize("dialect", [f for f in DIALECTS if f != "numba32"])
def test_reference_dialects_have_float64(dialect):
    a, b = random_floats(1000, 10).astype(float), random_floats(1000, 11).astype(float)
    assert np.array_equal(call(dialect, divide_all, a, b), a / b)
    assert np.array_equal(call(dialect, square_root_all, a), np.sqrt(a))
    assert np.allclose(call(dialect, log_all, a), np.log(a), rtol=4e-16, atol=0)


# ------------------------------------------------------------------------------------- what lanes can share
@func
def reciprocal_root_all(item: i32, a: Reals, out: Reals):
    """Reciprocal square roots, 32 at once."""
    put(out, 32 * item, reciprocal_root(at(a, 32 * item)))


@func
def exp_all(item: i32, a: Reals, out: Reals):
    """Exponentials, 32 at once."""
    put(out, 32 * item, exp(at(a, 32 * item)))


@func
def turns_all(item: i32, a: Reals, out: Reals):
    """Cosines and sines, 32 at once."""
    d = quarter_turn(at(a, 32 * item))
    put(out, 64 * item, d[0])
    put(out, 64 * item + 32, d[1])


def test_reciprocal_roots_are_within_their_bound():
    a = random_floats(3_200_000, 12)
    exact = 1 / np.sqrt(a.astype(np.float64))
    got = run("numba32", reciprocal_root_all, len(a) // 32, {"a": a, "out": reals(len(a))})["out"]
    assert (np.abs(got - exact) / np.spacing(exact.astype(np.float32))).max() < 2.5
    got = run("python", reciprocal_root_all, 10, {"a": a[:320], "out": reals(320)})["out"]
    assert np.allclose(got, exact[:320], rtol=1e-10, atol=0)
    got = run("numba32", reciprocal_root_all, 1, {"a": np.zeros(32, np.float32), "out": reals(32)})["out"]
    assert np.isfinite(got).all()


def test_exponentials_are_within_their_bound():
    a = np.random.default_rng(13).uniform(-87, 88, 3_200_000).astype(np.float32)
    a[:3] = 0, -87, 88
    got = run("numba32", exp_all, len(a) // 32, {"a": a, "out": reals(len(a))})["out"].astype(np.float64)
    exact = np.exp(a.astype(np.float64))
    assert (np.abs(got - exact) / np.spacing(exact.astype(np.float32))).max() < 2
    with mpmath.workdps(30):
        few = np.array([float(mpmath.exp(mpmath.mpf(float(x)))) for x in a[:2000]])
    assert np.allclose(exact[:2000], few, rtol=1e-14, atol=0)


def test_quarter_turns_are_within_their_bound():
    a = np.random.default_rng(14).uniform(-0.5, 0.5, 320_000).astype(np.float32)
    a[:3] = 0, -0.5, 0.5
    got = run("numba32", turns_all, len(a) // 32, {"a": a, "out": reals(2 * len(a))})["out"].reshape(-1, 2, 32)
    angle = 0.5 * np.pi * a.astype(np.float64).reshape(-1, 32)
    assert np.abs(got[:, 0] - np.cos(angle)).max() < 1e-7
    assert np.abs(got[:, 1] - np.sin(angle)).max() < 1e-7
