"""A series of several shells of the phantom, whose tissues differ in how their signal falls with the b-value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .phantom import Head, Phantom, affine_of, spread_directions, with_noise

SHELLS = {0.0: 18, 1000.0: 90, 2000.0: 90, 3000.0: 90}  # volumes of each b-value, as in the Human Connectome Project
# signal without diffusion weighting, and diffusivities in mm2/s: of axons, along and across the space around them
S0 = {"wm": 300.0, "gm": 420.0, "csf": 1200.0}
AXONS, ALONG, ACROSS, GREY, FLUID = 2.0e-3, 1.7e-3, 0.55e-3, 0.85e-3, 3.0e-3
INSIDE = 0.55  # share of white matter that axons fill
AROUND = 0.35  # share of the white matter outside of bundles that counts as grey matter, since its axons are dispersed
BLOCK = 1 << 13  # voxels at a time


def make_shells(
    shape: tuple[int, int, int] = (60, 72, 56), voxel_mm: float = 2.5, shells: Mapping[float, int] = SHELLS,
    snr: float = 30.0, seed: int = 1,
) -> Phantom:
    """Generate a series of several shells: the head of ``make_phantom`` with three tissues.

    Parameters
    ----------
    shape : three int
        Number of voxels along each axis.
    voxel_mm : float, mm
        Size of the isotropic voxels.
    shells : mapping
        Number of volumes of each b-value in s/mm^2, 0 among them. Volumes of all b-values are interleaved.
    snr : float
        b0 signal of white matter over the standard deviation of the Rician noise.
    seed : int
        RNG seed of the noise and the gradient directions.

    Returns
    -------
    Phantom
        Fibres are sticks (axons) in a tensor; white matter outside of bundles, grey matter and fluid are isotropic.
    """
    rng, head = np.random.default_rng(seed), Head.of(shape)
    bvals, bvecs = spread_shells(shells, seed)
    data = with_noise(Tissues.of(head).signals(bvals, bvecs), head.mask, S0["wm"] / snr, rng)
    affine = affine_of(shape, voxel_mm)
    return Phantom(data, bvals, bvecs, head.mask, affine, head.bundles(affine), head.tissues)


@dataclass(frozen=True, eq=False)
class Tissues:
    """The tissues and bundles of the voxels (m,) of a head.

    Parameters
    ----------
    fractions, directions : (m, bundles) and (m, bundles, 3)
        Of the bundles.
    around : (m,)
        Share of white matter outside of bundles.
    isotropic : (m, 2)
        Signal of grey matter and of fluid without diffusion weighting.
    """

    fractions: np.ndarray
    directions: np.ndarray
    around: np.ndarray
    isotropic: np.ndarray

    @classmethod
    def of(cls, head: Head) -> Tissues:
        """Return those of the voxels in the mask of a head."""
        fractions = np.stack([fraction[head.mask] for fraction in head.fractions], axis=1)
        directions = np.stack([direction[head.mask] for direction in head.directions], axis=1)
        shares = {name: share[head.mask] for name, share in head.tissues.items()}
        around = np.maximum(shares["wm"] - fractions.sum(axis=1), 0)
        isotropic = [(shares["gm"] + AROUND * around) * S0["gm"], shares["csf"] * S0["csf"]]
        return cls(fractions, directions, around, np.stack(isotropic, axis=1))

    def signals(self, bvals: np.ndarray, bvecs: np.ndarray) -> np.ndarray:
        """Return the signals (m, n) float32 of volumes without noise."""
        others = np.exp(-bvals * np.array([[GREY], [FLUID]]))
        signal = (self.isotropic @ others).astype(np.float32)
        decay = np.exp(-bvals * (ALONG + 2 * ACROSS) / 3).astype(np.float32)
        signal += ((1 - AROUND) * self.around * S0["wm"])[:, None] * decay
        for first in range(0, len(signal), BLOCK):
            block = slice(first, first + BLOCK)
            squares = (self.directions[block] @ bvecs.T) ** 2
            fibre = INSIDE * np.exp(-bvals * AXONS * squares)
            fibre += (1 - INSIDE) * np.exp(-bvals * (ACROSS + (ALONG - ACROSS) * squares))
            signal[block] += np.einsum("nf,nfv->nv", S0["wm"] * self.fractions[block], fibre)
        return signal


def spread_shells(shells: Mapping[float, int], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return b-values (n,) and gradients (n, 3), spread over each shell; each part of the series has all shells."""
    bvals = np.concatenate([np.full(count, float(bval)) for bval, count in shells.items()])
    bvecs = np.concatenate([
        spread_directions(count, seed + number) if bval else np.zeros((count, 3))
        for number, (bval, count) in enumerate(shells.items())
    ])
    order = np.argsort(np.concatenate([(np.arange(count) + 0.5) / count for count in shells.values()]), kind="stable")
    return bvals[order], bvecs[order]
