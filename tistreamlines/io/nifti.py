"""Images, gradients and seeds from files, each checked before anything is computed.

nibabel and DIPY are imported inside the functions: importing this module costs nothing.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError, TrackingError
from ..tractogram import Space
from .mif import refuse_mif

if TYPE_CHECKING:
    from dipy.core.gradients import GradientTable

B0_THRESHOLD = 50  # s/mm^2, as in DIPY: at or below it a volume counts as not diffusion-weighted
AFFINE_TOLERANCE = 1e-3  # mm
SHEAR_TOLERANCE = 1e-5  # cosine of the angle between two axes
NORM_TOLERANCE = 0.01
VOLUMES_AT_ONCE = 8
Tell = Callable[[str], object]


def silent(_: str) -> None:
    """Tell nobody."""


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
        Where the series was read.
    """

    data: npt.NDArray[np.float32]
    space: Space
    gtab: GradientTable
    path: Path


def load_dwi(dwi: str | Path, bvals: str | Path, bvecs: str | Path) -> Dwi:
    """Read a diffusion series with its b-values and directions.

    Parameters
    ----------
    dwi : str or Path
        NIfTI file (.nii, .nii.gz) of four axes; the array stays as stored.
    bvals, bvecs : str or Path
        FSL files, in rows or columns, read as DIPY reads them; no sign is changed: :mod:`tistreamlines.frames` does.

    Returns
    -------
    Dwi

    Raises
    ------
    InputError
        If a file is missing or damaged, or if the three do not fit together.
    """
    path, image = _open_image(dwi)
    if len(image.shape) != 4:
        raise InputError(
            f"{path}: {len(image.shape)}-D image of shape {tuple(image.shape)}; "
            "give the 4-D diffusion series, one volume per gradient"
        )
    space = _grid(path, image)
    gtab = _load_gradients(bvals, bvecs, path, image.shape[3])
    return Dwi(_read_series(path, image), space, gtab, path)


def load_mask(
    path: str | Path, space: Space, note: Tell = silent, warn: Tell | None = None
) -> npt.NDArray[np.bool_]:
    """Read a mask on the grid of the series, or of the orientations.

    Parameters
    ----------
    path : str or Path
        3-D NIfTI file; every voxel that is not 0 or NaN is inside.
    space : Space
        Grid that the mask must have.
    note : callable
        Is told of NaN values, and of a mask that has more values than 0 and another one.
    warn : callable, optional
        Is told in its place if such a mask is most of the image.

    Returns
    -------
    mask : (x, y, z) bool
    """
    path, data = _load_volume(path, space, note)
    mask = np.ascontiguousarray(data != 0)
    if not mask.any():
        raise InputError(f"{path}: all {mask.size} voxels are 0; give a mask with at least one voxel set")
    low, high = data[mask].min(), data[mask].max()
    if low != high:
        tell = warn if warn and mask.mean() > 0.5 else note
        tell(
            f"{path}: values from {low:.4g} to {high:.4g}, not a mask of 0 and 1; all {mask.sum()} voxels that are not "
            f"0 are taken, {mask.mean():.0%} of the image"
        )
    return mask


def load_map(path: str | Path, space: Space, note: Tell = silent) -> npt.NDArray[np.float32]:
    """Read a scalar map on the grid of the series, or of the orientations.

    Parameters
    ----------
    path : str or Path
        3-D NIfTI file.
    space : Space
        Grid that the map must have.
    note : callable
        Is told of NaN values, which become 0: programs write them where nothing was fitted.

    Returns
    -------
    values : (x, y, z) float32, C-contiguous
    """
    return np.ascontiguousarray(_load_volume(path, space, note)[1], np.float32)


def load_seeds(path: str | Path) -> npt.NDArray[np.float64]:
    """Read seed points.

    Parameters
    ----------
    path : str or Path
        NumPy file (.npy), or text of three numbers a line, parted by spaces, tabs or commas.

    Returns
    -------
    seeds : (n, 3) float64, RASmm
    """
    path = _existing(path)
    with _reading(path), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy warns about an empty file; the shape says it below
        if path.suffix.lower() == ".npy":
            seeds = np.load(path, allow_pickle=False)
        else:
            text = path.read_text(encoding="utf-8")
            seeds = np.loadtxt(StringIO(re.sub(r"[\t,]", " ", text)), ndmin=2)
    if seeds.size == 0:
        raise InputError(f"{path}: 0 seeds; give at least one line of x y z in RASmm")
    if seeds.ndim != 2 or seeds.shape[1] != 3 or seeds.dtype.kind not in "fiu":
        raise InputError(f"{path}: {seeds.dtype} array of shape {seeds.shape}; give x y z in RASmm, shape (n, 3)")
    seeds = seeds.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(seeds).all(axis=1))
    if len(bad):
        raise InputError(f"{path}: seed {bad[0]} is {seeds[bad[0]].tolist()}; remove the {len(bad)} not finite")
    return seeds


def _existing(path: str | Path) -> Path:
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path}: is a folder; give the file in it")
    if not path.exists():
        raise InputError(f"{path}: no such file; check the path")
    return path


@contextmanager
def _reading(path: Path) -> Generator[None, None, None]:
    # nibabel, zlib, NumPy and DIPY raise a dozen unrelated types for a damaged file, hence Exception.
    try:
        yield
    except TrackingError:
        raise
    except MemoryError as error:
        raise InputError(f"{path}: does not fit in memory; crop it or use a larger machine") from error
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{path}: cannot be read ({reason}); check that it is whole and of the right kind") from error


def _open_image(path: str | Path) -> tuple[Path, Any]:
    import nibabel as nib
    from nibabel.spatialimages import SpatialImage

    path = _existing(path)
    refuse_mif(path)
    with _reading(path):
        # The kept file lets a compressed series be unpacked once, front to back, a few volumes at a time.
        image = nib.load(path, keep_file_open=True)
    if not isinstance(image, SpatialImage):
        raise InputError(f"{path}: {type(image).__name__} has no voxels in space; give a NIfTI volume")
    if image.get_data_dtype().kind not in "biuf":
        raise InputError(f"{path}: values of type {image.get_data_dtype()}; save it with real numbers, e.g. float32")
    if 0 in image.shape:
        raise InputError(f"{path}: shape {tuple(image.shape)} has no voxels; check how it was made")
    return path, image


def _grid(path: Path, image: Any) -> Space:
    affine = np.asarray(image.affine, np.float64)
    linear = affine[:3, :3]
    if not np.isfinite(affine).all() or np.linalg.matrix_rank(linear) < 3:
        raise InputError(f"{path}: affine {affine.tolist()} cannot be inverted; repair the header")
    space = Space(affine, image.shape[:3])
    # The same demand as DIPY's LocalTracking, but free of the voxel size.
    if space.shear > SHEAR_TOLERANCE:
        tilt = f"cosine {space.shear:.2g} between axes"
        raise InputError(f"{path}: affine is sheared ({tilt}); resample to a regular grid")
    return space


def _load_volume(path: str | Path, space: Space, note: Tell) -> tuple[Path, npt.NDArray[Any]]:
    path, image = _open_image(path)
    if tuple(image.shape) != space.shape:
        raise InputError(
            f"{path}: shape {tuple(image.shape)}, but the series or orientations have {space.shape}; "
            "resample it to that grid"
        )
    difference = np.abs(np.asarray(image.affine, np.float64) - space.affine).max()
    if not difference <= AFFINE_TOLERANCE:  # so written that a NaN is caught too
        raise InputError(
            f"{path}: affine is {difference:.4g} off that of the series or orientations; resample it to that grid"
        )
    with _reading(path):
        data = np.asarray(image.dataobj)
    data = without_nan(path, data, note)
    _check_finite(path, data)
    return path, data


def without_nan(path: Path, data: npt.NDArray[Any], note: Tell) -> npt.NDArray[Any]:
    """Put 0 for NaN, which MRtrix3 writes where there is no value, and tell how many there were."""
    missing = np.isnan(data)
    if not missing.any():
        return data
    note(f"{path}: {missing.sum()} of {missing.size} values are NaN and count as 0")
    return np.where(missing, data.dtype.type(0), data)


def _read_series(path: Path, image: Any) -> npt.NDArray[np.float32]:
    with _reading(path):
        data = np.empty(image.shape, np.float32)
        for first in range(0, image.shape[3], VOLUMES_AT_ONCE):
            part = data[..., first : first + VOLUMES_AT_ONCE]
            with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite and is named below
                part[...] = image.dataobj[..., first : first + VOLUMES_AT_ONCE]
            _check_finite(path, part, first)
    return data


def _check_finite(path: Path, data: npt.NDArray[Any], first_volume: int = 0) -> None:
    finite = np.isfinite(data)
    if finite.all():
        return
    where = np.unravel_index(np.argmin(finite), data.shape)
    voxel = tuple(int(i) for i in where[:3])
    volume = f" of volume {first_volume + int(where[3])}" if data.ndim == 4 else ""
    raise InputError(
        f"{path}: value {data[where]} in voxel {voxel}{volume}; replace NaN and infinite values with numbers, e.g. 0"
    )


def _load_gradients(bvals: str | Path, bvecs: str | Path, dwi: Path, volumes: int) -> GradientTable:
    from dipy.core.gradients import gradient_table

    bvals_path, values = _read_numbers(bvals)
    bvecs_path, vectors = _read_numbers(bvecs)
    values = np.atleast_1d(values)
    if values.ndim != 1:
        raise InputError(f"{bvals_path}: table of shape {values.shape}; give one b-value per volume, not the bvecs")
    if vectors.shape == (3,):
        vectors = vectors[None]
    if vectors.ndim != 2 or 3 not in vectors.shape:
        raise InputError(f"{bvecs_path}: table of shape {vectors.shape}; give three numbers per volume")
    if vectors.shape[1] != 3:
        vectors = vectors.T
    for path, count, noun in ((bvals_path, len(values), "b-values"), (bvecs_path, len(vectors), "directions")):
        if count != volumes:
            raise InputError(f"{path}: {count} {noun}, but {dwi} has {volumes} volumes; give the files made with it")
    _check_bvals(bvals_path, values)
    _check_bvecs(bvecs_path, vectors, values > B0_THRESHOLD)
    return gradient_table(values, bvecs=vectors, b0_threshold=B0_THRESHOLD)


def _read_numbers(path: str | Path) -> tuple[Path, npt.NDArray[np.float64]]:
    from dipy.io import read_bvals_bvecs

    path = _existing(path)
    with _reading(path), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an empty file is told by its count
        # Each file alone, by DIPY's reader, so that an error can name it.
        return path, np.asarray(read_bvals_bvecs(str(path), None)[0], np.float64)


def _check_bvals(path: Path, values: npt.NDArray[np.float64]) -> None:
    bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if len(bad):
        raise InputError(f"{path}: b-value {values[bad[0]]:g} of volume {bad[0]}; b-values are finite, at least 0")
    if values.min() > B0_THRESHOLD:
        raise InputError(f"{path}: no b0, the lowest b-value is {values.min():g}; one must be at most {B0_THRESHOLD}")
    if values.max() <= B0_THRESHOLD:
        raise InputError(f"{path}: the highest b-value is {values.max():g}; one must be above {B0_THRESHOLD}")


def _check_bvecs(path: Path, vectors: npt.NDArray[np.float64], weighted: npt.NDArray[np.bool_]) -> None:
    norms = np.linalg.norm(vectors, axis=1)
    # A b0 has no direction, and some converters write NaN for it; DIPY takes that as zero.
    bad = np.flatnonzero((weighted & ~(np.abs(norms - 1) <= NORM_TOLERANCE)) | np.isinf(norms))
    if len(bad):
        raise InputError(
            f"{path}: direction {vectors[bad[0]].round(4).tolist()} of volume {bad[0]} has length "
            f"{norms[bad[0]]:.4g}, not 1; give unit vectors (a b0 is a volume of at most b={B0_THRESHOLD})"
        )
