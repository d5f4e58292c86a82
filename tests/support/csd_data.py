"""Signals of fibres whose direction is known, for deconvolution, and DIPY's own fit of them."""

from __future__ import annotations

import numpy as np
import pytest
from dipy.reconst.csdeconv import ConstrainedSphericalDeconvModel
from places import CROP
from synthetic import ACROSS, ALONG, UNWEIGHTED, signals

needs_crop = pytest.mark.skipif(not CROP.is_dir(), reason="no real data at ../shared/data/sherbrooke_crop")
RESPONSE = (np.array([ALONG, ACROSS, ACROSS]), UNWEIGHTED)


def brainlike(gtab, count: int = 120, snr: float = 20.0, seed: int = 0) -> np.ndarray:
    """Voxels (count, 1, 1, n): noisy crossings of random fibres and water, an empty one, water and a clean fibre."""
    rng = np.random.default_rng(seed)
    axes = rng.normal(size=(2, count, 3))
    axes /= np.linalg.norm(axes, axis=-1, keepdims=True)
    clean = (signals(gtab, axes[0], rng.uniform(size=count)) + signals(gtab, axes[1], rng.uniform(size=count))) / 2
    data = np.maximum(clean + rng.normal(0, UNWEIGHTED / snr, clean.shape), 0)
    data[0], data[1], data[2] = 0, signals(gtab, axes[0, 1], 0.0), signals(gtab, axes[0, 2])
    return data[:, None, None].astype(np.float32)


def dipys(data, gtab, response=RESPONSE, order: int = 8, mask=None, weight: float = 1) -> np.ndarray:
    """Coefficients of DIPY's own fit."""
    model = ConstrainedSphericalDeconvModel(gtab, response, sh_order_max=order, lambda_=weight)
    return model.fit(data, mask=mask).shm_coeff


def everywhere(data: np.ndarray) -> np.ndarray:
    return np.ones(data.shape[:3], bool)
