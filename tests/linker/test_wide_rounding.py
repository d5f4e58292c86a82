"""Division and square root of 64 bits, as GPUs compute them, beside those of the processor."""

import numpy as np
import pytest

from tistreamlines.linker import wide_maths
from tistreamlines.linker.interpreted import dialect
from tistreamlines.linker.link import link
from tistreamlines.linker.store import load

COUNT = 100_000


@pytest.fixture(scope="module")
def functions():
    """The functions, which take arrays too."""
    return load(link([wide_maths.divide, wide_maths.square_root], dialect(native=False), {}).text)


def near(values, rng):
    """Numbers up to three places from these."""
    return (values.view(np.int64) + rng.integers(-3, 4, values.shape)).view(np.float64)


def test_quotients_are_rounded_as_by_the_processor(functions):
    rng = np.random.default_rng(0)
    b, powers = 10.0 ** rng.uniform(-30, 30, COUNT), 2.0 ** rng.integers(-20, 20, COUNT)
    middle = rng.integers(1 << 52, 1 << 53, COUNT) * (1 + 2.0**-53)
    cases = (
        (rng.normal(size=COUNT) * 10.0 ** rng.uniform(-50, 50, COUNT), b), (near(middle * b, rng), b),
        (near(np.ones(COUNT), rng), near(powers, rng)), (np.ones(COUNT), near(np.sqrt(b), rng)),
        (rng.integers(1, 1000, COUNT) * 1.0, rng.integers(1, 1000, COUNT) * 1.0),
        (np.array([0.0, -0.0, np.nan, np.inf, -np.inf]), np.full(5, 3.0)),
    )
    with np.errstate(all="ignore"):
        for a, divisor in cases:
            quotients = functions.divide(a, divisor)
            np.testing.assert_array_equal(quotients.view(np.int64), (a / divisor).view(np.int64))


def test_roots_are_rounded_as_by_the_processor(functions):
    rng = np.random.default_rng(0)
    middle = (rng.integers(1 << 52, 1 << 53, COUNT) + 0.5) ** 2
    cases = (
        10.0 ** rng.uniform(-30, 30, COUNT), near(rng.uniform(1, 2, COUNT) ** 2, rng), near(middle, rng),
        near(2.0 ** rng.integers(-40, 40, COUNT), rng), rng.integers(1, 1_000_000, COUNT) * 1.0,
    )
    for values in cases:
        np.testing.assert_array_equal(functions.square_root(values), np.sqrt(values))
