"""Folders named as bedpostX names its files, written from directions in scanner space."""

from __future__ import annotations

from pathlib import Path

import nibabel as nib
import numpy as np
from dipy.core.geometry import cart2sphere

# The same anatomy stored twice: x along and against the first axis; determinant positive and negative.
POSITIVE = np.array([[2.0, 0, 0, -5], [0, 1.8, 0, 3], [0, 0, 2.5, 1], [0, 0, 0, 1]])


def mirrored(affine: np.ndarray, size: int) -> np.ndarray:
    """Affine of the same anatomy with the first axis of ``size`` voxels in the other order."""
    turn = np.diag([-1.0, 1, 1, 1])
    turn[0, 3] = size - 1
    return affine @ turn


def fsl_angles(directions: np.ndarray, affine: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Polar angle and azimuth, in FSL's frame, of directions (..., 3) in scanner space.

    FSL's frame is left-handed in scanner space: of a right-handed grid the first axis is reversed.
    """
    turned = directions @ (affine[:3, :3] / np.linalg.norm(affine[:3, :3], axis=0))
    if np.linalg.det(affine[:3, :3]) > 0:
        turned = turned * [-1, 1, 1]
    _, polar, azimuth = cart2sphere(*np.moveaxis(turned, -1, 0))
    return polar, azimuth


def save_samples(
    folder: Path, directions: np.ndarray, fractions: np.ndarray, affine: np.ndarray, mask: np.ndarray | None = None
) -> Path:
    """Write directions (x, y, z, samples, fibres, 3), scanner space, and fractions (x, y, z, samples, fibres)."""
    folder.mkdir(parents=True, exist_ok=True)
    mask = np.ones(fractions.shape[:3], bool) if mask is None else mask
    polar, azimuth = fsl_angles(directions, affine)
    images = {"nodif_brain_mask": mask.astype(np.uint8)}
    for fibre in range(fractions.shape[4]):
        for role, values in (("th", polar), ("ph", azimuth), ("f", fractions)):
            images[f"merged_{role}{fibre + 1}samples"] = values[..., fibre].astype(np.float32)
    for name, values in images.items():
        nib.save(nib.Nifti1Image(values, affine), folder / f"{name}.nii.gz")
    return folder
