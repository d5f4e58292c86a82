"""Labels: the whole numbers of an image, also where a file has rounded or scaled them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..aliases import Array
from ..errors import InputError

ROUNDING = 2.0**-24  # of a number: float32's
SCALED = 1e-3  # that scaling may add to a whole number, since headers hold its factors in float32


def labels_of(path: Path, values: Array, *, scaled: bool = False) -> npt.NDArray[np.int32]:
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
    return np.ascontiguousarray(labels, np.int32)


def _refuse(path: Path, values: Array, wrong: npt.NDArray[np.bool_], must: str) -> None:
    """Raise an InputError that names the first of the values that are no labels."""
    if not wrong.any():
        return
    voxel = first_place(wrong)
    voxels = f"voxel {voxel}" + (f" and others, {wrong.sum():,} in all," if wrong.sum() > 1 else "")
    raise InputError(f"{path}: value {values[voxel]:.10g} in {voxels} is no label; give {must}")


def first_place(wrong: npt.NDArray[np.bool_]) -> tuple[int, ...]:
    """Return the indices of the first value that is true, of an array that has one."""
    return tuple(int(index) for index in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
