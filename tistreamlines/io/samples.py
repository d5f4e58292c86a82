"""Reading of bedpostX's samples: in each voxel, draws from the posterior of fibre directions and volume fractions.

Of each fibre there are three images with one volume a sample, such as ``merged_th1samples`` and ``merged_ph1samples``,
the polar angle and the azimuth (radians), and ``merged_f1samples``, the volume fraction. A direction is (sin th cos ph,
sin th sin ph, cos th) in FSL's frame, whose x is against the first voxel axis if the affine's determinant is positive.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..space.batch import Space
from .images import AnyPath, Tell, existing_path, grid_of, open_image, read_series, silent
from .nifti import load_mask
from .orientations import check_space, open_on_grid
from .stored_image import Image

Floats = npt.NDArray[np.float32]
MERGED = "merged"
MASK = "nodif_brain_mask"
ROLES = ("th", "ph", "f")
_NAME = re.compile(r"merged_(th|ph|f)([1-9]\d*)samples\.nii(?:\.gz)?")
ROUNDING = 1e-4  # a volume fraction may be below 0 or above 1 by so much
BLOCK = 1 << 14  # voxels


@dataclass(frozen=True)
class SampleFiles:
    """The files of bedpostX's samples.

    Parameters
    ----------
    fibres : tuple of dict of str to Path
        For each fibre, its files 'th', 'ph' and 'f'.
    mask : str or Path, optional
        The voxels that have samples.
    """

    fibres: tuple[dict[str, Path], ...]
    mask: AnyPath | None = None

    @cached_property
    def image(self) -> Image:
        """Header of the first fibre's fractions."""
        return open_image(self.fibres[0]["f"]).image


@dataclass(frozen=True, eq=False)
class Samples:
    """Draws from the posterior of the fibres in each voxel.

    Parameters
    ----------
    values : (voxels, samples, fibres, 4) float32, C-contiguous
        A unit vector along the voxel axes, and the volume fraction, of the voxels of the mask in C order.
    mask : (x, y, z) bool
        The voxels that have samples.
    space : Space
        Grid of the mask.
    """

    values: Floats
    mask: npt.NDArray[np.bool_]
    space: Space


def sample_files(source: AnyPath | Sequence[AnyPath], mask: AnyPath | None = None) -> SampleFiles:
    """Find the files of samples by their names.

    Parameters
    ----------
    source : str or Path, or several
        Folder of bedpostX, also with ``/merged`` behind it, as for probtrackx2, or its ``merged_*`` files.
    mask : str or Path, optional
        By default the folder's ``nodif_brain_mask``. Without one, voxels have samples where some fraction is not 0.

    Raises
    ------
    InputError
        If the source is no folder, a file has another name, or one of a fibre is missing.
    """
    sources = [source] if isinstance(source, str | os.PathLike) else list(source)
    if len(sources) > 1 or Path(sources[0]).is_file():
        paths, where = [existing_path(path) for path in sources], "the given files"
    else:
        folder, where = Path(sources[0]), str(sources[0])
        if folder.name == MERGED and not folder.is_dir():  # FSL's --samples, the beginning of all names
            folder = folder.parent
        if not folder.is_dir():
            raise InputError(f"{where}: no such folder; give a folder of bedpostX, such as subject.bedpostX")
        paths = sorted(folder.glob("merged_*samples.nii*"))
        mask = mask or next(iter(sorted(folder.glob(f"{MASK}.nii*"))), None)
    files: dict[int, dict[str, Path]] = {}
    for path in paths:
        parts = _NAME.fullmatch(path.name)
        if parts is None:
            raise InputError(f"{path}: is not named as bedpostX does; give e.g. merged_th1samples.nii.gz")
        others = files.setdefault(int(parts[2]), {})
        if parts[1] in others:
            raise InputError(f"{path}: so is {others[parts[1]]}; give one of the two")
        others[parts[1]] = path
    for number in range(1, max(files, default=1) + 1):
        missing = [role for role in ROLES if role not in files.get(number, {})]
        if missing:
            names = ", ".join(f"merged_{role}{number}samples" for role in missing)
            raise InputError(f"{where}: has no {names}; copy the whole folder of bedpostX")
    return SampleFiles(tuple(files[number] for number in sorted(files)), mask)


def listed_files(files: SampleFiles) -> list[Path]:
    """Return all files of samples, that of the mask at the end.

    Parameters
    ----------
    files : SampleFiles
    """
    mask = [] if files.mask is None else [Path(files.mask)]
    return [fibre[role] for fibre in files.fibres for role in ROLES] + mask


def load_samples(files: SampleFiles, space: Space | None = None, note: Tell = silent) -> Samples:
    """Read the samples of all fibres; at most one image is in memory besides the result.

    Parameters
    ----------
    files : SampleFiles
    space : Space, optional
        Grid that they must have.
    note : callable
        Receives messages about the mask.

    Returns
    -------
    Samples

    Raises
    ------
    InputError
        If a file is damaged, if grids or numbers of samples differ, or if values are no angles or fractions.
    """
    first = files.fibres[0]["f"]
    _, image, space = open_on_grid(first, space, "one volume a sample")
    count = image.shape[3]
    if files.mask is None:
        mask = np.zeros(space.shape, bool)
        for fibre in files.fibres:
            mask |= _read(fibre["f"], space, count).any(axis=3)
    else:
        opened = open_image(files.mask)
        check_space(opened.path, grid_of(*opened), space)  # it says which voxels have samples
        mask = load_mask(opened, space, note)
    values = np.empty((int(mask.sum()), count, len(files.fibres), 4), np.float32)
    for number, fibre in enumerate(files.fibres):
        directions, fractions = values[:, :, number], _read(fibre["f"], space, count)[mask]
        if number == 0 and not fractions.any():
            raise InputError(f"{first}: no value in the mask is above 0; check that bedpostX has finished")
        directions[..., 3] = _fractions(fibre["f"], fractions)
        polar = _angles(fibre["th"], _read(fibre["th"], space, count)[mask])
        azimuth = _angles(fibre["ph"], _read(fibre["ph"], space, count)[mask])
        _directions(polar, azimuth, -1 if space.fsl_flips_x else 1, directions)
    return Samples(values, mask, space)


def _read(path: Path, space: Space, count: int) -> Floats:
    """Return an image of samples, once its grid and their number are checked."""
    path, image, _ = open_on_grid(path, space, "one volume a sample")
    if image.shape[3] != count:
        raise InputError(f"{path}: {image.shape[3]} samples, but merged_f1samples has {count}; give files of one run")
    return read_series(path, image)


def _fractions(path: Path, values: Floats) -> Floats:
    low, high = float(values.min()), float(values.max())
    if low < -ROUNDING or high > 1 + ROUNDING:
        raise InputError(f"{path}: values from {low:.4g} to {high:.4g}; volume fractions are between 0 and 1")
    return np.clip(values, 0, 1)


def _angles(path: Path, values: Floats) -> Floats:
    """Return angles as they are; bedpostX does not confine them, but half of them are small."""
    middle = float(np.median(np.abs(values)))
    if middle > 2 * np.pi:
        raise InputError(f"{path}: absolute values of {middle:.4g} on average; bedpostX's angles are in radians")
    return values


def _directions(polar: Floats, azimuth: Floats, sign: int, out: Floats) -> None:
    """Write unit vectors; computed in float64, so that all computers round to the same float32."""
    for start in range(0, len(out), BLOCK):
        block = slice(start, start + BLOCK)
        th, ph = polar[block].astype(np.float64), azimuth[block].astype(np.float64)
        out[block, :, 0] = sign * np.sin(th) * np.cos(ph)
        out[block, :, 1] = np.sin(th) * np.sin(ph)
        out[block, :, 2] = np.cos(th)
