"""Reading of images of labels: parcellations and segmentations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..space.batch import Space
from .images import AnyPath, grid_of, open_image, read_array


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
        The label of each voxel; 0 where there is none.
    """

    path: Path
    space: Space
    values: npt.NDArray[np.int64]


def read_labels(path: AnyPath) -> Labels:
    """Read an image of labels; those below 0 become 0.

    Parameters
    ----------
    path : str, Path, InMemory or Opened
        3-D image of whole numbers of any type.

    Returns
    -------
    Labels

    Raises
    ------
    InputError
        If the image is missing or damaged, has other than three axes, a value that is no label, or no label above 0.
    """
    path, image = open_image(path)
    if len(image.shape) != 3:
        raise InputError(f"{path}: has {len(image.shape)} axes; give a parcellation of three, with labels")
    return Labels(path, grid_of(path, image, sheared=True), whole(path, read_array(path, image)))


def whole(path: Path, values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return the labels of an image as whole numbers; labels below 0 are none."""
    if values.dtype.kind == "f" and not (np.isfinite(values).all() and (values == np.rint(values)).all()):
        raise InputError(f"{path}: has values that are not whole numbers; give labels")
    if np.abs(values).max() >= 2**31:
        raise InputError(f"{path}: has a label of {np.abs(values).max():.3g}; give smaller ones")
    labels = np.maximum(values.astype(np.int64), 0)
    if not labels.any():
        raise InputError(f"{path}: has no label above 0; give a parcellation")
    return labels
