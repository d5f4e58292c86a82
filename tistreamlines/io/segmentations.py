"""Reading of segmentations: images of labels or of probabilities, and five-tissue-type images.

The latter have the checks of MRtrix3's ``5ttcheck``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..space.batch import Space
from .images import LARGEST, AnyPath, OpenImage, Tell, grid_of, open_image, read_array, reading
from .labels import first_place, labels_of
from .stored_image import floats, volumes_of

TISSUES = (
    "cortical grey matter", "subcortical grey matter", "white matter", "cerebrospinal fluid", "pathological tissue"
)
CORTICAL, SUBCORTICAL, WHITE, FLUID, PATHOLOGICAL = range(len(TISSUES))
TOLERANCE = 1e-3  # of sums, as in 5ttcheck; here also of fractions, since programs that resample round them
AGAIN = "make the image again, e.g. with tistreamlines 5tt"


@dataclass(frozen=True, eq=False)
class Labels:
    """An image of labels.

    Parameters
    ----------
    path : Path
        Its file, for messages.
    space : Space
        Its grid, which may be rotated or sheared.
    values : (x, y, z) int32, C-contiguous
        The label of each voxel, from 0 on; 0 where there is none.
    """

    path: Path
    space: Space
    values: npt.NDArray[np.int32]


def read_labels(path: AnyPath) -> Labels:
    """Read an image of labels.

    Parameters
    ----------
    path : str, Path, InMemory or Opened
        Image of three axes, and perhaps one of a single volume, of whole numbers of any type. Those that are rounded to
        float32, or scaled by a factor of float32, count as whole, as in MRtrix3's ``tck2connectome``.

    Returns
    -------
    Labels

    Raises
    ------
    InputError
        If the image is missing or damaged, has other axes, a value that is no label, or no label above 0.
    """
    path, image = open_image(path)
    shape = tuple(image.shape)
    if len(shape) not in (3, 4) or shape[3:] not in ((), (1,)):
        raise InputError(f"{path}: shape {shape} has {len(shape)} axes; give a parcellation of three, with labels, or "
                         "of four, with the probabilities of a node in each volume")
    values, scaled = read_array(path, image).reshape(shape[:3]), image.get_data_dtype().kind != "f"
    return Labels(path, grid_of(path, image, sheared=True), labels_of(path, values, scaled=scaled))


@dataclass(frozen=True, eq=False)
class Probabilities:
    """The probabilities of nodes in each voxel, as far as they are above 0.

    Parameters
    ----------
    path : Path
        Their file, for messages.
    space : Space
        Its grid, which may be rotated or sheared.
    voxels : list of (k,) int32
        For each node, its voxels in ascending order, numbered as those of a C-contiguous array.
    values : list of (k,) float32
        Its probability in each of these, above 0 and up to 1.
    sums : (voxels,) float64
        Sum of the probabilities in each voxel of the image.
    """

    path: Path
    space: Space
    voxels: list[npt.NDArray[np.int32]]
    values: list[npt.NDArray[np.float32]]
    sums: npt.NDArray[np.float64]

    @property
    def doubts(self) -> tuple[str, ...]:
        """How many voxels have probabilities that sum to more than 1."""
        above = self.sums > 1 + TOLERANCE
        if not above.any():
            return ()
        return (f"{self.path}: the probabilities of {above.sum():,} voxels sum to more than 1, at most to "
                f"{self.sums.max():.4g}, and are divided by their sum",)


def read_probabilities(opened: OpenImage) -> Probabilities:
    """Read an image with the probabilities of a node in each volume, whose zeros take no memory.

    Raises
    ------
    InputError
        If the image is damaged, has a value that is no fraction (see :func:`check_fractions`), or none above 0.
    """
    path, image = opened
    space = grid_of(path, image, sheared=True)
    sums, voxels, values = np.zeros(math.prod(space.shape)), [], []
    with reading(path):
        for number, volume in enumerate(volumes_of(image), 1):
            check_fractions(path, volume, f" of volume {number}")
            content = volume.ravel()
            present = np.flatnonzero(content > 0).astype(np.int32)
            voxels.append(present)
            values.append(np.minimum(content[present], 1))
            sums[present] += values[-1]
    if not sums.any():
        raise InputError(f"{path}: has no probability above 0; give a parcellation")
    return Probabilities(path, space, voxels, values, sums)


def load_five_tissues(path: AnyPath, warn: Tell | None = None) -> tuple[npt.NDArray[np.float32], Space]:
    """Read a five-tissue-type image, on another grid.

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
        values, _ = floats(image, LARGEST)
    check_fractions(path, values)
    np.clip(values, 0, 1, out=values)
    if wrong := _wrong_sums(path, values):
        if warn is None:
            raise InputError(wrong)
        warn(wrong)
    return values, space


def check_fractions(path: Path, values: npt.NDArray[np.float32], of_volume: str = "") -> None:
    """Raise an InputError if a value is not finite, or beyond 0 or 1 by more than TOLERANCE.

    Parameters
    ----------
    path : Path
        File of the values, for the message.
    values : (x, y, z) or (x, y, z, n) float32
        Fractions.
    of_volume : str
        The words that say of which volume they are, for the message.
    """
    wrong = np.zeros(values.shape[:3], bool)
    for volume in np.moveaxis(values[..., None] if values.ndim == 3 else values, -1, 0):
        wrong |= ~((volume >= -TOLERANCE) & (volume <= 1 + TOLERANCE))  # "not within" also catches NaN
    if wrong.any():
        voxel, count = first_place(wrong), int(wrong.sum())
        odd = next(value for value in np.atleast_1d(values[voxel]) if not -TOLERANCE <= value <= 1 + TOLERANCE)
        raise InputError(f"{path}: values of {count:,} voxels are no fractions, such as {odd:.4g} in voxel {voxel}"
                         f"{of_volume}; give numbers from 0 to 1")


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
