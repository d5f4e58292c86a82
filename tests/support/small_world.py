"""A small image of all kinds of files: fibres cross and turn at random, between pockets of grey matter and of fluid.

A run with few seeds meets all that devices do there: crossings, valid and invalid ends, regions, nodes.
"""

from __future__ import annotations

from pathlib import Path

import nibabel as nib
import numpy as np
from sample_files import save_samples
from scipy.ndimage import gaussian_filter
from synthetic import gradients, signals

from tistreamlines.space.harmonics import sampling_matrix

SHAPE = (12, 12, 10)
IMAGES = (  # names of the files
    "dwi", "fod", "few_fods", "peaks", "pve_wm", "pve_gm", "pve_csf", "act", "stop_map", "mask", "inner", "labels"
)
AFFINE = np.array([[-2.0, 0, 0, 11], [0, 1.6, 0, -9], [0, 0, 2.4, -12], [0, 0, 0, 1]])


def block(first: int, after: int) -> np.ndarray:
    """Voxels whose indices lie in a range."""
    return (np.abs(np.indices(SHAPE) - (first + after - 1) / 2) < (after - first) / 2).all(axis=0)


def fields(rng: np.random.Generator) -> np.ndarray:
    """Two smooth fields of directions (2, x, y, z, 3)."""
    smooth = gaussian_filter(rng.normal(size=(2, *SHAPE, 3)), (0, 2.0, 2.0, 2.0, 0))
    return smooth / np.linalg.norm(smooth, axis=-1, keepdims=True)


def tissues(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Shares of white matter, grey matter and fluid, and five tissues with a block of deep grey matter."""
    noise = gaussian_filter(rng.normal(size=SHAPE), 0.8)
    fluid, grey = noise > np.quantile(noise, 0.78), noise < np.quantile(noise, 0.12)
    shares = [gaussian_filter(kind.astype(float), 0.4) for kind in (~(fluid | grey), grey, fluid)]
    white, grey, fluid = (share / np.sum(shares, axis=0) for share in shares)
    five = np.stack([grey, 2.0 * block(4, 7), white, fluid, 0 * fluid], axis=-1)
    return {
        "pve_wm": white, "pve_gm": grey, "pve_csf": fluid, "act": five / five.sum(axis=-1, keepdims=True),
        "stop_map": 0.3 + 0.7 * white,
    }


def write_world(folder: Path) -> Path:
    """Write a series, FODs, peaks, samples of bedpostX, tissues, masks, labels and a tractogram; return the folder."""
    rng, gtab = np.random.default_rng(0), gradients(32)  # as many as the phantom of verify has, whose kernels serve
    directions = fields(rng)
    series = np.tensordot([0.6, 0.4], signals(gtab, directions), 1)
    fod = 2 * sampling_matrix(directions[0].reshape(-1, 3), 4, "tournier07").reshape(*SHAPE, -1)
    images = tissues(rng) | {
        "dwi": np.maximum(series + rng.normal(0, 50, series.shape), 2), "fod": fod, "mask": np.ones(SHAPE),
        "peaks": np.concatenate([directions[0], 0.5 * directions[1]], axis=-1),
        "inner": np.pad(np.ones([size - 2 for size in SHAPE]), 1),
    }
    images["few_fods"] = np.where(block(4, 7)[..., None], fod, 0)  # each takes a device in software 20 ms
    for name, values in images.items():
        nib.save(nib.Nifti1Image(values.astype(np.float32), AFFINE), folder / f"{name}.nii.gz")
    labels = (np.indices(SHAPE).sum(axis=0) // 6 + 1).astype(np.int16)
    nib.save(nib.Nifti1Image(labels, AFFINE), folder / "labels.nii.gz")
    np.savetxt(folder / "dwi.bval", gtab.bvals[None])
    np.savetxt(folder / "dwi.bvec", gtab.bvecs.T)
    spread = np.moveaxis(directions, 0, -2)[..., None, :, :] + rng.normal(0, 0.1, (*SHAPE, 5, 2, 3))
    spread /= np.linalg.norm(spread, axis=-1, keepdims=True)
    save_samples(folder / "bedpostX", spread, np.broadcast_to([0.5, 0.3], (*SHAPE, 5, 2)), AFFINE)
    walks = rng.uniform(2, 8, (40, 1, 3)) + np.cumsum(rng.normal([0.3, 0.2, 0], 0.2, (40, 20, 3)), axis=1)
    lines = nib.affines.apply_affine(AFFINE, np.clip(walks, 0, 9)).astype(np.float32)
    nib.streamlines.save(nib.streamlines.Tractogram(list(lines), affine_to_rasmm=np.eye(4)), str(folder / "lines.tck"))
    return folder
