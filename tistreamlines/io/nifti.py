"""Reading of diffusion series, and of masks and maps onto their grid, with checks before anything is computed.

DIPY is imported inside the functions, so that importing this module is fast.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..aliases import Array, GradientTable
from ..devices.threads import reader, readers_awaited
from ..errors import InputError
from ..space.batch import Space
from ..space.encoding import Encoding
from ..space.resampling import resample_image
from .gradients import read_gradients
from .images import AnyPath, Tell, finite, grid_of, open_image, read_array, read_signals, reading, silent
from .in_memory import InMemory
from .placement import axis_order
from .stored_image import Image, StoredImage

GRADIENT_SUFFIXES = (".bval", ".bvals", ".bvec", ".bvecs")
INSIDE = 0.5  # lowest value of a voxel inside a mask, as in MRtrix3
TRACKED = "the series or orientations"


@dataclass(frozen=True, eq=False)
class Dwi:
    """A diffusion-weighted series.

    Parameters
    ----------
    data : (x, y, z, n) float32, C-contiguous
        Signals, axes as stored in the file.
    space : Space
        Grid of the first three axes.
    gtab : GradientTable
        b-values (s/mm^2) and unit directions of the n volumes.
    path : Path
        File of the series.
    has_gradients : bool
        Whether the gradients came with the series, and so lie along the voxel axes for certain.
    missing : (x, y, z) bool or None
        Voxels with NaN in the file, whose signals are 0; None if there is none.
    """

    data: npt.NDArray[np.float32]
    space: Space
    gtab: GradientTable
    path: Path
    has_gradients: bool = False
    missing: npt.NDArray[np.bool_] | None = None

    @cached_property
    def mean_b0(self) -> npt.NDArray[np.float32]:
        """Mean of the b0s, (x, y, z)."""
        return self.data[..., self.gtab.b0s_mask].mean(axis=-1)


@dataclass(frozen=True, eq=False)
class OpenDwi:
    """A diffusion-weighted series whose header is read.

    Parameters
    ----------
    path, image : Path, nibabel.spatialimages.SpatialImage or StoredImage
        See :class:`.images.OpenImage`.
    space : Space
        Grid of the first three axes.
    gradients : Future
        Of the gradient table, which a thread reads.
    has_gradients : bool
        Whether the gradients came with the series.
    """

    path: Path
    image: Image
    space: Space
    gradients: Future[Encoding]
    has_gradients: bool

    def read(self, inside: npt.NDArray[np.bool_] | None = None) -> Dwi:
        """Read the values; where only voxels ``inside`` (x, y, z) matter, the signals of others are 0."""
        gtab = self.gradients.result()  # whose error comes first; they are nearly always there by now
        values, missing = read_signals(self.path, self.image, inside)
        return Dwi(values, self.space, gtab, self.path, self.has_gradients, missing)


@readers_awaited()
def load_dwi(dwi: AnyPath, bvals: AnyPath | None = None, bvecs: AnyPath | None = None, *, note: Tell = silent) -> Dwi:
    """Read a diffusion series with its b-values and directions; see :func:`open_dwi`."""
    return open_dwi(dwi, bvals, bvecs, note=note).read()


def open_dwi(
    dwi: AnyPath, bvals: AnyPath | None = None, bvecs: AnyPath | None = None, *, note: Tell = silent
) -> OpenDwi:
    """Read the header of a diffusion series, and begin to read its b-values and directions.

    Parameters
    ----------
    dwi : str or Path
        Image of four axes; the array stays as stored.
    bvals, bvecs : str or Path, optional
        Files in FSL's format, in rows or columns, or the content of a pipe; read as in DIPY. Signs stay as they are:
        :mod:`tistreamlines.fit.frames` changes them. Without them, the series must have gradients of its own.
    note : callable
        Receives a message if the series has gradients of its own that are not used.

    Returns
    -------
    OpenDwi

    Raises
    ------
    InputError
        If a file is missing or damaged, or if the three do not belong together; some errors come later.
    """
    if Path(dwi).suffix.lower() in GRADIENT_SUFFIXES:
        raise InputError(f"{dwi}: is in the place of DWI; give DWI, BVALS and BVECS in this order")
    path, image = open_image(dwi)
    if len(image.shape) != 4:
        raise InputError(
            f"{path}: {len(image.shape)}-D image of shape {tuple(image.shape)}; "
            "give the 4-D diffusion series, one volume per gradient"
        )
    space = grid_of(path, image)
    if bvals is not None and isinstance(image, StoredImage) and image.gradients is not None:
        note(f"{path}: has gradients of its own, which are not used, since BVALS and BVECS are given")
    gradients = reader("gradients").submit(read_gradients, bvals, bvecs, path, image)
    return OpenDwi(path, image, space, gradients, has_gradients=bvals is None)


def load_mask(
    path: AnyPath, space: Space, note: Tell = silent, warn: Tell | None = None, *, labels: bool = False,
    place: Tell | None = None,
) -> npt.NDArray[np.bool_]:
    """Read a mask, and take the nearest voxels of one that is not on the grid of the series or the orientations.

    Parameters
    ----------
    path : str or Path
        3-D image; every voxel of at least 0.5 is inside, as in MRtrix3.
    space : Space
        Grid of the result.
    note, warn : callable
        Receive messages: there are NaN values, the mask is on another grid, or has more than two different values. The
        latter is a warning if the mask covers most of the image.
    labels : bool
        Whether it is also a warning if values above 1 may be labels.
    place : callable, optional
        Receives the message that the mask is on another grid, instead of ``note``, if only its affine is another one.

    Returns
    -------
    mask : (x, y, z) bool

    Raises
    ------
    InputError
        If the file is missing or damaged, lies elsewhere, or is empty.
    """
    path, data = load_volume(path, space, note, nearest=True, place=place)
    mask = data >= INSIDE
    inside = f"voxels of at least {INSIDE}"
    if not mask.any():
        highest = f", the highest value is {data.max():.4g}" if data.any() else ""
        raise InputError(f"{path}: has no {inside} among {mask.size}{highest}; give a mask of 0 and 1, not empty")
    low, high = data[data != 0].min(), data[mask].max()
    if low != high:
        tell = warn if warn and (mask.mean() > 0.5 or (labels and high > 1)) else note
        tell(
            f"{path}: values from {low:.4g} to {high:.4g}, not a mask of 0 and 1; all {mask.sum()} {inside} are used, "
            f"{mask.mean():.0%} of the image"
        )
    return np.ascontiguousarray(mask)


def load_map(
    path: AnyPath, space: Space, note: Tell = silent, volumes: int = 0, *, place: Tell | None = None,
    reference: AnyPath | None = None, labels: bool = False,
) -> npt.NDArray[np.float32]:
    """Read a scalar map, or several in one file, and interpolate those of another grid than the series or orientations.

    Parameters
    ----------
    path : str or Path
        3-D image, or a 4-D one with so many ``volumes``.
    space : Space
        Grid of the result.
    note : callable
        Receives a message if there are NaN values, which become 0, since programs write NaN where nothing was fitted,
        or if the map is on another grid.
    volumes : int
        Number of volumes of a 4-D file; 0 for a 3-D one.
    reference : str or Path, optional
        Image whose grid this is, for messages; by default the series or the orientations.
    labels : bool
        Whether values are not interpolated.
    place : callable, optional
        As for :func:`load_mask`.

    Returns
    -------
    values : (x, y, z) or (x, y, z, volumes) float32, C-contiguous

    Raises
    ------
    InputError
        If the file is missing or damaged, lies elsewhere, or has infinite values.
    """
    _, data = load_volume(path, space, note, volumes, reference, nearest=labels, place=place)
    return np.ascontiguousarray(data, np.float32)


def load_volume(
    path: AnyPath, space: Space, note: Tell, volumes: int = 0, reference: AnyPath | None = None,
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
    volumes : int
        Number of volumes of a 4-D image; 0 for a 3-D one.
    reference : str or Path, optional
        Image whose grid this is, for messages; by default the series or the orientations.
    nearest : bool
        Whether the nearest voxel counts; otherwise values are interpolated.
    place : callable, optional
        Receives the message about the grid instead of ``note`` if only the affine is another one.

    Returns
    -------
    path : Path
    values : (x, y, z) or (x, y, z, n)

    Raises
    ------
    InputError
        If the file is missing or damaged, has other axes, lies elsewhere, or has infinite values.
    """
    from nibabel.orientations import apply_orientation

    unplaced = isinstance(path, InMemory) and path.header is None  # an array lies where the series does
    path, image = open_image(path)
    shape = tuple(image.shape)
    if not volumes:  # MRtrix3 and FSL leave an axis of one volume
        shape = shape[:3] + tuple(n for n in shape[3:] if n > 1)
    if len(shape) < 3 or shape[3:] != ((volumes,) if volumes else ()):
        count = f"{volumes} volumes" if volumes else "one volume"
        raise InputError(f"{path}: shape {shape}; give an image of {count}")
    with reading(path):
        order = axis_order(image, space)
    same = order.fits
    others = str(reference or TRACKED)
    if unplaced and not same:
        raise InputError(f"{path}: shape {shape}, but {others} have {space.shape}; give an array of that shape")
    data = read_array(path, image).reshape(shape)
    data = finite(path, apply_orientation(data, order.orientation) if same else data, note)
    if same:
        return path, data
    stored = grid_of(path, image, sheared=True)
    values, inside = resample_image(data, stored, space, nearest=nearest)
    if not inside.any() or (data.any() and not values.any()):
        raise InputError(_distance(path, others))
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
    """Raise an InputError if an image (x, y, z, ...) on another grid is 0 or missing wherever the series lies."""
    for every in (4, 1):  # hardly ever is each voxel looked at
        x, y, z = (-(-size // every) for size in space.shape)
        few = Space(space.affine @ np.diag([every, every, every, 1]), (x, y, z))
        if resample_image(values, stored, few, nearest=True)[0].any():
            return
    raise InputError(_distance(path, TRACKED))


def _distance(path: Path, others: str) -> str:
    return f"{path}: has only zeros where {others} lie; check that both are of one subject, in one space"
