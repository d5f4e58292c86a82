"""Kernels of division, roots and logarithm, and numbers to try them on."""

from __future__ import annotations

import numpy as np

from tistreamlines.linker.lang import Reals, func, i32
from tistreamlines.linker.maths import divide, log, square_root


@func
def divide_all(item: i32, a: Reals, b: Reals, out: Reals):
    """Quotients, one by one."""
    out[item] = divide(a[item], b[item])


@func
def square_root_all(item: i32, a: Reals, out: Reals):
    """Square roots, one by one."""
    out[item] = square_root(a[item])


@func
def log_all(item: i32, a: Reals, out: Reals):
    """Logarithms, one by one."""
    out[item] = log(a[item])


def random_floats(n: int, seed: int) -> np.ndarray:
    """Positive normal float32 of all exponents alike, with the extremes and the neighbours of powers of two."""
    bits = np.random.default_rng(seed).integers(0x00800000, 0x7F800000, n, dtype=np.int32)
    powers = np.arange(1, 255, dtype=np.int32) << 23
    bits[: 3 * 254] = np.concatenate([powers, powers + 1, np.maximum(powers - 1, powers[0])])
    bits[3 * 254 : 3 * 254 + 2] = 0x00800000, 0x7F7FFFFF
    return bits.view(np.float32)
