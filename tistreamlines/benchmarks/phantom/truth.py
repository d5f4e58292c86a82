"""Diffusion series of bundles of strands, and the scores of tractograms of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from .phantom import spread_directions
from .strands import PER_MM2, STEP, bundles

Array = npt.NDArray[np.float64]
Lines = Sequence[npt.NDArray[np.floating]]

SIGNAL, GREY_SIGNAL = 300.0, 390.0  # without diffusion weighting
ALONG, ACROSS, ISOTROPIC = 1.7e-3, 0.2e-3, 0.8e-3  # mm2/s
PACKING = 0.3  # strands of a full bundle per those of a place, from which most of it is white matter
OWN = 0.2  # amount of the strands of a bundle from which a voxel is its own
WHITE = 0.5  # volume fraction from which a voxel is white matter
MARGIN = 3  # voxels around the bundles
REACH = 1.5  # voxels from a streamline's end to the end of a strand that it has reached
B0S = 6


@dataclass(frozen=True)
class Scan:
    """How a series is measured.

    Attributes
    ----------
    bval : s/mm2.
    snr : signal of white matter without diffusion weighting over the standard deviation of the noise.
    directions : number of volumes with diffusion weighting; six are without.
    voxel_mm : side of a voxel.
    """

    bval: float = 3000.0
    snr: float = 20.0
    directions: int = 64
    voxel_mm: float = 2.0


class Truth:
    """A geometry measured by a scan.

    Parameters
    ----------
    geometry : one of :data:`.strands.GEOMETRIES`.
    scan : how it is measured.
    seed : of the random turn and jitter of the bundles, of the gradients and of the noise.
    """

    def __init__(self, geometry: str, scan: Scan, seed: int) -> None:
        self.name, self.scan, self.seed = geometry, scan, seed
        self.bundles = bundles(geometry, seed)
        points = np.concatenate([part.reshape(-1, 3) for part in self.bundles.values()])
        low, high = points.min(axis=0), points.max(axis=0)
        self.shape = tuple(int(n) for n in np.ceil((high - low) / scan.voxel_mm) + 2 * MARGIN)
        self.affine = np.diag([-scan.voxel_mm, scan.voxel_mm, scan.voxel_mm, 1.0])
        corner = np.array([high[0], low[1], low[2]])
        self.affine[:3, 3] = corner + MARGIN * scan.voxel_mm * np.array([1, -1, -1])

    def voxels(self, points: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return the flat index of the voxel of each point (n, 3), mm; those outside are put at the border."""
        inverse = np.linalg.inv(self.affine)
        there = np.rint(np.asarray(points) @ inverse[:3, :3].T + inverse[:3, 3]).astype(np.int64)
        flat = np.ravel_multi_index(tuple(np.clip(there, 0, np.array(self.shape) - 1).T), self.shape)
        return np.asarray(flat, np.int64)

    @cached_property
    def amounts(self) -> dict[str, Array]:
        """Volume of each bundle's strands per voxel (x * y * z,), 1 where it is full."""
        unit = STEP / PER_MM2 / self.scan.voxel_mm**3

        def amount(part: Array) -> Array:
            counts = np.bincount(self.voxels(part.reshape(-1, 3)), minlength=int(np.prod(self.shape)))
            return np.asarray(counts * unit, np.float64)

        return {name: amount(part) for name, part in self.bundles.items()}

    @cached_property
    def white_fraction(self) -> Array:
        """Volume fraction of white matter (x, y, z)."""
        return (1 - np.exp(-sum(self.amounts.values()) / PACKING)).reshape(self.shape)

    @property
    def white(self) -> npt.NDArray[np.bool_]:
        """Voxels of white matter (x, y, z): where streamlines begin, and beyond which they end."""
        return np.asarray(self.white_fraction > WHITE, np.bool_)

    @property
    def mask(self) -> npt.NDArray[np.bool_]:
        """Voxels with signal (x, y, z): white matter and the grey matter around it."""
        from scipy.ndimage import binary_dilation

        return np.asarray(binary_dilation(self.white, iterations=2), np.bool_)

    def series(self) -> tuple[npt.NDArray[np.float32], Array, Array]:
        """Return the signals (x, y, z, n) with Rician noise, the b-values (n,) and the gradients (n, 3), RAS."""
        scan, rng = self.scan, np.random.default_rng(self.seed)
        bvals = np.concatenate([np.zeros(B0S), np.full(scan.directions, scan.bval)])
        gradients = np.concatenate([np.zeros((B0S, 3)), spread_directions(scan.directions, self.seed)])
        inside = self.mask.ravel()
        signal = np.zeros((len(inside), len(bvals)))
        amount = np.zeros(len(inside))
        for part in self.bundles.values():
            tangents = np.gradient(part, axis=1).reshape(-1, 3)
            tangents /= np.linalg.norm(tangents, axis=1, keepdims=True)
            here = self.voxels(part.reshape(-1, 3))
            for number, (bval, gradient) in enumerate(zip(bvals, gradients, strict=True)):
                decay = np.exp(-bval * (ACROSS + (ALONG - ACROSS) * (tangents @ gradient) ** 2))
                signal[:, number] += np.bincount(here, decay, minlength=len(inside))
            amount += np.bincount(here, minlength=len(inside))
        white = self.white_fraction.ravel()[inside, None]
        mean = signal[inside] / np.maximum(amount[inside, None], 1)
        clean = SIGNAL * white * mean + GREY_SIGNAL * (1 - white) * np.exp(-bvals * ISOTROPIC)
        noise = rng.normal(0, SIGNAL / scan.snr, (2, *clean.shape))
        data = np.zeros((len(inside), len(bvals)), np.float32)
        data[inside] = np.hypot(clean + noise[0], noise[1])
        return data.reshape(*self.shape, -1), bvals, gradients

    def save(self, folder: Path) -> None:
        """Write ``dwi.nii.gz``, ``dwi.bval``, ``dwi.bvec``, ``mask.nii.gz`` and ``white.nii.gz``."""
        import nibabel as nib

        data, bvals, gradients = self.series()
        images = {"dwi": data, "mask": self.mask.astype(np.uint8), "white": self.white.astype(np.uint8)}
        for name, image in images.items():
            nib.save(nib.Nifti1Image(image, self.affine), folder / f"{name}.nii.gz")
        np.savetxt(folder / "dwi.bval", bvals[None], fmt="%g")
        # FSL's: along the voxel axes, of which the first points left here
        np.savetxt(folder / "dwi.bvec", (gradients * [-1, 1, 1]).T, fmt="%.8f")

    def seeds(self, count: int) -> npt.NDArray[np.float32]:
        """Return random points (count, 3), mm, in white matter."""
        rng, places = np.random.default_rng(self.seed), np.argwhere(self.white)
        chosen = places[rng.integers(len(places), size=count)] + rng.uniform(-0.5, 0.5, (count, 3))
        return (chosen @ self.affine[:3, :3].T + self.affine[:3, 3]).astype(np.float32)

    def score(self, lines: Lines) -> dict[str, float]:
        """Score streamlines as Tractometer does.

        A streamline is valid (VC) if its ends are at the two ends of a bundle, invalid (IC) if they are at two others
        or at one twice, else it connects nothing (NC). An end is at the nearest end of a strand within 1.5 voxels.

        Parameters
        ----------
        lines : streamlines (m, 3), mm.

        Returns
        -------
        dict
            streamlines; VC, IC, NC : their shares in %; valid_bundles : % of the bundles with a valid streamline;
            overlap, overreach : voxels of a bundle that its valid streamlines pass, and others that they pass, in %
            of its voxels, the mean over bundles; r : correlation of the numbers of streamlines of all pairs of ends
            with those of strands; mm : mean length.

        References
        ----------
        Côté, Girard, Boré, Garyfallidis, Houde, Descoteaux. Tractometer: towards validation of tractography
        pipelines. Medical Image Analysis 17, 2013.
        """
        lines = [line for line in lines if len(line) > 1]
        ends = self._nodes(np.array([(line[0], line[-1]) for line in lines]).reshape(-1, 3)).reshape(-1, 2)
        nodes = 2 * len(self.bundles)
        joined = (ends >= 0).all(axis=1)
        first, last = ends.min(axis=1), ends.max(axis=1)
        valid = joined & (first % 2 == 0) & (last == first + 1)
        counts = np.zeros((nodes, nodes))
        np.add.at(counts, (first[joined], last[joined]), 1)
        expected = np.zeros_like(counts)
        expected[np.arange(0, nodes, 2), np.arange(1, nodes, 2)] = [len(part) for part in self.bundles.values()]
        pairs = np.triu_indices(nodes)
        r = np.corrcoef(counts[pairs], expected[pairs])[0, 1] if counts.any() else 0.0
        overlap, overreach = self._covered([lines[k] for k in np.flatnonzero(valid)], first[valid])
        lengths = [np.linalg.norm(np.diff(line, axis=0), axis=1).sum() for line in lines]
        return {
            "streamlines": len(lines), "VC": 100 * valid.mean(), "IC": 100 * (joined & ~valid).mean(),
            "NC": 100 * (~joined).mean(), "valid_bundles": 100 * len(set(first[valid])) / len(self.bundles),
            "overlap": overlap, "overreach": overreach, "r": r, "mm": float(np.mean(lengths)),
        }  # fmt: skip

    def _nodes(self, points: npt.NDArray[np.floating]) -> npt.NDArray[np.int64]:
        """Return the end of a bundle at which each point is, 2 k and 2 k + 1 for bundle k, or -1."""
        from scipy.spatial import KDTree

        ends = [part[:, at] for part in self.bundles.values() for at in (0, -1)]
        node = np.repeat(np.arange(len(ends)), [len(end) for end in ends])
        far, nearest = KDTree(np.concatenate(ends)).query(points, distance_upper_bound=REACH * self.scan.voxel_mm)
        return np.where(np.isfinite(far), np.append(node, -1)[nearest], -1)

    def _covered(self, lines: Lines, first: npt.NDArray[np.int64]) -> tuple[float, float]:
        """Return overlap and overreach of valid streamlines; ``first`` is the first end of each."""
        overlap, overreach = [], []
        for number, amount in enumerate(self.amounts.values()):
            own = amount > OWN
            mine = [line for line, node in zip(lines, first, strict=True) if node == 2 * number]
            passed = np.zeros(len(own), bool)
            if mine:
                passed[self.voxels(np.concatenate(mine))] = True
            overlap.append(100 * (passed & own).sum() / own.sum())
            overreach.append(100 * (passed & ~own).sum() / own.sum())
        return float(np.mean(overlap)), float(np.mean(overreach))
