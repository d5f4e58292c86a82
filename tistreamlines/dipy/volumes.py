"""Checks of the arrays that DIPY's functions take."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..cuslines.arrays import SHEAR_TOLERANCE, as_numbers
from ..errors import InputError, ParameterError
from ..space.batch import Space
from ..tracking.seeding.files import check_inside


def volume(name: str, value: npt.ArrayLike, ndim: int, wanted: str) -> npt.NDArray[np.float32]:
    """Return an array of ``ndim`` axes as float32; ``wanted`` says in errors what to give."""
    array = np.ascontiguousarray(as_numbers(name, value, wanted), np.float32)
    if array.ndim != ndim:
        raise InputError(f"{name} has the shape {array.shape}: give {wanted}")
    if not all(np.isfinite(plane).all() for plane in array):
        raise InputError(f"{name} has NaN or infinite values: replace them with numbers, e.g. with numpy.nan_to_num")
    return array


def grid(affine: npt.ArrayLike, shape: tuple[int, ...], *, regular: bool) -> Space:
    """Return the voxel grid of an affine, (4, 4), which must not be sheared if ``regular``."""
    matrix = as_numbers("affine", affine, "the (4, 4) array that transforms voxel coordinates to those of the seeds")
    if matrix.shape != (4, 4) or not np.isfinite(matrix).all() or not np.linalg.det(matrix):
        raise InputError(f"affine is {matrix.tolist()}: give an array (4, 4) that can be inverted")
    space = Space(matrix, shape)  # type: ignore[arg-type]
    if regular and not space.shear <= SHEAR_TOLERANCE:
        raise InputError(f"affine {matrix.tolist()} is sheared: resample the data to a regular grid")
    return space


def seeds_of(name: str, value: npt.ArrayLike, space: Space) -> npt.NDArray[np.float64]:
    """Return seeds (n, 3) in the space of the affine; nine of ten must lie in the image."""
    seeds = as_numbers(name, value, "points (n, 3) in the space of the affine").astype(np.float64)
    if seeds.ndim != 2 or seeds.shape[1] != 3 or not np.isfinite(seeds).all():
        raise InputError(f"{name} has the shape {seeds.shape}: give finite points (n, 3) in the space of the affine")
    check_inside(seeds, space, "rasmm", name)
    return seeds


def sides_of(voxel_size: npt.ArrayLike | None, space: Space) -> tuple[float, ...]:
    """Return the sides of a voxel, mm; by default those of the affine."""
    sides = space.voxel_sizes if voxel_size is None else np.asarray(voxel_size, np.float64)
    if sides.shape != (3,) or not (sides > 0).all():
        raise ParameterError(f"voxel_size is {voxel_size}: give the three sides of a voxel, mm")
    return tuple(map(float, sides))
