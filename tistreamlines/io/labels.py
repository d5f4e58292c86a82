"""Reading of images of labels: parcellations and segmentations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..aliases import Array
from ..errors import InputError
from ..space.batch import Space
from .images import AnyPath, first_place, grid_of, open_image, read_array

ROUNDING = 2.0**-24  # of a number: float32's
SCALED = 1e-3  # that scaling may add to a whole number, since headers hold its factors in float32


@dataclass(frozen=True, eq=False)
class Labels:
    """An image of labels.

    Parameters
    ----------
    path : Path
        Its file, for messages.
    space : Space
        Its grid, which may be rotated or sheared.
    values : (x, y, z) int64
        The label of each voxel, from 0 on; 0 where there is none.
    """

    path: Path
    space: Space
    values: npt.NDArray[np.int64]


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
        raise InputError(f"{path}: shape {shape} has {len(shape)} axes; give a parcellation of three, with labels")
    values, scaled = read_array(path, image).reshape(shape[:3]), image.get_data_dtype().kind != "f"
    return Labels(path, grid_of(path, image, sheared=True), whole(path, values, scaled=scaled))


def whole(path: Path, values: Array, *, scaled: bool = False) -> npt.NDArray[np.int64]:
    """Return the labels of an image, (x, y, z), as whole numbers from 0 on; reals may be integers that are scaled."""
    if values.dtype.kind != "f":
        labels = values
    else:
        with np.errstate(invalid="ignore"):  # NaN and infinite values are refused
            labels = np.rint(values)
            off = np.abs(values - labels)
            most = SCALED if scaled else np.minimum(ROUNDING * np.abs(values), SCALED)
            _refuse(path, values, ~(off <= most), "whole numbers")
    _refuse(path, values, labels < 0, "labels from 0 on")
    _refuse(path, values, labels >= 2**31, "labels below 2^31")
    if not labels.any():
        raise InputError(f"{path}: has no label above 0; give a parcellation")
    return labels.astype(np.int64)


def _refuse(path: Path, values: Array, wrong: npt.NDArray[np.bool_], must: str) -> None:
    """Raise an InputError that names the first of the values that are no labels."""
    if not wrong.any():
        return
    voxel = first_place(wrong)
    voxels = f"voxel {voxel}" + (f" and others, {wrong.sum():,} in all," if wrong.sum() > 1 else "")
    raise InputError(f"{path}: value {values[voxel]:.10g} in {voxels} is no label; give {must}")
