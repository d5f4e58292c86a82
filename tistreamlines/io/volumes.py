"""Reading of masks and maps onto the grid of the image that is tracked."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..aliases import Array
from ..errors import InputError
from ..space.batch import Space
from ..space.resampling import resampled
from .images import AnyPath, Tell, check_finite, grid_of, open_image, ordering, read_array, reading, without_nan
from .in_memory import InMemory

TRACKED = "the series or orientations"


def load_volume(
    path: AnyPath, space: Space, note: Tell, volumes: tuple[int, ...] = (), reference: AnyPath | None = None,
    *, nearest: bool, place: Tell | None = None,
) -> tuple[Path, Array]:
    """Read an image, and take its values at the voxels of a grid if it has another one.

    Parameters
    ----------
    path : str, Path, InMemory or Opened
    space : Space
        The grid.
    note : callable
        Receives messages: there are NaN values, or the image is on another grid.
    volumes : tuple of int
        Of one number for a 4-D image; none for a 3-D one.
    reference : str or Path, optional
        Image whose grid this is, for messages; by default the series or the orientations.
    nearest : bool
        Whether the nearest voxel counts; otherwise values are interpolated.
    place : callable, optional
        Receives the message about the grid in place of ``note`` if only the affine is another one.

    Returns
    -------
    path : Path
    values : (x, y, z) or (x, y, z, n)

    Raises
    ------
    InputError
        If the file is missing or damaged, has other axes, lies elsewhere, or has infinite values.
    """
    unplaced = isinstance(path, InMemory) and path.header is None  # an array lies where the series does
    path, image = open_image(path)
    shape = tuple(image.shape)
    if not volumes:  # MRtrix3 and FSL leave an axis of one volume
        shape = shape[:3] + tuple(n for n in shape[3:] if n > 1)
    if len(shape) < 3 or shape[3:] != volumes:
        count = f"{volumes[0]} volumes" if volumes else "one volume"
        raise InputError(f"{path}: shape {shape}; give an image of {count}")
    with reading(path):
        order = ordering(image, space)
    same = order.fits(space)
    others = str(reference or TRACKED)
    if unplaced and not same:
        raise InputError(f"{path}: shape {shape}, but {others} have {space.shape}; give an array of that shape")
    data = read_array(path, image).reshape(shape)
    data = without_nan(path, order.applied(data) if same else data, note)
    check_finite(path, data)
    if same:
        return path, data
    stored = grid_of(path, image, sheared=True)
    values, inside = resampled(data, stored, space, nearest=nearest)
    if not inside.any() or (data.any() and not values.any()):
        raise InputError(_apart(path, others))
    how = "taken from the nearest voxel" if nearest else "interpolated"
    sides = " x ".join(f"{side:.3g}" for side in stored.voxel_sizes)
    text = f"{path}: {' x '.join(map(str, stored.shape))} voxels of {sides} mm, another grid than that of {others}; "
    outside = max((~inside).mean(), 0.01)
    text += f"values are {how}" + ("" if inside.all() else f", and 0 in the {outside:.0%} that lies outside it")
    if order.shape == space.shape and order.difference > min(space.voxel_sizes) / 2:
        text += f". If its voxels are those of {others}, its affine is wrong (by {order.difference:.4g} mm): correct it"
        note = place or note
    note(text)
    return path, values


def check_overlap(path: Path, values: Array, stored: Space, space: Space) -> None:
    """Raise an InputError if an image (x, y, z, ...) on a grid of its own is 0 or missing wherever the series lies."""
    for every in (4, 1):  # hardly ever is each voxel looked at
        x, y, z = (-(-size // every) for size in space.shape)
        few = Space(space.affine @ np.diag([every, every, every, 1]), (x, y, z))
        if resampled(values, stored, few, nearest=True)[0].any():
            return
    raise InputError(_apart(path, TRACKED))


def _apart(path: Path, others: str) -> str:
    return f"{path}: has nothing but 0 where {others} lie; check that both are of one subject, in one space"
