"""Images of the kinds that nibabel knows, opened, checked and read to their ends.

nibabel is imported inside the functions: importing this module costs nothing.
"""

from __future__ import annotations

import gzip
import logging
import os
import stat
import warnings
import zlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError, TrackingError
from .in_memory import InMemory
from .mif import refuse_mif
from .tractogram import Space

SHEAR_TOLERANCE = 1e-5  # cosine of the angle between two axes
LARGEST = 1e30  # value of an image: sums and products of some are numbers of float32
VOLUMES_AT_ONCE = 8
BLOCK = 1 << 20  # bytes
Tell = Callable[[str], object]
AnyPath = str | os.PathLike[str]


def silent(_: str) -> None:
    """Tell nobody."""


def mode_of(path: AnyPath) -> int:
    """Kind and permissions of a file, which must be there."""
    try:
        return Path(path).stat().st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:  # ValueError: a name with a NUL
        raise InputError(f"{path}: no such file; check the path") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from error


def existing(path: AnyPath) -> Path:
    """Return the path of a file, which must be there and no folder or device.

    Raises
    ------
    InputError
        Where it is none that can be read from its beginning as often as need be.
    """
    path, mode = Path(path), mode_of(path)
    if stat.S_ISDIR(mode):
        raise InputError(f"{path}: is a folder; give the file in it")
    if not stat.S_ISREG(mode):
        raise InputError(f"{path}: is a pipe or a device; write what comes from it to a file, and give that")
    return path


@contextmanager
def reading(path: Path) -> Generator[None, None, None]:
    """Turn whatever goes wrong while a file is read into an InputError that names it, the only line that is said."""
    # nibabel, zlib, NumPy and DIPY raise a dozen unrelated types for a damaged file, hence Exception.
    try:
        with _hushed():
            yield
    except TrackingError:
        raise
    except MemoryError as error:
        raise InputError(f"{path}: does not fit in memory; crop it or use a larger machine") from error
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        message = f"cannot be read: it is damaged ({_reason(error)}); copy it or make it again"
        raise InputError(f"{path}: {message}") from error
    except Exception as error:
        message = f"cannot be read ({_reason(error)}); check that it is whole and of the right kind"
        raise InputError(f"{path}: {message}") from error


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


@contextmanager
def _hushed() -> Generator[None, None, None]:
    """Keep back warnings, and what nibabel logs of a header that it mends or refuses."""
    logger = logging.getLogger("nibabel.global")

    def none(_: logging.LogRecord) -> bool:
        return False

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logger.addFilter(none)
        try:
            yield
        finally:
            logger.removeFilter(none)


def open_image(path: AnyPath) -> tuple[Path, Any]:
    """Open an image of real numbers; its values are read by :func:`read_array` or :func:`read_series`, once."""
    import nibabel as nib
    from nibabel.spatialimages import SpatialImage

    if isinstance(path, InMemory):
        with reading(Path(path)):
            path, image = Path(path), path.image()
    else:
        path = existing(path)
        refuse_mif(path)
        with reading(path):
            image = nib.load(path)
            if isinstance(image, SpatialImage):
                image = _on_streams(image)
    if not isinstance(image, SpatialImage):
        raise InputError(f"{path}: {type(image).__name__} has no voxels in space; give a NIfTI volume")
    if image.get_data_dtype().kind not in "biuf":
        raise InputError(f"{path}: values of type {image.get_data_dtype()}; save it with real numbers, e.g. float32")
    if 0 in image.shape:
        raise InputError(f"{path}: shape {tuple(image.shape)} has no voxels; check how it was made")
    return path, image


def _on_streams(image: Any) -> Any:
    """Open a compressed image on streams that stay open: unpacked once, front to back, and to the end."""
    from nibabel.openers import ImageOpener

    holders = [part for part in image.file_map.values() if Path(part.filename).suffix.lower() in _compressed()]
    for holder in holders:
        holder.fileobj = ImageOpener(holder.filename).fobj
    return type(image).from_file_map(image.file_map) if holders else image


def _compressed() -> set[str]:
    from nibabel.openers import ImageOpener

    return {ending for ending in ImageOpener.compress_ext_map if ending is not None}


def _finish(image: Any) -> None:
    """Read streams to their ends, where the checksum and the length stand that the rest is compared with."""
    for holder in image.file_map.values():
        if holder.fileobj is not None:
            while holder.fileobj.read(BLOCK):
                pass
            holder.fileobj.close()


def grid_of(path: Path, image: Any) -> Space:
    """Grid of an image's first three axes, which must be at right angles."""
    affine = np.asarray(image.affine, np.float64)
    with reading(path):
        if not np.isfinite(affine).all() or np.linalg.matrix_rank(affine[:3, :3]) < 3:
            raise InputError(f"{path}: affine {affine.tolist()} cannot be inverted; repair the header")
        space = Space(affine, image.shape[:3])
        shear = space.shear
    # The same demand as DIPY's LocalTracking, but free of the voxel size; so written that a NaN is caught too.
    if not shear <= SHEAR_TOLERANCE:
        raise InputError(
            f"{path}: affine is sheared (cosine {shear:.2g} between axes); resample to a regular grid"
        )
    return space


def read_array(path: Path, image: Any) -> npt.NDArray[Any]:
    """All values of an image as they are, scaled by its header's slope."""
    with reading(path):
        data = np.asarray(image.dataobj)
        _finish(image)
    return data


def read_series(path: Path, image: Any) -> npt.NDArray[np.float32]:
    """All values of an image of four axes, (x, y, z, n) and finite, a few volumes at a time."""
    with reading(path):
        data = np.empty(image.shape, np.float32)
        for some in _volumes(data):
            data[some] = image.dataobj[some]  # what float32 cannot hold becomes infinite and is named below
        _finish(image)
    for some in _volumes(data):
        check_finite(path, data[some], some[1].start)
    return data


def _volumes(data: npt.NDArray[Any]) -> Generator[Any, None, None]:
    for first in range(0, data.shape[3], VOLUMES_AT_ONCE):
        yield ..., slice(first, first + VOLUMES_AT_ONCE)


def without_nan(path: Path, data: npt.NDArray[Any], note: Tell) -> npt.NDArray[Any]:
    """Put 0 for NaN, which MRtrix3 writes where there is no value, and tell how many there were."""
    missing = np.isnan(data)
    if not missing.any():
        return data
    note(f"{path}: {missing.sum()} of {missing.size} values are NaN and count as 0")
    return np.where(missing, data.dtype.type(0), data)


def check_finite(path: Path, data: npt.NDArray[Any], first_volume: int = 0) -> None:
    """Raise InputError that names the first value that is NaN, infinite, or so large that its products are."""
    finite = np.abs(data) <= LARGEST
    if finite.all():
        return
    where = np.unravel_index(np.argmin(finite), data.shape)
    voxel = tuple(int(i) for i in where[:3])
    volume = f" of volume {first_volume + int(where[3])}" if data.ndim == 4 else ""
    advice = f"replace NaN and values beyond {LARGEST:g} with numbers, e.g. 0"
    raise InputError(f"{path}: value {data[where]} in voxel {voxel}{volume}; {advice}")
