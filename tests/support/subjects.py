"""A subject's folder as FreeSurfer lays it out, whose structures are balls."""

from __future__ import annotations

from pathlib import Path

import nibabel as nib
import numpy as np
from meshes import LIA, footer, icosphere, save_freesurfer

CENTRE = np.array([1.5, -20.25, 30.75])  # of the volume, RASmm
EXTENT = 96.0  # mm
HEMISPHERE, WHITE_RADIUS, PIAL_RADIUS, BRAIN_RADIUS = np.array([20.0, 0, 0]), 17.0, 19.6, 44.0
MIDLINE = {  # places from the centre and radii, mm; the labels of a side have a mirrored place on the other one
    14: ((0, 0, 0), 3), 15: ((0, -22, -26), 4), 16: ((0, -14, -26), 7), 24: ((0, 24, 10), 3), 72: ((0, 6, 8), 2.2),
    192: ((0, 12, 10), 3), 250: ((0, 2, 6), 2.3), 251: ((0, -12, 12), 3), 252: ((0, -7, 13), 3),
    253: ((0, -2, 13), 3), 254: ((0, 3, 13), 3), 255: ((0, 8, 12), 3),
}
PAIRS = {
    (4, 43): ((12, -4, 14), 5), (5, 44): ((26, -10, -14), 2.5), (10, 49): ((13, 0, 0), 5), (11, 50): ((13, 12, 4), 4),
    (12, 51): ((22, 4, 0), 5), (13, 52): ((24, -8, 0), 3.2), (17, 53): ((20, -14, -8), 4), (18, 54): ((20, 10, -10), 4),
    (25, 57): ((22, 0, 16), 3), (26, 58): ((12, 10, -8), 2.6), (28, 60): ((6, -10, -20), 4),
    (30, 62): ((28, 2, -10), 2.2), (31, 63): ((12, -8, 14), 2.5), (8, 47): ((12, -28, -26), 10),
    (7, 46): ((12, -28, -26), 6),
}
MIRROR = np.array([-1, 1, 1])


def save_subject(folder: Path, side: float = 2.0, info: dict | None = None) -> Path:
    """Write a subject's folder, with voxels of ``side`` mm; ``info`` is the geometry that surfaces have."""
    count = round(EXTENT / side)
    affine = np.eye(4)
    affine[:3, :3] = LIA * side
    affine[:3, 3] = CENTRE - LIA @ np.full(3, EXTENT / 2)
    voxels = np.stack(np.meshgrid(*[np.arange(count)] * 3, indexing="ij"), axis=-1)
    places = nib.affines.apply_affine(affine, voxels) - CENTRE
    (folder / "mri" / "transforms").mkdir(parents=True)
    (folder / "surf").mkdir()
    (folder / "mri" / "transforms" / "talairach.xfm").write_text("MNI Transform File\n")  # which 5ttgen looks for
    nib.save(nib.MGHImage(labels_at(places), affine), folder / "mri" / "aparc+aseg.mgz")
    brain = np.where(np.linalg.norm(places, axis=-1) < BRAIN_RADIUS, 110, 0).astype(np.uint8)
    nib.save(nib.MGHImage(brain, affine), folder / "mri" / "brainmask.mgz")
    for name, sign in (("lh", MIRROR), ("rh", 1)):
        for kind, radius in (("white", WHITE_RADIUS), ("pial", PIAL_RADIUS)):
            surface = icosphere(4, radius, sign * HEMISPHERE)
            save_freesurfer(folder / "surf" / f"{name}.{kind}", *surface, footer(CENTRE) if info is None else info)
    return folder


def labels_at(places: np.ndarray) -> np.ndarray:
    """The labels at places from the centre, (..., 3) mm."""
    labels = np.zeros(places.shape[:-1], np.int32)
    balls = [(label, MIRROR * HEMISPHERE, radius) for label, radius in ((3, PIAL_RADIUS), (2, WHITE_RADIUS))]
    balls += [(label, HEMISPHERE, radius) for label, radius in ((42, PIAL_RADIUS), (41, WHITE_RADIUS))]
    balls += [(label, np.array(place), radius) for label, (place, radius) in MIDLINE.items()]
    for (left, right), (place, radius) in PAIRS.items():
        balls += [(left, MIRROR * place, radius), (right, np.array(place), radius)]
    for label, place, radius in balls:
        labels[((places - place) ** 2).sum(axis=-1) <= radius**2] = label
    return labels


def save_fine(path: Path, balls: dict[int, tuple[tuple[float, float, float], float]], side: float = 0.5) -> None:
    """Write an image of labels in small voxels around balls, as FreeSurfer's modules do."""
    low = np.min([np.array(place) - radius for place, radius in balls.values()], axis=0) - 2
    high = np.max([np.array(place) + radius for place, radius in balls.values()], axis=0) + 2
    affine = np.diag([side, side, side, 1])
    affine[:3, 3] = low + CENTRE
    voxels = np.stack(np.meshgrid(*map(np.arange, ((high - low) / side).astype(int)), indexing="ij"), axis=-1)
    places, labels = voxels * side + low, np.zeros(voxels.shape[:-1], np.int32)
    for label, (place, radius) in balls.items():
        labels[((places - place) ** 2).sum(axis=-1) <= radius**2] = label
    nib.save(nib.MGHImage(labels, affine), path)


NUCLEI = {8103: ((-13, 2, 0), 4), 8115: ((-13, 1.5, 0), 3), 8203: ((13, 2, 0), 4), 8215: ((13, 1.5, 0), 3)}


def subfields_of(sign: int) -> dict[int, tuple[tuple[float, float, float], float]]:
    """Balls of CA1, the fimbria and the lateral nucleus of the amygdala on one side."""
    return {237: ((sign * 22, -16, -8), 4), 212: ((sign * 22, -16, -2), 2), 7001: ((sign * 22, 10, -12), 3)}
