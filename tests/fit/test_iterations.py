"""Tensors by iterated least squares: the kernel against NumPy, on simulated and odd signals."""

from __future__ import annotations

import numpy as np
import pytest
from dipy.core.gradients import gradient_table
from synthetic import gradients, noisy_crossing

from tistreamlines.errors import InputError
from tistreamlines.fit import iterations
from tistreamlines.fit.iterations import iterated_axes, iterated_fa
from tistreamlines.fit.tensor import fractional_anisotropy
from tistreamlines.space.encoding import tensor_design

RNG = np.random.default_rng(0)
NOISY = noisy_crossing(gradients(), (5, 5, 5)).reshape(125, -1)


def fitted(rows: np.ndarray, threads: int | None = None) -> np.ndarray:
    return iterated_fa(rows, gradients(), np.arange(len(rows)), threads)


@pytest.mark.parametrize("rows", [
    NOISY,
    1e-5 * NOISY,
    RNG.uniform(0, 1000, (300, 66)),
    RNG.uniform(-50, 1000, (300, 66)),
    np.where(np.eye(66)[:60] > 0, 100, RNG.uniform(1, 2, (60, 66))),
    np.eye(66) * 1e6,
    10.0 ** RNG.uniform(-1, 1, (300, 66)),
    np.append(NOISY[:40], np.full((40, 66), 1e30) * RNG.uniform(1, 2, (40, 66)), axis=0),
], ids=["noisy", "small", "random", "negative", "one bright", "one signal each", "uneven", "huge"])
def test_kernel_equals_numpy(rows):
    rows = rows.astype(np.float32)
    expected = fractional_anisotropy(iterations._eigen(rows, tensor_design(gradients()))[0])
    assert np.abs(fitted(rows) - expected).max() < 1e-7


def test_the_kernel_fits_all_but_rare_voxels(monkeypatch):
    """It leaves those to NumPy whose equations are ill-conditioned, or that have a signal that is infinite."""
    rare = []
    monkeypatch.setattr(iterations, "_eigen", lambda rows, _: (rare.append(rows) or np.ones((len(rows), 3)), None))
    fitted(NOISY)
    assert not rare
    rows = NOISY.copy()
    rows[3, 5], rows[70] = np.inf, np.eye(66)[0]
    assert (fitted(rows)[[3, 70]] == 0).all()
    np.testing.assert_array_equal(np.concatenate(rare), rows[[3, 70]])


def test_threads_blocks_and_neighbours_leave_the_bits_alone(monkeypatch):
    fa, axes = fitted(NOISY, 1), iterated_axes(NOISY, gradients(), 1)
    monkeypatch.setattr(iterations, "VOXELS", 33)
    assert np.array_equal(fa, fitted(NOISY, 3))
    assert np.array_equal(fa[::2], iterated_fa(NOISY, gradients(), np.arange(0, 125, 2)))
    assert np.array_equal(axes[::2], iterated_axes(NOISY[::2], gradients(), 3))
    assert not len(fitted(NOISY[:0]))
    assert iterated_axes(NOISY[:0], gradients()).shape == (0, 3)


def test_no_signals_end_a_run():
    """Though their equations may be so ill-conditioned that FA has few digits."""
    rows = 10.0 ** RNG.uniform(-4, 4, (300, 66))
    assert ((fitted(rows) >= 0) & (fitted(rows) < 1.3)).all()  # above 1 with negative eigenvalues
    assert np.isfinite(iterated_axes(rows, gradients())).all()


def test_gradients_must_determine_a_tensor():
    few = gradient_table(np.r_[0, 1000 * np.ones(5)], bvecs=np.r_[np.zeros((1, 3)), np.eye(3), -np.eye(3)[:2]])
    for fit in (lambda: iterated_axes(NOISY[:, :6], few), lambda: iterated_fa(NOISY[:, :6], few, np.arange(125))):
        with pytest.raises(InputError, match="do not determine a tensor"):
            fit()
