"""Reading of diffusion series, gradients, masks and maps, with checks before anything is computed.

nibabel and DIPY are imported inside the functions, so that importing this module is fast.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..aliases import GradientTable
from ..devices.threads import thread_pool
from ..errors import InputError
from ..space.batch import Space
from .images import AnyPath, Tell, existing, grid_of, open_image, read_signals, reading, silent
from .in_memory import InMemory
from .pipes import Drained, as_file
from .stored import Image, StoredImage

B0_THRESHOLD = 50  # s/mm^2, as in DIPY: volumes with a b-value up to this are b0s
GRADIENT_SUFFIXES = (".bval", ".bvals", ".bvec", ".bvecs")
LARGEST_B = 1e6  # s/mm^2
NORM_TOLERANCE = 0.01
INSIDE = 0.5  # lowest value of a voxel inside a mask, as in MRtrix3


@dataclass(frozen=True, eq=False)
class Dwi:
    """A diffusion-weighted series.

    Parameters
    ----------
    data : (x, y, z, n) float32, C-contiguous
        Signals, axes as stored in the file.
    space : Space
        Grid of the first three axes.
    gtab : dipy.core.gradients.GradientTable
        b-values (s/mm^2) and unit directions of the n volumes.
    path : Path
        File of the series.
    own : bool
        Whether the gradients came with the series, and so lie along the voxel axes for certain.
    missing : (x, y, z) bool or None
        Voxels with NaN in the file, whose signals are 0; None if there is none.
    """

    data: npt.NDArray[np.float32]
    space: Space
    gtab: GradientTable
    path: Path
    own: bool = False
    missing: npt.NDArray[np.bool_] | None = None

    @cached_property
    def mean_b0(self) -> npt.NDArray[np.float32]:
        """Mean of the b0s, (x, y, z)."""
        return self.data[..., self.gtab.b0s_mask].mean(axis=-1)


@dataclass(frozen=True, eq=False)
class OpenedDwi:
    """A diffusion-weighted series whose header is read.

    Parameters
    ----------
    path, image : Path, nibabel.spatialimages.SpatialImage or StoredImage
        See :class:`.images.Opened`.
    space : Space
        Grid of the first three axes.
    gradients : Future
        Of the gradient table, which is read in a thread while DIPY is imported and the values are read.
    own : bool
        Whether the gradients came with the series.
    """

    path: Path
    image: Image
    space: Space
    gradients: Future[GradientTable]
    own: bool

    def read(self) -> Dwi:
        """Read the values."""
        data = thread_pool("series", 1).submit(read_signals, self.path, self.image)
        # an error of the gradients is first
        gtab, (values, missing) = self.gradients.result(), data.result()
        return Dwi(values, self.space, gtab, self.path, self.own, missing)


def load_dwi(
    dwi: AnyPath, bvals: AnyPath | None = None, bvecs: AnyPath | None = None, *, note: Tell = silent
) -> Dwi:
    """Read a diffusion series with its b-values and directions; see :func:`open_dwi`."""
    return open_dwi(dwi, bvals, bvecs, note=note).read()


def open_dwi(
    dwi: AnyPath, bvals: AnyPath | None = None, bvecs: AnyPath | None = None, *, note: Tell = silent
) -> OpenedDwi:
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
    OpenedDwi

    Raises
    ------
    InputError
        If a file is missing or damaged, or if the three do not belong together; later if that is found later.
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
    gradients = thread_pool("gradients", 1).submit(_gradients, bvals, bvecs, path, image)
    return OpenedDwi(path, image, space, gradients, own=bvals is None)


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
        Receives the message that the mask is on another grid, in place of ``note``, if only its affine is another one.

    Returns
    -------
    mask : (x, y, z) bool

    Raises
    ------
    InputError
        If the file is missing or damaged, lies elsewhere, or is empty.
    """
    from .volumes import load_volume

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
    from .volumes import load_volume

    number = (volumes,) if volumes else ()
    _, data = load_volume(path, space, note, number, reference, nearest=labels, place=place)
    return np.ascontiguousarray(data, np.float32)


def _gradients(bvals: AnyPath | None, bvecs: AnyPath | None, dwi: Path, image: Image) -> GradientTable:
    """Read the gradients of an opened series, or return those that it has with it."""
    from dipy.core.gradients import gradient_table

    volumes = image.shape[3]
    if bvals is None or bvecs is None:
        if not isinstance(image, StoredImage) or image.gradients is None:
            from .gradients import other_kind

            raise InputError(
                f"{dwi}: {other_kind(dwi, image) or 'has no gradients of its own; give BVALS and BVECS after it'}"
            )
        own = image.gradients()
        (bvals_path, values), (bvecs_path, vectors) = (dwi, own.bvals), (dwi, own.bvecs)
    else:
        bvals_path, values = _read_numbers(bvals)
        bvecs_path, vectors = _read_numbers(bvecs)
    if 3 in values.shape[:2] and values.ndim == 2 and vectors.size == volumes:
        raise InputError(
            f"{bvals_path}: three numbers per volume, but {bvecs_path} has one b-value per volume; are BVALS and BVECS "
            "exchanged?"
        )
    values = np.atleast_1d(values)
    if values.ndim != 1:
        raise InputError(f"{bvals_path}: table of shape {values.shape}; give one b-value per volume")
    if vectors.shape == (3,):
        vectors = vectors[None]
    if vectors.ndim != 2 or 3 not in vectors.shape:
        raise InputError(f"{bvecs_path}: table of shape {vectors.shape}; give three numbers per volume")
    if vectors.shape[1] != 3:
        vectors = vectors.T
    for path, count, noun in ((bvals_path, len(values), "b-values"), (bvecs_path, len(vectors), "directions")):
        if count != volumes:
            raise InputError(f"{path}: {count} {noun}, but {dwi} has {volumes} volumes; give its gradients")
    _check_bvals(bvals_path, values)
    _check_bvecs(bvecs_path, vectors, values > B0_THRESHOLD)
    return gradient_table(values, bvecs=vectors, b0_threshold=B0_THRESHOLD)


def _read_numbers(path: AnyPath) -> tuple[Path, npt.NDArray[np.float64]]:
    from dipy.io import read_bvals_bvecs

    if isinstance(path, InMemory):
        with reading(Path(path)):
            return Path(path), np.asarray(path.values, np.float64)
    source = path if isinstance(path, Drained) else existing(path)
    path = Path(path)
    with reading(path), as_file(source) as file:
        # DIPY's reader takes one file at a time here, so that an error can name the file.
        return path, np.asarray(read_bvals_bvecs(str(file), None)[0], np.float64)


def _check_bvals(path: Path, values: npt.NDArray[np.float64]) -> None:
    bad = np.flatnonzero(~((values >= 0) & (values <= LARGEST_B)))
    if len(bad):
        bounds = f"b-values must be between 0 and {LARGEST_B:g}"
        raise InputError(f"{path}: b-value {values[bad[0]]:g} of volume {bad[0]}; {bounds}")
    if values.min() > B0_THRESHOLD:
        raise InputError(f"{path}: no b0, the lowest b-value is {values.min():g}; one must be {B0_THRESHOLD} or less")
    if values.max() <= B0_THRESHOLD:
        raise InputError(f"{path}: the highest b-value is {values.max():g}; at least one must be above {B0_THRESHOLD}")


def _check_bvecs(path: Path, vectors: npt.NDArray[np.float64], weighted: npt.NDArray[np.bool_]) -> None:
    with np.errstate(over="ignore"):  # infinite norms are reported below
        norms = np.linalg.norm(vectors, axis=1)
    # Some converters write NaN for the direction of a b0; DIPY reads it as zero.
    bad = np.flatnonzero((weighted & ~(np.abs(norms - 1) <= NORM_TOLERANCE)) | np.isinf(norms))
    if len(bad):
        raise InputError(
            f"{path}: direction {vectors[bad[0]].round(4).tolist()} of volume {bad[0]} has length "
            f"{norms[bad[0]]:.4g}, not 1; give unit vectors (a b0 is a volume of at most b={B0_THRESHOLD})"
        )
