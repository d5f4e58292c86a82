"""Regions of interest, which are mask images on any grid and spheres, and the voxels that they mark."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from ...aliases import Array
from ...io.images import AnyPath, Tell, grid_of, open_image, silent
from ...io.nifti import load_mask
from ...kernels.selection.regions import MIXED
from ...option import ball_of
from ...space.batch import Batch, Space, of_each
from ..tables.rows import of_windows


@dataclass(frozen=True, eq=False)
class SphereRegion:
    """A sphere.

    Parameters
    ----------
    name : str
        The user's words, for messages.
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
        The user's words, for messages.
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


# Voxels of the tracked image that lie wholly inside or outside each region, with the bits of those that hold them.
#
# A point in such a voxel has the voxel's bits. In the others, which the border of a region crosses, spheres and masks
# on other grids are looked at.
SLACK = 1e-3  # voxels or mm: more than the rounding of points, which have float32


def mark_voxels(voxels: Array, bits: Array, to_grid: Array) -> None:
    """Add the bits of another grid to the voxels of the tracked image, and MIXED where only some points have them.

    Parameters
    ----------
    voxels : (x, y, z) int32, changed in place.
    bits : (i, j, k) int32, bits of the grid's voxels; around it there are none.
    to_grid : (4, 4), from voxel coordinates of the tracked image to those of the grid.
    """
    # the points of a voxel are nearest to grid voxels in a window around its centre
    reach = 0.5 * np.abs(to_grid[:3, :3]).sum(axis=1) + SLACK
    # small voxels are taken together in blocks, of which a window has at most six along an axis
    block = np.maximum(reach // 2, 1).astype(int)
    window = np.ceil(2 * reach / block).astype(int) + 1
    least, greatest = (
        of_windows(choose, np.pad(_of_blocks(choose, bits, block), [(size, size) for size in window]), window)
        for choose in (np.minimum, np.maximum)
    )
    corners = np.array(list(product(*([-1 - far, size + far] for far, size in zip(reach, bits.shape, strict=True)))))
    box = _box(np.linalg.solve(to_grid[:3, :3], (corners - to_grid[:3, 3]).T).T, voxels.shape)
    first, turn = (to_grid[:3, 3] - reach + 0.5) / block + window, to_grid[:3, :3] / block[:, None]
    bits = np.where(least == greatest, least, MIXED)
    y, z = np.ogrid[box[1:]]
    places = [b * y + c * z + d for (_, b, c), d in zip(turn, first, strict=True)]
    for x in range(box[0].start, box[0].stop):
        at = (np.clip(a * x + p, 0, n - 1) for a, p, n in zip(turn[:, 0], places, bits.shape, strict=True))
        voxels[x, box[1], box[2]] |= bits[tuple(place.astype(np.int32) for place in at)]


def _of_blocks(choose: np.ufunc, bits: Array, block: Array) -> Array:
    """Return what ``choose`` leaves of each block of so many voxels; there are no bits beyond the last voxel."""
    for axis, size in enumerate(block):
        count = bits.shape[axis]
        bits = choose.reduceat(bits, range(0, count, size), axis=axis)
        if count % size:
            last = (*[slice(None)] * axis, -1)
            bits[last] = choose(bits[last], 0)
    return bits


def mark_ball(voxels: Array, centre: Array, radius: float, bit: int, sides: Array) -> None:
    """Add the bit of a sphere to the voxels of the tracked image, and MIXED where only some points lie in it.

    Parameters
    ----------
    voxels : (x, y, z) int32, changed in place.
    centre : (3,) voxel coordinates.
    radius : mm.
    bit : of the sphere.
    sides : (3,) mm, of a voxel.
    """
    reach = 0.5 * float(np.linalg.norm(sides)) + SLACK  # from the centre of a voxel to its corners
    far = (radius + reach) / sides
    box = _box(np.stack([centre - far, centre + far]), voxels.shape)
    x, y, z = ((axis - at) * side for axis, at, side in zip(np.ogrid[box], centre, sides, strict=True))
    distance = np.sqrt(x * x + y * y + z * z)
    bits = np.where(distance + reach <= radius, bit, np.where(distance - reach > radius, 0, MIXED))
    voxels[box] |= bits.astype(np.int32)


def _box(points: Array, shape: tuple[int, ...]) -> tuple[slice, ...]:
    """Return the voxels of an image around some points, voxel coordinates."""
    low = np.clip(np.floor(points.min(axis=0)).astype(int), 0, shape)
    return tuple(map(slice, low, np.clip(np.ceil(points.max(axis=0)).astype(int) + 1, low, shape)))


def passes(batch: Batch, region: Region) -> npt.NDArray[np.bool_]:
    """Return which streamlines of a batch have a point in a region, (n,); the nearest voxel of a mask decides."""
    if isinstance(region, SphereRegion):
        away = batch.points.astype(float) - region.centre
        inside = np.asarray((away * away).sum(axis=1) <= region.radius**2)
    else:
        voxels = np.floor(region.space.to_voxel(batch.points) + 0.5).astype(int)
        inside = np.asarray(((voxels >= 0) & (voxels < region.space.shape)).all(axis=1))
        inside[inside] = region.voxels[tuple(voxels[inside].T)]
    return of_each(np.logical_or, inside, batch.offsets)
