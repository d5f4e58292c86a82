"""Diffusion series of bundles of strands, and the scores of tractograms of them."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from .known import random_points, write_series
from .peaks import angular_scores
from .scan import Scan
from .scores import Lines, bundle_of, connections, nearest_ends, outer_points
from .strands import PER_MM2, STEP, bundles

Array = npt.NDArray[np.float64]

SIGNAL, GREY_SIGNAL, FLUID_SIGNAL = 300.0, 390.0, 900.0  # without diffusion weighting
ALONG, ACROSS, ISOTROPIC, FLUID = 1.7e-3, 0.2e-3, 0.8e-3, 3.0e-3  # mm2/s
POOL = 8.0  # mm, standard deviation of the filter whose highest values make the pools of CSF
SURFACE = 0.5  # standard deviations of these values from grey matter to CSF
PACKING = 0.3  # strands of a full bundle per those of a place, from which most of it is white matter
OWN = 0.2  # amount of the strands of a bundle from which a voxel is its own
SHARE = 0.2  # of the strands of a voxel, from which those of a bundle have a direction of their own there
WHITE = 0.5  # volume fraction from which a voxel is white matter
MARGIN = 3  # voxels around the bundles
AROUND = 2  # voxels of other tissue around white matter in the mask
ERODED = 3  # more of them with CSF, which estimates of responses erode
REACH = 1.5  # voxels from a streamline's end to the end of a strand that it has reached


class Truth:
    """A geometry measured by a scan.

    Parameters
    ----------
    geometry : one of :data:`.strands.GEOMETRIES`.
    scan : how it is measured.
    seed : of the random turn and jitter of the bundles, of the gradients and of the noise.

    Attributes
    ----------
    options : options of this package that the data need.
    response_fa : FA above which DIPY takes single-fibre voxels.
    erosions : of the mask before MRtrix3 estimates responses of tissues.
    """

    options: ClassVar[dict[str, Any]] = {}
    response_fa = 0.7

    def __init__(self, geometry: str, scan: Scan, seed: int) -> None:
        self.name, self.scan, self.seed = geometry, scan, seed
        self.erosions = ERODED if scan.fluid else 0
        self.bundles = bundles(geometry, seed)
        points = np.concatenate([part.reshape(-1, 3) for part in self.bundles.values()])
        low, high = points.min(axis=0), points.max(axis=0)
        margin = MARGIN + self.erosions
        self.shape = tuple(int(n) for n in np.ceil((high - low) / scan.voxel_mm) + 2 * margin)
        self.affine = np.diag([-scan.voxel_mm, scan.voxel_mm, scan.voxel_mm, 1.0])
        corner = np.array([high[0], low[1], low[2]])
        self.affine[:3, 3] = corner + margin * scan.voxel_mm * np.array([1, -1, -1])

    @property
    def about(self) -> dict[str, Any]:
        """What a row of scores says of it."""
        return {"geometry": self.name, **self.scan.about, "seed": self.seed}

    @property
    def voxel_mm(self) -> float:
        """Side of a voxel, mm."""
        return self.scan.voxel_mm

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
        """Voxels with signal (x, y, z): white matter and the other tissue around it."""
        from scipy.ndimage import binary_dilation

        return np.asarray(binary_dilation(self.white, iterations=AROUND + self.erosions), np.bool_)

    @cached_property
    def fluid_share(self) -> Array:
        """Share of CSF in what is not white matter (x, y, z): pools at random places, half of the volume."""
        from scipy.ndimage import gaussian_filter

        if not self.scan.fluid:
            return np.zeros(self.shape)
        drawn = np.random.default_rng([self.seed, 1]).normal(size=self.shape)
        values = gaussian_filter(drawn, POOL / self.voxel_mm, mode="wrap")
        return np.clip(0.5 + values / (SURFACE * values.std()), 0, 1)

    def series(self) -> tuple[npt.NDArray[np.float32], Array, Array]:
        """Return the signals (x, y, z, n) with Rician noise, the b-values (n,) and the gradients (n, 3), RAS."""
        scan, rng = self.scan, np.random.default_rng(self.seed)
        bvals, gradients = scan.gradients(self.seed)
        inside = self.mask.ravel()
        signal = np.zeros((len(inside), len(bvals)))
        amount = np.zeros(len(inside))
        for part in self.bundles.values():
            tangents = _tangents(part)
            here = self.voxels(part.reshape(-1, 3))
            for number, (bval, gradient) in enumerate(zip(bvals, gradients, strict=True)):
                decay = np.exp(-bval * (ACROSS + (ALONG - ACROSS) * (tangents @ gradient) ** 2))
                signal[:, number] += np.bincount(here, decay, minlength=len(inside))
            amount += np.bincount(here, minlength=len(inside))
        white = self.white_fraction.ravel()[inside, None]
        mean = signal[inside] / np.maximum(amount[inside, None], 1)
        clean = SIGNAL * white * mean + (1 - white) * self._around(bvals)[inside]
        noise = rng.normal(0, SIGNAL / scan.snr, (2, *clean.shape))
        data = np.zeros((len(inside), len(bvals)), np.float32)
        data[inside] = np.hypot(clean + noise[0], noise[1])
        return data.reshape(*self.shape, -1), bvals, gradients

    def _around(self, bvals: Array) -> Array:
        """Return the signals of what is not white matter (x * y * z, n)."""
        grey, share = GREY_SIGNAL * np.exp(-bvals * ISOTROPIC), self.fluid_share.ravel()[:, None]
        return grey + share * (FLUID_SIGNAL * np.exp(-bvals * FLUID) - grey)

    def save(self, folder: Path) -> None:
        """Write the files of :func:`write_series`."""
        write_series(folder, *self.series(), self.affine, self.mask, self.white)

    def seeds(self, count: int) -> npt.NDArray[np.float32]:
        """Return random points (count, 3), mm, in white matter."""
        return random_points(self.white, self.affine, count, self.seed)

    @cached_property
    def fibres(self) -> tuple[npt.NDArray[np.int64], Array]:
        """Voxel (n, 3) and mean direction (n, 3), RAS, of each bundle in a voxel of white matter.

        Bundles with less than a fifth of the strands of the voxel are left out.
        """
        amounts = np.array([*self.amounts.values()])
        bundle, voxel = np.nonzero((amounts > SHARE * amounts.sum(axis=0)) & self.white.ravel())
        sums = []
        for part in self.bundles.values():
            here = self.voxels(part.reshape(-1, 3))
            along = [np.bincount(here, values, minlength=amounts.shape[1]) for values in _tangents(part).T]
            sums.append(np.stack(along, axis=1))
        mean = np.array(sums)[bundle, voxel]
        mean /= np.linalg.norm(mean, axis=1, keepdims=True)
        return np.stack(np.unravel_index(voxel, self.shape), axis=1), mean

    def peak_scores(self, peaks: Array) -> dict[str, float]:
        """Compare peaks (x, y, z, k, 3), RAS, with the directions of the bundles (:func:`.peaks.angular_scores`)."""
        return angular_scores(peaks, *self.fibres)

    def score(self, lines: Lines) -> dict[str, float]:
        """Score streamlines.

        An end is at the nearest end of a strand within 1.5 voxels.

        Parameters
        ----------
        lines : streamlines (m, 3), mm.

        Returns
        -------
        dict
            Those of :func:`.scores.connections`; overlap, overreach : voxels of a bundle that its valid streamlines
            pass, and others that they pass, in % of its voxels, the mean over bundles; r : correlation of the numbers
            of streamlines of all pairs of ends with those of strands.
        """
        lines = [line for line in lines if len(line) > 1]
        # bundle k has the ends 2 k and 2 k + 1
        places = [part[:, at] for part in self.bundles.values() for at in (0, -1)]
        ends = nearest_ends(outer_points(lines).reshape(-1, 3), places, REACH * self.voxel_mm).reshape(-1, 2)
        pairs = [(2 * number, 2 * number + 1) for number in range(len(self.bundles))]
        scores = connections(lines, ends, pairs)
        overlap, overreach = self._covered(lines, bundle_of(ends, pairs))
        return scores | {"overlap": overlap, "overreach": overreach, "r": self._correlation(ends)}

    def _correlation(self, ends: npt.NDArray[np.int64]) -> float:
        """Return r of the numbers of streamlines and of strands between all pairs of ends."""
        nodes = 2 * len(self.bundles)
        counts, expected = np.zeros((2, nodes, nodes))
        joined = (ends >= 0).all(axis=1)
        np.add.at(counts, (ends.min(axis=1)[joined], ends.max(axis=1)[joined]), 1)
        expected[np.arange(0, nodes, 2), np.arange(1, nodes, 2)] = [len(part) for part in self.bundles.values()]
        pairs = np.triu_indices(nodes)
        return float(np.corrcoef(counts[pairs], expected[pairs])[0, 1]) if counts.any() else 0.0

    def _covered(self, lines: Lines, bundle: npt.NDArray[np.int64]) -> tuple[float, float]:
        """Return overlap and overreach; ``bundle`` (n,) is the one of which each streamline is, or -1."""
        overlap, overreach = [], []
        for number, amount in enumerate(self.amounts.values()):
            covered = amount > OWN
            mine = [line for line, of in zip(lines, bundle, strict=True) if of == number]
            passed = np.zeros(len(covered), bool)
            if mine:
                passed[self.voxels(np.concatenate(mine))] = True
            overlap.append(100 * (passed & covered).sum() / covered.sum())
            overreach.append(100 * (passed & ~covered).sum() / covered.sum())
        return float(np.mean(overlap)), float(np.mean(overreach))


def _tangents(part: Array) -> Array:
    """Return the unit tangents (n * m, 3) at the points of strands (n, m, 3)."""
    tangents = np.gradient(part, axis=1).reshape(-1, 3)
    return tangents / np.linalg.norm(tangents, axis=1, keepdims=True)
