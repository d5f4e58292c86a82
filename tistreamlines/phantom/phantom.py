"""A synthetic head with known bundles: diffusion data for the demo, the tests and the benchmark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .anatomy import CORTEX_STARTS, Tube, anatomy, depth, tube, ventricles

# Signal of the b0s (integers, as scanners store them) and diffusivities in mm^2/s.
_WHITE, _GREY = 300.0, 390.0
_ALONG, _ACROSS, _ISOTROPIC = 1.7e-3, 0.25e-3, 0.8e-3


@dataclass(frozen=True)
class Bundle:
    """One known bundle of a phantom.

    Attributes
    ----------
    name : str
        Paired bundles end in ``_left`` or ``_right``.
    membership : (x, y, z) float32
        Volume fraction of the voxel that the bundle fills, 0 to 1.
    ends : two (x, y, z) bool
        The two end regions, slightly dilated: a valid streamline has one end in each.
    centreline : (m, 3) float32, RAS mm
        Centreline from the first end to the second.
    """

    name: str
    membership: np.ndarray
    ends: tuple[np.ndarray, np.ndarray]
    centreline: np.ndarray


@dataclass(frozen=True)
class Phantom:
    """Diffusion data and their ground truth.

    Attributes
    ----------
    data : (x, y, z, n) float32
        Signal, in integers; zero outside the mask.
    bvals : (n,) float64, s/mm^2
    bvecs : (n, 3) float64
        Unit gradient directions along the voxel axes; zero for b0s.
    mask : (x, y, z) bool
    affine : (4, 4) float64
        From voxel coordinates (integers are centres) to RAS mm. The first voxel axis points left, so that FSL's and
        DIPY's reading of bvecs agree.
    bundles : tuple of Bundle
    tissues : dict of (x, y, z) float32
        Fractions of white matter, grey matter (the cortex) and cerebrospinal fluid (the ventricles): 'wm', 'gm', 'csf'.
        Their sum is 1 in the mask and 0 outside. The signal of the ventricles is that of grey matter.
    """

    data: np.ndarray
    bvals: np.ndarray
    bvecs: np.ndarray
    mask: np.ndarray
    affine: np.ndarray
    bundles: tuple[Bundle, ...]
    tissues: dict[str, np.ndarray]


@dataclass(frozen=True)
class JoinedShare:
    """The number of streamlines that join the two ends of a bundle: valid ones, all, their ratio, and per bundle."""

    valid: int
    total: int
    share: float
    per_bundle: dict[str, int]


def make_phantom(
    shape: tuple[int, int, int] = (60, 72, 56),
    voxel_mm: float = 2.5,
    n_b0: int = 4,
    n_dirs: int = 64,
    bval: float = 1500.0,
    snr: float = 30.0,
    seed: int = 1,
) -> Phantom:
    """Generate a brain-like phantom with known bundles.

    Six commissures and four pairs of left and right bundles cross each other and end in isotropic grey matter.

    Parameters
    ----------
    shape : three int
        Number of voxels along each axis; the anatomy is scaled to it.
    voxel_mm : float, mm
        Size of the isotropic voxels.
    n_b0, n_dirs : int
        Number of volumes without and with diffusion weighting.
    bval : float, s/mm^2
    snr : float
        b0 signal of white matter over the standard deviation of the Rician noise.
    seed : int
        RNG seed of the noise and the gradient directions.

    Returns
    -------
    Phantom
    """
    rng = np.random.default_rng(seed)
    head = Head.of(shape)
    bvals = np.concatenate([np.zeros(n_b0), np.full(n_dirs, float(bval))])
    bvecs = np.concatenate([np.zeros((n_b0, 3)), spread_directions(n_dirs, seed)])
    signal = _signal(head.fractions, head.directions, head.mask, bvals, bvecs)
    data = with_noise(signal, head.mask, _WHITE / snr, rng)
    affine = affine_of(shape, voxel_mm)
    return Phantom(data, bvals, bvecs, head.mask, affine, head.bundles(affine), head.tissues)


def affine_of(shape: tuple[int, int, int], voxel_mm: float) -> np.ndarray:
    """Return the affine (4, 4) of a phantom, whose centre is the origin."""
    affine = np.diag([-voxel_mm, voxel_mm, voxel_mm, 1.0])
    affine[:3, 3] = -affine[:3, :3] @ (np.array(shape) - 1) / 2
    return affine


@dataclass(frozen=True, eq=False)
class Head:
    """The anatomy on a grid: of each bundle its tube, fraction (x, y, z) and direction (x, y, z, 3)."""

    mask: np.ndarray
    tubes: dict[str, Tube]
    fractions: list[np.ndarray]
    tissues: dict[str, np.ndarray]

    @classmethod
    def of(cls, shape: tuple[int, int, int]) -> Head:
        """Lay the anatomy out on a grid."""
        radius = depth(shape)
        mask = radius < 1
        white = _within(radius, CORTEX_STARTS)
        tubes = {name: tube(rows, sheet, shape) for name, (rows, sheet) in anatomy().items()}
        crowding = np.maximum(np.sum([t.fraction for t in tubes.values()], axis=0), 1.0)
        fractions = [(t.fraction / crowding * white).astype(np.float32) for t in tubes.values()]
        fluid = _within(ventricles(shape), 1.0) * white * np.maximum(1 - np.sum(fractions, axis=0), 0)
        tissues = {"wm": white - fluid, "gm": 1 - white, "csf": fluid}
        return cls(mask, tubes, fractions, {k: (share * mask).astype(np.float32) for k, share in tissues.items()})

    @property
    def directions(self) -> list[np.ndarray]:
        """The direction of each bundle."""
        return [t.direction for t in self.tubes.values()]

    def bundles(self, affine: np.ndarray) -> tuple[Bundle, ...]:
        """Return the bundles, whose centrelines are in mm."""
        return tuple(
            Bundle(name, fraction, t.ends, (t.centreline @ affine[:3, :3].T + affine[:3, 3]).astype(np.float32))
            for fraction, (name, t) in zip(self.fractions, self.tubes.items(), strict=True)
        )


def _within(radius: np.ndarray, edge: float) -> np.ndarray:
    """Return 1 where a scaled radius is below ``edge`` and 0 above, with a soft edge."""
    return 1 / (1 + np.exp(np.minimum((radius - edge) / 0.015, 80.0)))


def spread_directions(n: int, seed: int = 0, iterations: int = 300) -> np.ndarray:
    """Distribute directions over a hemisphere by electrostatic repulsion of antipodal pairs.

    Parameters
    ----------
    n : int
    seed : int
        RNG seed of the initial directions.
    iterations : int

    Returns
    -------
    (n, 3) float64
        Unit vectors with z >= 0.
    """
    v = np.random.default_rng(seed).normal(size=(n, 3))
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    for k in range(iterations):
        charges = np.concatenate([v, -v])
        away = v[:, None] - charges[None]
        distance = np.linalg.norm(away, axis=-1)
        # A charge does not repel itself; its antipode repels it along the radius, which is projected out below.
        distance[distance < 1e-9] = np.inf
        push = (away / distance[..., None] ** 3).sum(axis=1)
        push -= (push * v).sum(axis=1, keepdims=True) * v
        v += 0.3 / np.sqrt(n) * (1 - k / iterations) * push / max(np.linalg.norm(push, axis=1).max(), 1e-12)
        v /= np.linalg.norm(v, axis=1, keepdims=True)
    return np.where(v[:, 2:] < 0, -v, v)


def joined_share(phantom: Phantom, points: np.ndarray, offsets: np.ndarray) -> JoinedShare:
    """Count the streamlines whose two ends lie in the two end regions of one bundle.

    Parameters
    ----------
    phantom : Phantom
    points : (p, 3) float32, RAS mm
        Points of all streamlines, concatenated.
    offsets : (n + 1,) int64
        Streamline ``i`` is ``points[offsets[i]:offsets[i + 1]]``.

    Returns
    -------
    JoinedShare
        A streamline counts once in ``valid``, and in ``per_bundle`` for each bundle that it joins.
    """
    points, offsets = np.asarray(points), np.asarray(offsets)
    total = len(offsets) - 1
    kept = np.diff(offsets) > 1
    to_voxel = np.linalg.inv(phantom.affine)
    shape = np.array(phantom.mask.shape)

    def located(rows: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        voxel = np.rint(points[rows] @ to_voxel[:3, :3].T + to_voxel[:3, 3]).astype(np.int64)
        inside = np.logical_and.reduce((voxel >= 0) & (voxel < shape), axis=1)
        return inside, tuple(np.clip(voxel, 0, shape - 1).T)

    inside_a, a = located(offsets[:-1][kept])
    inside_b, b = located(offsets[1:][kept] - 1)
    inside = inside_a & inside_b
    joins = {
        bundle.name: inside & ((bundle.ends[0][a] & bundle.ends[1][b]) | (bundle.ends[1][a] & bundle.ends[0][b]))
        for bundle in phantom.bundles
    }
    valid = int(np.any(list(joins.values()), axis=0).sum())
    return JoinedShare(valid, total, valid / total if total else 0.0, {name: int(j.sum()) for name, j in joins.items()})


def ends_of(phantom: Phantom) -> tuple[np.ndarray, list[str]]:
    """Return a parcellation of the ends of bundles, (x, y, z) from 1 on, and the names of its nodes.

    A voxel that is in the ends of several bundles belongs to the first one.
    """
    nodes, names = np.zeros(phantom.mask.shape, int), []
    for bundle in phantom.bundles:
        for which, end in zip("ab", bundle.ends, strict=True):
            names.append(f"{bundle.name}_{which}")
            nodes[end & (nodes == 0)] = len(names)
    return nodes, names


def save_phantom(phantom: Phantom, folder: str | Path) -> list[Path]:
    """Write ``dwi.nii.gz``, ``dwi.bval``, ``dwi.bvec``, ``mask.nii.gz``, the bundles, their ends and tissue fractions.

    The labels of the bundles (``bundles.nii.gz``) count from 1. The ends of bundles are the nodes of a parcellation,
    ``nodes.nii.gz``, with their names in ``nodes.tsv``. The fractions are ``pve_wm.nii.gz``, ``pve_gm.nii.gz`` and
    ``pve_csf.nii.gz``. Each file appears only when it is complete; the gradient files have FSL's format.

    Parameters
    ----------
    phantom : Phantom
    folder : str or Path
        It is created if missing.

    Returns
    -------
    list of Path
        The series: dwi, bvals, bvecs.
    """
    import nibabel

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    membership = np.stack([bundle.membership for bundle in phantom.bundles])
    labels = np.where(membership.max(axis=0) > 0.2, membership.argmax(axis=0) + 1, 0)
    nodes, names = ends_of(phantom)

    def image(volume: np.ndarray, dtype: type) -> Callable[[Path], None]:
        nifti = nibabel.Nifti1Image(volume.astype(dtype), phantom.affine)
        nifti.header.set_xyzt_units("mm")
        return lambda path: nibabel.save(nifti, path)

    def table(rows: np.ndarray, form: str) -> Callable[[Path], None]:
        return lambda path: np.savetxt(path, rows, fmt=form)

    writers = {
        "dwi.nii.gz": image(phantom.data, np.int16),
        "dwi.bval": table(phantom.bvals[None], "%g"),
        "dwi.bvec": table(phantom.bvecs.T, "%.8f"),
        "mask.nii.gz": image(phantom.mask, np.uint8),
        "bundles.nii.gz": image(labels, np.uint8),
        "nodes.nii.gz": image(nodes, np.uint8),
        "nodes.tsv": lambda path: path.write_text("index\tname\n" + "".join(
            f"{label}\t{name}\n" for label, name in enumerate(names, 1)
        ), encoding="utf-8"),
        **{f"pve_{name}.nii.gz": image(share, np.float32) for name, share in phantom.tissues.items()},
    }
    for name, write in writers.items():
        # the suffix must come last, because nibabel compresses by suffix
        partial = folder / f"partial_{name}"
        try:
            write(partial)
            partial.replace(folder / name)
        finally:
            partial.unlink(missing_ok=True)
    return [folder / name for name in ("dwi.nii.gz", "dwi.bval", "dwi.bvec")]


def _signal(
    fractions: list[np.ndarray], directions: list[np.ndarray], mask: np.ndarray, bvals: np.ndarray, bvecs: np.ndarray
) -> np.ndarray:
    """Return the noise-free signal (voxels of the mask, n): an axially symmetric tensor per bundle, and grey matter."""
    bvals, bvecs = bvals.astype(np.float32), bvecs.astype(np.float32)
    grey = 1 - np.sum(fractions, axis=0)[mask]
    signal = grey[:, None] * (_GREY * np.exp(-bvals * _ISOTROPIC)).astype(np.float32)
    for fraction, direction in zip(fractions, directions, strict=True):
        weight = fraction[mask]
        present = np.flatnonzero(weight > 1e-3)
        cosine = direction[mask][present] @ bvecs.T
        decay = bvals * (np.float32(_ACROSS) + np.float32(_ALONG - _ACROSS) * cosine**2)
        signal[present] += (np.float32(_WHITE) * weight[present])[:, None] * np.exp(-decay)
    return signal


def with_noise(signal: np.ndarray, mask: np.ndarray, sigma: float, rng: np.random.Generator) -> np.ndarray:
    """Return the rounded magnitude of the signal with complex Gaussian noise, as a volume (x, y, z, n)."""
    real = signal + np.float32(sigma) * rng.standard_normal(signal.shape, dtype=np.float32)
    imaginary = np.float32(sigma) * rng.standard_normal(signal.shape, dtype=np.float32)
    data = np.zeros((*mask.shape, signal.shape[1]), np.float32)
    data[mask] = np.rint(np.hypot(real, imaginary))
    return data
