"""Fibre orientation distributions of random fibres, with noise in the coefficients."""

from __future__ import annotations

from typing import Any

import numpy as np

from tistreamlines.space.harmonics import degrees, sampling_matrix

NOISE = 0.004
WIDTH = 0.008  # of a lobe: degree l is damped by exp(-WIDTH l (l + 1))


def random_fods(count: int, order: int = 8, basis: str = "tournier07", seed: int = 0) -> Any:
    """Coefficients (count, n) float32 of one to three fibres each, and their directions (count, 3, 3); weights fall."""
    rng = np.random.default_rng(seed)
    axes = rng.normal(size=(count, 3, 3))
    axes /= np.linalg.norm(axes, axis=-1, keepdims=True)
    weights = np.sort(rng.uniform(0, 1, (count, 3)), axis=1)[:, ::-1] * (np.arange(3) < rng.integers(1, 4, (count, 1)))
    # a distribution that is concentrated in one direction has the harmonics of that direction as coefficients
    single = sampling_matrix(axes.reshape(-1, 3), order, basis).reshape(count, 3, -1)
    l_values = degrees(order)[0]
    functions = (weights[..., None] * single).sum(axis=1) * np.exp(-WIDTH * l_values * (l_values + 1))
    return (functions + rng.normal(0, NOISE, functions.shape)).astype(np.float32), axes
