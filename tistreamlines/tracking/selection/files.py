"""Regions of interest: mask images on any grid, and spheres."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...aliases import Array
from ...io.images import AnyPath, Tell, grid_of, open_image, silent
from ...io.nifti import load_mask
from ...option import ball_of
from ...space.batch import Space


@dataclass(frozen=True, eq=False)
class SphereRegion:
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
class MaskRegion:
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


Region = SphereRegion | MaskRegion


def box_around(voxels: Array) -> tuple[npt.NDArray[np.int_], npt.NDArray[np.int_]]:
    """Return the first voxel of the smallest box around the voxels that are not 0, and the one after its last."""
    held = [np.flatnonzero(voxels.any(axis=tuple({0, 1, 2} - {axis}))) for axis in range(3)]
    return np.array([along[0] for along in held]), np.array([along[-1] + 1 for along in held])


def sphere_in(name: str, region: object) -> SphereRegion | None:
    """Return the sphere of a text 'x,y,z,r' in RASmm, or None if the text is none of four numbers.

    Parameters
    ----------
    name : str
        Python name of the option.
    region : object
        Text, path, or what stands in for a path.

    Raises
    ------
    ParameterError
        If the radius is not above 0, or a number too large.
    """
    try:
        numbers = [float(part) for part in str(region).split(",")]
    except ValueError:
        return None
    if len(numbers) != 4:
        return None
    *centre, radius = ball_of(name, region)
    return SphereRegion(str(region), np.array(centre), radius)


def load_region(name: str, region: AnyPath, note: Tell = silent, warn: Tell | None = None) -> Region:
    """Read a region.

    Parameters
    ----------
    name : str
        Python name of the option.
    region : str, Path or InMemory
        A mask image of any grid, of which every voxel of at least 0.5 is inside, as in MRtrix3, or the text 'x,y,z,r'.
    note, warn : callable
        See :func:`tistreamlines.io.nifti.load_mask`.

    Raises
    ------
    InputError
        If the file is missing or damaged, or the mask is empty.
    ParameterError
        If the text is no sphere.
    """
    if (sphere := sphere_in(name, region)) is not None:
        return sphere
    space = grid_of(*open_image(region))
    return MaskRegion(str(region), space, load_mask(region, space, note, warn, labels=True))
