"""Reading of five-tissue-type (5TT) images, with the checks of MRtrix3's ``5ttcheck``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..space.batch import Space
from .images import LARGEST, AnyPath, Tell, first_place, grid_of, open_image, reading
from .stored import floats, unpacked

TISSUES = (
    "cortical grey matter", "subcortical grey matter", "white matter", "cerebrospinal fluid", "pathological tissue"
)
CORTICAL, SUBCORTICAL, WHITE, FLUID, PATHOLOGICAL = range(len(TISSUES))
TOLERANCE = 1e-3  # of sums, as in 5ttcheck; here also of fractions, since programs that resample round them
AGAIN = "make the image again, e.g. with tistreamlines 5tt"


def load_five_tissues(path: AnyPath, warn: Tell | None = None) -> tuple[npt.NDArray[np.float32], Space]:
    """Read a five-tissue-type image, on a grid of its own.

    Parameters
    ----------
    path : str, Path, InMemory or Opened
        4-D image of five volumes, the fractions of the `TISSUES` in each voxel, as ``tistreamlines 5tt`` or MRtrix3's
        ``5ttgen`` writes it.
    warn : callable, optional
        Receives a message if fractions do not sum to 1, which ``5ttcheck`` warns about, too; by default, that is an
        error.

    Returns
    -------
    values : (x, y, z, 5) float32
        Fractions from 0 to 1. Those less than `TOLERANCE` below 0 or above 1 are clipped.
    space : Space
        Grid of the image, which may be rotated or sheared.

    Raises
    ------
    InputError
        If the file is missing or damaged, has other than five volumes, a value that is no fraction, no tissue at all,
        or voxels whose fractions sum to neither 0 nor 1.
    """
    path, image = open_image(path)
    shape = tuple(image.shape)
    if shape[3:] != (len(TISSUES),):
        raise InputError(f"{path}: shape {shape}; give a five-tissue-type image, which has four axes and five volumes")
    space = grid_of(path, image, sheared=True)
    with reading(path):
        values, _ = floats(unpacked(image), LARGEST)
    check_fractions(path, values)
    np.clip(values, 0, 1, out=values)
    if wrong := _wrong_sums(path, values):
        if warn is None:
            raise InputError(wrong)
        warn(wrong)
    return values, space


def check_fractions(path: Path, values: npt.NDArray[np.float32]) -> None:
    """Raise an InputError if a value is not finite, or beyond 0 or 1 by more than TOLERANCE.

    Parameters
    ----------
    path : Path
        File of the values, for the message.
    values : (x, y, z) or (x, y, z, n) float32
        Fractions.
    """
    wrong = np.zeros(values.shape[:3], bool)
    for volume in np.moveaxis(values[..., None] if values.ndim == 3 else values, -1, 0):
        wrong |= ~((volume >= -TOLERANCE) & (volume <= 1 + TOLERANCE))  # "not within" also catches NaN
    if wrong.any():
        voxel, count = first_place(wrong), int(wrong.sum())
        odd = next(value for value in np.atleast_1d(values[voxel]) if not -TOLERANCE <= value <= 1 + TOLERANCE)
        raise InputError(f"{path}: values of {count:,} voxels are no fractions, such as {odd:.4g} in voxel {voxel}; "
                         "give numbers from 0 to 1")


def _wrong_sums(path: Path, values: npt.NDArray[np.float32]) -> str:
    """Say how many voxels have fractions that sum to neither 0 nor 1, or nothing; an image of zeros is an error."""
    total = values.sum(axis=-1)
    tissue = total > TOLERANCE
    if not tissue.any():
        raise InputError(f"{path}: has no tissue, all values are 0; {AGAIN}")
    wrong = tissue & (np.abs(total - 1) > TOLERANCE)
    if not wrong.any():
        return ""
    voxel = first_place(wrong)
    return (f"{path}: the five fractions sum to neither 0 nor 1 in {wrong.sum():,} of {tissue.sum():,} voxels with "
            f"tissue, such as {total[voxel]:.4g} in voxel {voxel}; divide them by their sums, or {AGAIN}")
