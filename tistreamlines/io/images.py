"""Reading of images, with checks.

nibabel is imported inside the functions, so that importing this module is fast.
"""

from __future__ import annotations

import gzip
import logging
import os
import re
import stat
import threading
import warnings
import zlib
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..aliases import Array
from ..errors import InputError, TrackingError
from ..space.batch import Space
from .in_memory import InMemory
from .labels import first_place, labels_of
from .mif import MRTRIX_SUFFIXES, files_of_mif, open_mif
from .stored_image import Image, StoredImage, floats, unpack_image

SHEAR_TOLERANCE = 1e-5  # cosine of the angle between two axes
LARGEST = 1e30  # largest image value, so that sums and products of a few values do not overflow float32
AFFINE_TOLERANCE = 1e-3  # mm
VOLUMES_AT_ONCE = 8
ENDINGS = (".nii.gz", ".nii", ".mif", ".mif.gz", ".mih", ".img")  # of images, which FSL's users leave out
LABEL = re.compile(r"(.+):([0-9]{1,10})", re.DOTALL)  # a file, and a label in it
Tell = Callable[[str], object]
FileState = tuple[str, int, int, int]
AnyPath = str | os.PathLike[str]


def silent(_: str) -> None:
    """Ignore a message."""


def mode_of(path: AnyPath) -> int:
    """Return the file type and permissions of an existing file, as ``os.stat`` does."""
    try:
        return Path(path).stat().st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:  # ValueError: a name with a NUL
        raise InputError(f"{path}: no such file{nearby(path)}; check the path") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from error


def nearby(path: AnyPath) -> str:
    """Name a file that is there and has the same name but for the ending of an image, in brackets, or nothing."""
    path = Path(path)
    stem = path.with_name(re.sub(r"(\.(nii|mif|mih|img|hdr))?(\.gz)?$", "", path.name) or path.name)
    try:
        there = [file for end in ENDINGS if (file := stem.with_name(stem.name + end)) != path and file.is_file()]
    except (OSError, ValueError):
        there = []
    return f" (but {there[0].name} is there)" if there else ""


def existing_path(path: AnyPath) -> Path:
    """Return the path of an existing regular file.

    Raises
    ------
    InputError
        If the file is missing, or if it is a folder, a pipe or a device.
    """
    path, mode = Path(path), mode_of(path)
    if stat.S_ISDIR(mode):
        raise InputError(f"{path}: is a folder; give a file")
    if not stat.S_ISREG(mode):
        raise InputError(f"{path}: is a pipe or a device; write its content to a file and give that")
    return path


def is_folder(source: AnyPath) -> bool:
    """Return whether a source is a folder; an error about its path is left to whoever reads it."""
    with suppress(OSError):
        return not isinstance(source, InMemory | OpenImage) and Path(source).is_dir()
    return False


def label_in(path: AnyPath) -> tuple[AnyPath, int | None]:
    """Return the file of an image and the label whose voxels are meant, as in labels.nii.gz:17, or None for all."""
    match = None if isinstance(path, InMemory | OpenImage) else LABEL.fullmatch(os.fspath(path))
    if match is None or os.path.lexists(path):
        return path, None
    return match[1], int(match[2])


@contextmanager
def reading(path: Path) -> Generator[None, None, None]:
    """Turn any error while a file is read into an InputError that names the file, and suppress other messages."""
    # For a damaged file nibabel, zlib, NumPy and DIPY raise a dozen unrelated types, hence Exception.
    try:
        with _hush:
            yield
    except TrackingError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        message = f"cannot be read ({reason}); check that the file is complete and in the right format"
        if isinstance(error, MemoryError):
            message = "does not fit in memory; crop it or use a computer with more memory"
        elif isinstance(error, gzip.BadGzipFile | zlib.error | EOFError):
            message = f"cannot be read: it is damaged ({reason}); copy or create it again"
        raise InputError(f"{path}: {message}") from error


class _Hush:
    """Suppresses warnings, and nibabel's log messages about headers, while any thread reads.

    The filters of warnings are the process's: each thread would restore those that it has found, perhaps another one's.
    """

    def __init__(self) -> None:
        self._lock, self._threads, self._held = threading.Lock(), 0, ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            if not self._threads:
                logger = logging.getLogger("nibabel.global")
                self._held.enter_context(warnings.catch_warnings())
                warnings.simplefilter("ignore")
                self._held.callback(setattr, logger, "disabled", logger.disabled)
                logger.disabled = True
            self._threads += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._threads -= 1
            if not self._threads:
                self._held.close()


_hush = _Hush()


class Reader(NamedTuple):
    """A format of images. Its module has a function that opens an image, and READERS has a row for it.

    Parameters
    ----------
    suffixes : tuple of str
        Ends of file names, in lower case; '' stands for any.
    open : callable
        Returns the image of an existing file: one of nibabel, or a :class:`tistreamlines.io.stored.StoredImage`. It
        raises an InputError for a fault that it finds; other errors become one that names the file.
    files : callable
        Returns the files that make up the image of a file. They need not exist.
    gradients : bool
        Whether an image of this format can bring the gradients of its volumes.
    """

    suffixes: tuple[str, ...]
    open: Callable[[Path], object]
    files: Callable[[Path], list[Path]]
    gradients: bool = False


def _open_with_nibabel(path: Path) -> object:
    import nibabel as nib

    if path.name.lower().endswith(".gii"):  # which nibabel would read whole, with other files that it names
        raise InputError(f"{path}: is GIFTI, not an image; give e.g. a NIfTI file")
    return nib.load(path)


def _pair(path: Path) -> list[Path]:
    """Return both files of an image in Analyze's style, any other file as it is."""
    ends = (".hdr", ".img")
    return [path.with_suffix(end) for end in ends] if path.suffix in ends else [path]


READERS = (
    Reader(MRTRIX_SUFFIXES, open_mif, files_of_mif, gradients=True),
    Reader(("",), _open_with_nibabel, _pair),
)


def reader_of(path: Path) -> Reader:
    """Return the format of a file by the end of its name."""
    return next(reader for reader in READERS if path.name.lower().endswith(reader.suffixes))


def state_of_file(path: Path) -> FileState:
    """Return place, inode, size and time of a file, of which one is another when it was written anew."""
    status = path.stat()
    return str(path.absolute()), status.st_ino, status.st_size, status.st_mtime_ns


def state_of(path: AnyPath) -> tuple[FileState, ...]:
    """Return :func:`state_of_file` of the files of an image, or of another file; raise InputError if one is missing."""
    return tuple(state_of_file(existing_path(file)) for file in reader_of(Path(path)).files(existing_path(path)))


class OpenImage(NamedTuple):
    """An image whose header is read; it stands in for its path.

    Parameters
    ----------
    path : Path
        As messages name it.
    image : nibabel.spatialimages.SpatialImage or StoredImage
        Its values are read later, once.
    """

    path: Path
    image: Image

    def __fspath__(self) -> str:
        """Return the path."""
        return str(self.path)

    __str__ = __fspath__


def open_image(path: AnyPath) -> OpenImage:
    """Open an image of real numbers, whose values are then read once by :func:`read_array` or :func:`read_series`.

    Parameters
    ----------
    path : str or Path
        An image that is open already is returned as it is.

    Returns
    -------
    OpenImage

    Raises
    ------
    InputError
        If the file is missing or damaged, or contains no image of real numbers.
    """
    from nibabel.spatialimages import SpatialImage

    if isinstance(path, OpenImage):
        return path
    if isinstance(path, InMemory):
        with reading(Path(path)):
            path, image = Path(path), SpatialImage(path.values, path.affine)
    else:
        file, label = label_in(path)
        if label is not None:
            return _voxels_of_label(open_image(file), label)
        path = existing_path(file)
        with reading(path):
            image = reader_of(path).open(path)
    if not isinstance(image, SpatialImage | StoredImage):
        raise InputError(f"{path}: {type(image).__name__} is not an image; give e.g. a NIfTI file")
    if image.get_data_dtype().kind not in "biuf":
        raise InputError(f"{path}: data type {image.get_data_dtype()} is not supported; save it as e.g. float32")
    if 0 in image.shape:
        raise InputError(f"{path}: shape {tuple(image.shape)} has no voxels; check how the file was created")
    return OpenImage(path, image)


def _voxels_of_label(opened: OpenImage, label: int) -> OpenImage:
    """Return the mask of the voxels with a label."""
    from nibabel.nifti1 import Nifti1Image

    path, image = opened
    shape = tuple(image.shape)
    if len(shape) not in (3, 4) or shape[3:] not in ((), (1,)):
        raise InputError(f"{path}: shape {shape} is no image of labels; give one without :{label}")
    voxels = _voxels_by_label(path, state_of(path)).get(label)
    if voxels is None:
        raise InputError(f"{path}: has no voxel of label {label}; give a label above 0 that it has")
    mask = np.zeros(shape[:3], np.uint8)
    mask.flat[voxels] = 1
    return OpenImage(Path(f"{path}:{label}"), Nifti1Image(mask, image.affine))


@lru_cache(1)  # a run, or a page, has several regions of one image
def _voxels_by_label(path: Path, _: tuple[FileState, ...]) -> dict[int, Array]:
    """Return the places of the voxels of each label above 0 of an image, as numbers of a C-contiguous array."""
    image = open_image(path).image
    values, scaled = read_array(path, image).reshape(image.shape[:3]), image.get_data_dtype().kind != "f"
    labels = labels_of(path, values, scaled=scaled).ravel()
    voxels = np.flatnonzero(labels).astype(np.int32 if labels.size < 2**31 else np.int64)
    voxels = voxels[np.argsort(labels[voxels], kind="stable")]
    known, first = np.unique(labels[voxels], return_index=True)
    return dict(zip(map(int, known), np.split(voxels, first[1:]), strict=True))


def grid_of(path: Path, image: Image, *, sheared: bool = False) -> Space:
    """Return the grid of an image's first three axes, see :func:`checked_grid`."""
    return checked_grid(path, np.asarray(image.affine, np.float64), image.shape[:3], sheared=sheared)


def checked_grid(path: Path, affine: npt.NDArray[np.float64], shape: Any, *, sheared: bool = False) -> Space:
    """Return a grid.

    Raises
    ------
    InputError
        If there are no three axes, if the affine cannot be inverted, or if the axes are sheared and may not be.
    """
    with reading(path):
        if not np.isfinite(affine).all() or np.linalg.matrix_rank(affine[:3, :3]) < 3:
            raise InputError(f"{path}: affine {affine.tolist()} cannot be inverted; correct the header")
        space = Space(affine, shape)
        shear = space.shear
    # As DIPY's LocalTracking requires, but independent of the voxel size; "not <=" also catches NaN.
    if not sheared and not shear <= SHEAR_TOLERANCE:
        raise InputError(f"{path}: affine is sheared (cosine {shear:.2g} between axes); resample to orthogonal axes")
    return space


def read_array(path: Path, image: Image) -> Array:
    """Return all values of an image, scaled as its header says."""
    with reading(path):
        return np.asarray(unpack_image(image).dataobj)


def read_series(path: Path, image: Image, note: Tell | None = None, together: int = 1) -> npt.NDArray[np.float32]:
    """Return the values (x, y, z, n) float32 of an image whose axes from the fourth on have n values together.

    A value that is not finite is an InputError; with ``note``, NaN becomes 0 as in :func:`finite`.
    """
    with reading(path):
        data, expected = floats(image, LARGEST)
    return data if expected else finite(path, data, note, together)


def read_signals(
    path: Path, image: Image, inside: npt.NDArray[np.bool_] | None = None
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_] | None]:
    """Return the values (x, y, z, n) float32 of a 4-D image, and the voxels (x, y, z) with NaN, which become 0.

    They are None if there is none. An infinite value is an InputError. With voxels that are ``inside``, the values of
    others are 0, whatever the file has there.
    """
    with reading(path):
        data, expected = floats(image, LARGEST, inside)
    if expected:
        return data, None
    missing: npt.NDArray[np.bool_] = np.asarray(np.isnan(data).any(axis=3))
    data[missing] = 0
    return finite(path, data), missing if missing.any() else None


def finite(path: Path, data: Array, note: Tell | None = None, together: int = 1) -> Array:
    """Raise an InputError at the first value that is NaN, infinite or larger than LARGEST; return the values.

    With ``note``, NaN, which programs write where nothing was fitted, becomes 0, and ``note`` receives their number.
    ``together`` successive numbers of the last axis, e.g. x, y and z of a peak, become 0 if one of them is NaN.
    """
    if note is not None and (missing := np.isnan(data)).any():
        note(f"{path}: {missing.sum()} of {missing.size} values are NaN and are set to 0")
        if together > 1:
            groups = missing.reshape(*missing.shape[:-1], -1, together)
            missing = np.broadcast_to(groups.any(axis=-1, keepdims=True), groups.shape).reshape(missing.shape)
        data = np.where(missing, data.dtype.type(0), data)
    at_once = VOLUMES_AT_ONCE if data.ndim == 4 else data.shape[-1]
    for first in range(0, data.shape[-1], at_once):
        part = data[..., first : first + at_once]
        if not (right := np.abs(part) <= LARGEST).all():
            where = first_place(~right)
            volume = f" of volume {first + where[3]}" if data.ndim == 4 else ""
            advice = f"replace NaN and values beyond {LARGEST:g} with e.g. 0"
            raise InputError(f"{path}: value {part[where]} in voxel {where[:3]}{volume}; {advice}")
    return data
