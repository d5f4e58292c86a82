"""Regions of interest: mask images on any grid, and spheres."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from .images import Tell, grid_of, open_image, silent
from .nifti import load_mask
from .tractogram import Space


@dataclass(frozen=True, eq=False)
class Sphere:
    """A sphere.

    Parameters
    ----------
    name : str
        What the user gave, for messages.
    centre : (3,) float64
        RASmm.
    radius : float
        mm.
    """

    name: str
    centre: npt.NDArray[np.float64]
    radius: float


@dataclass(frozen=True, eq=False)
class Mask:
    """The voxels of a mask image.

    Parameters
    ----------
    name : str
        What the user gave, for messages.
    space : Space
        Grid of the mask.
    voxels : (x, y, z) bool
        Those of the region.
    """

    name: str
    space: Space
    voxels: npt.NDArray[np.bool_]


Region = Sphere | Mask


def sphere_in(text: Any) -> Sphere | None:
    """Return the sphere of a text 'x,y,z,r' in RASmm, or None if the text is none of four numbers.

    Raises
    ------
    InputError
        If a number is not finite, or if the radius is not above 0.
    """
    parts = str(text).split(",")
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        return None
    if len(numbers) != 4:
        return None
    if not (all(map(math.isfinite, numbers)) and numbers[3] > 0):
        raise InputError(f"{text}: a sphere is x,y,z,r in mm with r above 0; correct the numbers")
    return Sphere(str(text), np.array(numbers[:3]), numbers[3])


def load_region(given: Any, note: Tell = silent) -> Region:
    """Read a region.

    Parameters
    ----------
    given : str, Path or InMemory
        A mask image of any grid, of which every voxel that is not 0 or NaN is inside, or the text 'x,y,z,r'.
    note : callable
        See :func:`tistreamlines.io.nifti.load_mask`.

    Raises
    ------
    InputError
        If the file is missing or damaged, or the mask is empty; if the text is no sphere.
    """
    sphere = sphere_in(given)
    if sphere is not None:
        return sphere
    space = grid_of(*open_image(given))
    return Mask(str(given), space, load_mask(given, space, note))
