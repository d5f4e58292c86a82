"""Inverses, roots, logarithm and exponential of reals of 64 bits, against numpy's and mpmath's."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from dialects import reals, run

from tistreamlines.linker.lang import Ints, Reals, at, func, i32, put
from tistreamlines.linker.wide_maths import inverse, inverse_root, log_of_bits, rough_inverse, wide_exp, wide_log

RNG = np.random.default_rng(0)
COUNT = 1 << 15


@func
def all_functions(item: i32, words: Ints, positive: Reals, exponents: Reals, out: Reals):
    """Values of each function, 32 at once."""
    put(out, 192 * item, log_of_bits(at(words, 32 * item)))
    put(out, 192 * item + 32, wide_exp(at(exponents, 32 * item)))
    put(out, 192 * item + 64, inverse(at(positive, 32 * item)))
    put(out, 192 * item + 96, inverse_root(at(positive, 32 * item)))
    put(out, 192 * item + 128, rough_inverse(at(positive, 32 * item)))
    put(out, 192 * item + 160, wide_log(at(positive, 32 * item)))


@pytest.fixture(scope="module", params=["numba64", "python bits"])
def values(request):
    """Arguments, and values: logarithm, exponential, inverse, inverse root, rough inverse, wide logarithm."""
    count = COUNT if request.param == "numba64" else 320
    signals = np.concatenate([RNG.uniform(0.5, 2, count // 2), 2.0 ** RNG.uniform(-126, 127, count - count // 2)])
    signals, positive = signals.astype(np.float32), 2.0 ** RNG.uniform(-125, 125, count)
    exponents = RNG.uniform(-80, 80, count)
    held = {"words": signals.view(np.int32), "positive": positive, "exponents": exponents, "out": reals(6 * count)}
    out = np.asarray(run(request.param, all_functions, count // 32, held)["out"])
    return signals.astype(np.float64), positive, exponents, out.reshape(-1, 6, 32).transpose(1, 0, 2).reshape(6, -1)


def test_logarithm(values):
    signals, _, _, (got, *_) = values
    assert np.abs(got - np.log(signals)).max() < 1e-13
    with mpmath.workdps(30):
        exact = [float(mpmath.log(mpmath.mpf(float(x)))) for x in signals[::400]]
    assert np.abs(got[::400] - exact).max() < 1e-13


def test_logarithm_of_reals_of_64_bits(values):
    _, positive, _, (*_, got) = values
    assert np.abs(got - np.log(positive)).max() < 1.2e-13
    with mpmath.workdps(30):
        exact = [float(mpmath.log(mpmath.mpf(float(x)))) for x in positive[::400]]
    assert np.abs(got[::400] - exact).max() < 1.2e-13


def test_logarithm_of_1_is_0():
    held = {"words": np.full(32, 0x3F800000, np.int32), "positive": np.ones(32), "exponents": np.zeros(32)}
    out = np.asarray(run("numba64", all_functions, 1, held | {"out": reals(192)})["out"])
    assert not out[:32].any()
    assert not out[160:].any()
    assert np.abs(out[32:128] - 1).max() < 1e-12


def test_exponential(values):
    _, _, exponents, (_, got, *_) = values
    assert np.abs(got / np.exp(exponents) - 1).max() < 1e-12


def test_inverses_and_roots(values):
    _, positive, _, (_, _, inverses, roots, rough, _) = values
    assert np.abs(inverses * positive - 1).max() < 1e-15
    assert np.abs(roots * np.sqrt(positive) - 1).max() < 2e-15
    assert np.abs(rough * positive - 1).max() < 1e-7
