"""Images whose voxels are stored along other axes, or in the other sense, than those of a reference grid."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .images import AnyPath, grid_of, open_image
from .tractogram import Space

SAME = 1e-3  # mm, as nifti.AFFINE_TOLERANCE


@dataclass(frozen=True, eq=False)
class Ordering:
    """How an image is stored, seen from a reference grid.

    Parameters
    ----------
    axes : tuple of int, (3,)
        Axis of the image along each axis of the reference.
    flips : tuple of int
        Axes of the reference that the image has in the other sense.
    difference : float
        Greatest difference between the affine of the image, once it is in order, and that of the reference.
    """

    axes: tuple[int, ...]
    flips: tuple[int, ...]
    difference: float

    def applied(self, data: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the values (x, y, z, ...) in the order of the reference."""
        return np.flip(data.transpose(*self.axes, *range(3, data.ndim)), self.flips)


def ordering(path: Path, image: Any, space: Space) -> Ordering:
    """Find the order of axes and senses in which an image agrees with a grid best.

    Parameters
    ----------
    path : Path
        Its file, for messages.
    image : nibabel image
        Of at least three axes.
    space : Space
        Grid of the reference.
    """
    affine = np.asarray(image.affine, np.float64)
    axes, flips = (0, 1, 2), ()
    with np.errstate(all="ignore"):
        turn = np.linalg.solve(space.affine[:3, :3], affine[:3, :3])
    nearest = tuple(int(axis) for axis in np.abs(turn).argmax(axis=1))
    if np.isfinite(turn).all() and sorted(nearest) == [0, 1, 2] and len(image.shape) >= 3:
        axes = nearest
        flips = tuple(place for place, axis in enumerate(axes) if turn[place, axis] < 0)
    stored = np.zeros((4, 4))  # from indices in the order of the reference to those of the image
    stored[3, 3] = 1
    for place, axis in enumerate(axes):
        stored[axis, place] = -1 if place in flips else 1
        stored[axis, 3] = image.shape[axis] - 1 if place in flips else 0
    return Ordering(axes, flips, float(np.abs(affine @ stored - space.affine).max()))


def grid_of_seeds(path: AnyPath, space: Space) -> Space:
    """Return the grid on which a mask or a map of seeds lies: that of the reference, or one of its own.

    Parameters
    ----------
    path : str or Path
        Image.
    space : Space
        Grid of the reference.
    """
    path, image = open_image(path)
    own = grid_of(path, image)
    order = ordering(path, image, space)
    same = order.difference <= SAME and tuple(own.shape[axis] for axis in order.axes) == space.shape
    return space if same else own
