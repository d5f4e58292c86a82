"""Data whose bundles are known: what trackers need of them, and their files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from .scores import Lines

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


class Known(Protocol):
    """A diffusion series whose bundles are known.

    Attributes
    ----------
    affine : (4, 4), from voxels to RAS mm.
    options : options of this package that the series needs.
    response_fa : FA above which DIPY takes single-fibre voxels.
    erosions : of the mask before MRtrix3 estimates responses of tissues; 0 where all that is not white matter is at its
        border.
    """

    affine: Array
    options: dict[str, Any]
    response_fa: float
    erosions: int

    @property
    def about(self) -> dict[str, Any]:
        """What a row of scores says of it."""
        ...

    @property
    def voxel_mm(self) -> float:
        """Side of a voxel, mm."""
        ...

    @property
    def white(self) -> Mask:
        """Voxels of white matter (x, y, z): where streamlines begin, and beyond which they end."""
        ...

    @property
    def mask(self) -> Mask:
        """Voxels with signal (x, y, z)."""
        ...

    def save(self, folder: Path) -> None:
        """Write the files of :func:`write_series`."""
        ...

    def seeds(self, count: int) -> npt.NDArray[np.float32]:
        """Return random points (count, 3), mm, in white matter."""
        ...

    def score(self, lines: Lines) -> dict[str, float]:
        """Score streamlines (m, 3), mm."""
        ...

    def peak_scores(self, peaks: Array) -> dict[str, float]:
        """Score the peaks of orientation functions (x, y, z, k, 3), RAS; 0 where there is none."""
        ...


def axes_of(affine: Array) -> Array:
    """Return the unit vectors (3, 3) of the voxel axes, as columns, RAS."""
    return affine[:3, :3] / np.linalg.norm(affine[:3, :3], axis=0)


def write_series(
    folder: Path, data: npt.NDArray[np.float32], bvals: Array, gradients: Array, affine: Array, mask: Mask, white: Mask
) -> None:
    """Write ``dwi.nii.gz``, ``dwi.bval``, ``dwi.bvec``, ``mask.nii.gz`` and ``white.nii.gz``.

    Parameters
    ----------
    folder : Path
    data : (x, y, z, n)
    bvals : (n,), s/mm2
    gradients : (n, 3), RAS
    affine : (4, 4), mm
        Of negative determinant: FSL's gradients are then along the voxel axes, as DIPY reads them.
    mask, white : (x, y, z)
    """
    import nibabel as nib

    images = {"dwi": data, "mask": mask.astype(np.uint8), "white": white.astype(np.uint8)}
    for name, image in images.items():
        nib.save(nib.Nifti1Image(image, affine), folder / f"{name}.nii.gz")
    np.savetxt(folder / "dwi.bval", bvals[None], fmt="%g")
    np.savetxt(folder / "dwi.bvec", (gradients @ axes_of(affine)).T, fmt="%.8f")


def random_points(white: Mask, affine: Array, count: int, seed: int) -> npt.NDArray[np.float32]:
    """Return random points (count, 3), mm, in the voxels of a mask (x, y, z)."""
    rng, places = np.random.default_rng(seed), np.argwhere(white)
    chosen = places[rng.integers(len(places), size=count)] + rng.uniform(-0.5, 0.5, (count, 3))
    return (chosen @ affine[:3, :3].T + affine[:3, 3]).astype(np.float32)
