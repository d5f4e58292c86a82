"""A series that comes without its gradients: what the image seems to be instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..option import flag
from ..space.harmonics import order_of
from .images import read_array

SIGNED = 0.2  # of the values: so many of harmonics and peaks are negative, and hardly any of signals


def other_kind(path: Path, image: Any) -> str:
    """Say so if an image holds harmonics or peaks, which another option takes.

    Parameters
    ----------
    path : Path
        The file.
    image : nibabel image or StoredImage
        What was opened.

    Returns
    -------
    str
        What the image looks like and what to do, or nothing.
    """
    count = int(np.prod(image.shape[3:], dtype=int))
    try:
        order = order_of(count)
    except ValueError:
        order = 0
    if order == 0 and count % 3:
        return ""
    values = np.nan_to_num(read_array(path, image)).reshape(-1, count)
    values = values[values.any(axis=1)]
    if order and (values[:, 0] > 0).sum() > len(values) / 2 and _are_signed(values[:, 1:]):
        return f"these look like FODs, {count} coefficients of order {order}: give them as {flag('sh')} {path}"
    if count % 3 == 0 and all(_are_signed(values[:, axis::3]) for axis in range(3)):
        return f"these look like peaks, {count // 3} a voxel: give them as {flag('peaks')} {path}"
    return ""


def _are_signed(values: npt.NDArray[Any]) -> bool:
    return (values < 0).sum() > SIGNED * np.count_nonzero(values)
