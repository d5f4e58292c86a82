"""The grids on which images lie, and warnings where a header says nothing of its grid or contradicts itself.

The rule is that of nibabel and MRtrix3: the sform of a NIfTI counts, without one its qform, and without both the
voxel sizes alone, as nibabel takes them. Warnings come where MRtrix3's ``mrinfo`` prints one, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..aliases import Array, Nifti1Header
from ..errors import TrackingError
from ..space.batch import Space
from .images import AFFINE_TOLERANCE, AnyPath, grid_of, open_image
from .in_memory import InMemory
from .stored_image import Image

SUFFIXES = {".nii", ".hdr", ".mif", ".mih"}  # of headers that say where an image lies
TOLERANCE = 0.1  # of a voxel's side: MRtrix3 warns of shifts from 0.1 to 0.15 on; float32 explains 0.001 of it


def placement_doubts(sources: Iterable[AnyPath]) -> list[str]:
    """Say of each image once why it may lie elsewhere than is taken for granted.

    Parameters
    ----------
    sources : iterable of str, Path or InMemory
        All inputs, each with all of its files; those that are no images, or damaged, are passed over.

    Returns
    -------
    list of str
        Warnings.
    """
    doubts: dict[str, str] = {}
    for source in sources:
        name = str(source)
        if name in doubts:
            continue
        if isinstance(source, InMemory):
            if source.header is not None:
                doubts[name] = _doubt(name, source.header, np.asarray(source.affine), np.shape(source.data))
        elif SUFFIXES & {*map(str.lower, Path(name).suffixes)}:
            with suppress(TrackingError):  # whoever needs the image says what is wrong with it
                image = open_image(source).image
                doubts[name] = _doubt(name, image.header, np.asarray(image.affine), image.shape)
    return [text for text in doubts.values() if text]


def _doubt(path: str, header: object, affine: Array, shape: tuple[int, ...]) -> str:
    from nibabel.nifti1 import Nifti1Header

    if _unplaced(header, affine):
        return (
            f"{path}: the header does not say where the image lies (neither sform, qform nor transform is set); it is "
            "taken to lie around the origin, which other programs may do otherwise: check it, and set the header"
        )
    if not isinstance(header, Nifti1Header) or not int(header["sform_code"]) > 0:
        return ""  # a qform has no other voxel sizes than pixdim
    steps = np.array(shape[:3], float) - 1
    sides = np.linalg.norm(affine[:3, :3], axis=0)
    tolerance = TOLERANCE * sides.min()
    sizes = np.asarray(header["pixdim"], float)[1:4]
    if not (np.abs(sizes - sides) * steps <= tolerance).all():  # "not <=" also catches NaN
        return (
            f"{path}: pixdim says that voxels are {_sizes(sizes)} mm, the sform {_sizes(sides)} mm; the sform is used, "
            "as in nibabel and MRtrix3: check which is right, and correct the header"
        )
    if int(header["qform_code"]) > 0 and (apart := _form_distance(header, affine, steps)) > tolerance:
        return (
            f"{path}: sform and qform place the image differently, by up to {apart:.3g} mm; the sform is used, as in "
            "nibabel and MRtrix3: check which is right, and make them equal"
        )
    return ""


def _unplaced(header: object, affine: Array) -> bool:
    """Tell whether only defaults say where an image lies."""
    from nibabel.analyze import AnalyzeHeader

    if isinstance(header, AnalyzeHeader) and "sform_code" not in header:  # unless a .mat file is beside it
        return np.array_equal(affine, header.get_best_affine())
    known = isinstance(header, Mapping | AnalyzeHeader)
    return known and not (header.get("sform_code", 1) or header.get("qform_code", 1))


def _form_distance(header: Nifti1Header, affine: Array, steps: Array) -> float:
    """Return how far sform and qform put a corner apart, mm; a qform that is no rotation is as far as can be."""
    try:
        qform = header.get_qform()
    except Exception:  # nibabel's error for quaternions that are too long
        return float("inf")
    corners = np.array([[x, y, z, 1] for x in (0, 1) for y in (0, 1) for z in (0, 1)]) * [*steps, 1]
    return float(np.linalg.norm(corners @ (affine - qform)[:3].T, axis=1).max())


def _sizes(values: Array) -> str:
    return " x ".join(f"{value:.5g}" for value in values)


class AxisOrder(NamedTuple):
    """How an image is stored, seen from a reference grid.

    Parameters
    ----------
    orientation : (3, 2) int
        Of each axis of the image, the axis of the reference, and -1 if it has the other sense, else 1; as nibabel's.
    shape : tuple of int
        Shape of the image in the order of the reference.
    difference : float
        Greatest difference between the affine of the image, once it is in order, and that of the reference.
    fits : bool
        Whether the image lies on the grid of the reference, but for the order of axes and senses.
    """

    orientation: npt.NDArray[np.int64]
    shape: tuple[int, ...]
    difference: float
    fits: bool


def axis_order(image: Image, space: Space) -> AxisOrder:
    """Find the order of axes and senses in which an image agrees with a grid best.

    Parameters
    ----------
    image : nibabel.spatialimages.SpatialImage or StoredImage
        Of at least three axes.
    space : Space
        Grid of the reference.
    """
    from nibabel.orientations import inv_ornt_aff

    affine = np.asarray(image.affine, np.float64)
    with np.errstate(all="ignore"):
        turn = np.linalg.solve(space.affine[:3, :3], affine[:3, :3])
    axes = np.abs(turn).argmax(axis=1)
    if not np.isfinite(turn).all() or sorted(axes) != [0, 1, 2]:
        axes, turn = np.arange(3), np.eye(3)
    orientation = np.stack([np.argsort(axes), np.where(turn[np.argsort(axes), range(3)] < 0, -1, 1)], axis=1)
    apart = float(np.abs(affine @ inv_ornt_aff(orientation, image.shape[:3]) - space.affine).max())
    shape = tuple(image.shape[axis] for axis in axes)
    return AxisOrder(orientation, shape, apart, shape == space.shape and apart <= AFFINE_TOLERANCE)


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
    grid = grid_of(path, image)
    return space if axis_order(image, space).fits else grid
