"""A head of three tissues in a series of three shells: white matter round ventricles, with cortex and CSF around it.

Signals are those of MRtrix3's model: each tissue has a response of its own at each b-value, and fractions are volumes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from dipy.core.gradients import GradientTable, gradient_table

from tistreamlines.space.harmonics import spiral

SHELLS = {0.0: 6, 700.0: 16, 1200.0: 30, 2800.0: 50}  # s/mm2, and how many volumes
S0 = {"wm": 600.0, "gm": 900.0, "csf": 2400.0}
ALONG, ACROSS, GREY, WATER = 1.9e-3, 0.35e-3, 0.9e-3, 3.0e-3  # mm2/s
GOLDEN = np.pi * (1 + np.sqrt(5))


@dataclass(frozen=True)
class Head:
    """Signals (x, y, z, n), gradients, mask, affine, and the true fractions of wm, gm and csf (x, y, z)."""

    data: np.ndarray
    gtab: GradientTable
    mask: np.ndarray
    affine: np.ndarray
    fractions: dict[str, np.ndarray]


def head(size: int = 24, snr: float = 30.0, seed: int = 0, shells: dict[float, int] | None = None) -> Head:
    """Return a head of ``size`` voxels of 2 mm along each axis, with Rician noise; volumes are in random order."""
    rng, gtab = np.random.default_rng(seed), _gradients(shells or SHELLS, seed)
    fractions, fibres = _tissues(size)
    x, y, z = np.meshgrid(*[np.linspace(-1, 1, size)] * 3, indexing="ij")
    bvals, bvecs = gtab.bvals, gtab.bvecs
    clean = S0["csf"] * fractions["csf"][..., None] * np.exp(-bvals * WATER)
    clean = clean + S0["gm"] * fractions["gm"][..., None] * np.exp(-bvals * GREY)
    for share, axes in fibres:
        cosines = axes @ bvecs.T
        signal = np.exp(-bvals * (ACROSS + (ALONG - ACROSS) * cosines**2))
        clean += S0["wm"] * (fractions["wm"] * share)[..., None] * signal
    clean *= np.exp(0.2 * x - 0.15 * y * z + 0.1 * y**2)[..., None]  # the coil's field
    sigma = S0["wm"] / snr
    real, imaginary = rng.normal(0, sigma, (2, *clean.shape))
    affine = np.diag([2.0, 2.0, 2.0, 1.0])
    affine[:3, 3] = -size, -size, 20 - size
    return Head(
        np.hypot(clean + real, imaginary).astype(np.float32), gtab, sum(fractions.values()) > 0.5, affine, fractions
    )


def _gradients(shells: dict[float, int], seed: int) -> GradientTable:
    bvals = np.concatenate([np.full(count, b) for b, count in shells.items()])
    bvecs = np.concatenate([
        spiral(GOLDEN * (np.arange(count) + 0.5) + b) * (b > 0) for b, count in shells.items()
    ])
    order = np.random.default_rng(seed + 1).permutation(len(bvals))
    return gradient_table(bvals[order], bvecs=bvecs[order], b0_threshold=10)


def _tissues(size: int) -> tuple[dict[str, np.ndarray], list[tuple[np.ndarray, np.ndarray]]]:
    """Return fractions, and two populations of fibres: the share (x, y, z) of white matter and axes (x, y, z, 3)."""
    x, y, z = np.meshgrid(*[np.linspace(-1, 1, size)] * 3, indexing="ij")
    radius, sharpness = np.sqrt(x**2 + y**2 + z**2), size / 3

    def inside(distance: np.ndarray) -> np.ndarray:
        return np.clip(0.5 - sharpness * distance, 0, 1)

    brain, white = inside(radius - 0.95), inside(radius - 0.66)
    cortex = inside(radius - 0.86)
    ventricles = inside(np.sqrt((np.abs(x) - 0.22) ** 2 + (y / 1.6) ** 2 + z**2) - 0.2)
    fractions = {"wm": white * (1 - ventricles), "gm": cortex * (1 - white) * (1 - ventricles)}
    fractions["csf"] = brain - fractions["wm"] - fractions["gm"]
    around = np.stack([-y, x, 0.3 * np.ones_like(x)], axis=-1)
    across = np.stack([x + 0.2, 0.3 * y, np.ones_like(z)], axis=-1)
    crossing = np.clip(2.5 * (z + 0.1), 0, 0.5)
    return fractions, [
        (share, axes / np.linalg.norm(axes, axis=-1, keepdims=True))
        for share, axes in ((1 - crossing, around), (crossing, across))
    ]
