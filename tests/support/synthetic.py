"""Small diffusion data with a known truth, and the kernels' tables made from them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from dipy.core.gradients import GradientTable, gradient_table
from tables import prepare_boot

from tistreamlines.tracking.tables.inputs import KernelTables

ALONG, ACROSS, UNWEIGHTED = 1.7e-3, 0.3e-3, 1000.0  # mm2/s, mm2/s, signal


@cache
def gradients(n: int = 64, b: float = 1500.0) -> GradientTable:
    """``n`` directions on a golden spiral over half a sphere, between two unweighted volumes."""
    k = np.arange(n) + 0.5
    z, turn = 1 - k / n, k * np.pi * (3 - np.sqrt(5))
    side = np.sqrt(1 - z**2)
    spiral = np.stack([side * np.cos(turn), side * np.sin(turn), z], axis=1)
    bvecs = np.concatenate([np.zeros((1, 3)), spiral, np.zeros((1, 3))])
    return gradient_table(np.array([0, *[b] * n, 0.0]), bvecs=bvecs)


def rotated(gtab: GradientTable, rotation: np.ndarray) -> GradientTable:
    """The same gradients in an image that was rotated."""
    return gradient_table(gtab.bvals, bvecs=gtab.bvecs @ rotation.T)


def signals(gtab: GradientTable, axes: np.ndarray, shares: np.ndarray | float = 1.0) -> np.ndarray:
    """Noiseless signals (..., n) float32 of fibres along ``axes`` (..., 3), the rest of a voxel being isotropic."""
    cosine2 = (axes @ gtab.bvecs.T) ** 2
    fibre = np.exp(-gtab.bvals * (ACROSS + (ALONG - ACROSS) * cosine2))
    water = np.exp(-gtab.bvals * 1.0e-3)
    share = np.asarray(shares)[..., None]
    return (UNWEIGHTED * (share * fibre + (1 - share) * water)).astype(np.float32)


def noisy_crossing(gtab: GradientTable, shape: tuple[int, int, int] = (3, 3, 3), snr: float = 20.0) -> np.ndarray:
    """Two fibres at a right angle in every voxel, and noise."""
    first, second = np.array([0.6, 0.0, 0.8]), np.array([0.8, 0.0, -0.6])
    clean = (signals(gtab, first) + signals(gtab, second)) / 2
    noise = np.random.default_rng(0).normal(0, UNWEIGHTED / snr, (*shape, len(clean)))
    return np.maximum(clean + noise, 2).astype(np.float32)


@cache
def boot_case(n: int = 64, order: int = 4, model: str = "opdt", snr: float = 20.0, **options: Any) -> KernelTables:
    """Tables of a small noisy crossing."""
    data = noisy_crossing(gradients(n), snr=snr)
    stop_map = np.ones(data.shape[:3], np.float32)
    return prepare_boot(data, gradients(n), stop_map, 0.5, np.ones((1, 3)), model=model, sh_order=order, **options)
