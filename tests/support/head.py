"""A made-up head: fibres along x, fluid at their begin, cortex at their end, deep grey matter in the middle.

Deep grey matter lies in one half of y.  And a maze, whose fibres turn at random between pockets of fluid and of cortex.
"""

from pathlib import Path

import nibabel as nib
import numpy as np
from scipy.ndimage import gaussian_filter, map_coordinates

import tistreamlines as ts
from tistreamlines.space.harmonics import sampling_matrix

SHAPE = (30, 16, 16)
SIDE = 2.0  # of a voxel, mm
COMMON = {"nseeds": 600, "arch": "cpu", "dg": "ifod2", "max_steps": 200}


def straight_fod() -> np.ndarray:
    """FOD of fibres along the first axis, order 4, tournier07: coefficients of a delta function, made milder."""
    lobe = sampling_matrix([[1.0, 0, 0]], 4, "tournier07")[0]
    return np.broadcast_to((2.0 * lobe).astype(np.float32), (*SHAPE, 15)).copy()


def make_head(folder: Path) -> Path:
    """Write fod.nii.gz, 5tt.nii.gz and mask.nii.gz; return the folder."""
    x, y, _ = np.indices(SHAPE)
    kinds = np.where(x < 4, 3, np.where(x >= 26, 0, np.where((np.abs(x - 15) < 2.5) & (y < 8), 1, 2)))
    tissues = np.stack([gaussian_filter((kinds == k).astype(float), 0.4) for k in range(5)], axis=-1)
    tissues /= tissues.sum(axis=-1, keepdims=True)
    return _written(folder, straight_fod(), tissues)


def make_maze(folder: Path, order: int = 4) -> Path:
    """Write the same files of the maze, with FODs of an order."""
    rng = np.random.default_rng(0)
    directions = np.stack([gaussian_filter(rng.normal(size=SHAPE), 2.0) for _ in range(3)], axis=-1)
    directions /= np.linalg.norm(directions, axis=-1, keepdims=True)
    fod = 2.0 * sampling_matrix(directions.reshape(-1, 3), order, "tournier07").reshape(*SHAPE, -1)
    noise = gaussian_filter(rng.normal(size=SHAPE), 0.8)
    fluid, cortex = noise > np.quantile(noise, 0.8), noise < np.quantile(noise, 0.1)
    kinds = (cortex, 0 * fluid, ~(fluid | cortex), fluid, 0 * fluid)
    return _written(folder, fod, np.stack([gaussian_filter(kind.astype(float), 0.4) for kind in kinds], axis=-1))


def _written(folder: Path, fod: np.ndarray, tissues: np.ndarray) -> Path:
    for name, values in (("fod", fod), ("5tt", tissues), ("mask", np.ones(SHAPE))):
        image = nib.Nifti1Image(values.astype(np.float32), np.diag([SIDE, SIDE, SIDE, 1]))
        nib.save(image, folder / f"{name}.nii.gz")
    return folder


def tracked(head: Path, **more) -> ts.TrackResult:
    """A run in the head."""
    named = {"sh": head / "fod.nii.gz", "sh_basis": "tournier07", "seed_mask": head / "mask.nii.gz",
             "act": head / "5tt.nii.gz"}
    return ts.track(**named | COMMON | more)


def sampled(values: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Each tissue at points in voxel coordinates, (5, n)."""
    volumes = np.moveaxis(values.astype(float), -1, 0)
    return np.stack([map_coordinates(each, points.T, order=1, mode="nearest") for each in volumes])
