"""Reading of fixels in MRtrix3's format: a folder of images, see :mod:`.maps`.

A data file has a number for each fixel, such as its fibre density. ``index`` and ``directions`` lie beside it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..aliases import Array
from ..errors import InputError, TrackingError
from ..space.batch import Space
from .images import ENDINGS, LARGEST, AnyPath, grid_of, is_folder, open_image, read_array, reading
from .in_memory import InMemory
from .maps import DIRECTIONS, INDEX

DENSITIES = ("fd", "afd")  # names of the image of fibre densities, if a folder has several images
MOST = 126  # fixels of a voxel: a table of directions has a byte for each, of which some mean something else


class FixelFiles(NamedTuple):
    """The files of fixels: their index, directions and fibre densities."""

    index: Path
    directions: Path
    densities: Path


@dataclass(frozen=True, eq=False)
class FixelImages:
    """Fixels of a folder, in the order of their voxels.

    Parameters
    ----------
    counts : (x, y, z) int32
        Fixels of each voxel.
    directions : (n, 3) float64
        Unit vector of each, along the scanner's axes.
    densities : (n,) float64
        Fibre density of each.
    space : Space
        Grid of the voxels.
    name : str
        For messages.
    """

    counts: npt.NDArray[np.int32]
    directions: npt.NDArray[np.float64]
    densities: npt.NDArray[np.float64]
    space: Space
    name: str


def fixel_files(source: AnyPath) -> FixelFiles | None:
    """Return the files of fixels that a source names: their folder, or the file of fibre densities in it.

    Returns
    -------
    FixelFiles or None
        None if the source is neither; an error about a missing or damaged file is left to whoever reads it.

    Raises
    ------
    InputError
        If images are missing from a folder, or if it is not clear which one has the fibre densities.
    """
    if is_folder(source):
        folder = Path(source)
        index = _image(folder, INDEX)
        return FixelFiles(index, _image(folder, DIRECTIONS), _densities(folder))
    if isinstance(source, InMemory) or not (path := Path(source)).name.lower().endswith(ENDINGS):
        return None
    if (role := _stem(path)) in (INDEX, DIRECTIONS) and len(_images(path.parent, (INDEX, DIRECTIONS))) > 1:
        raise InputError(f"{path}: has the {role} of fixels; give their folder, or the file of their fibre densities")
    try:
        shape = tuple(open_image(path).image.shape)
    except TrackingError:
        return None
    if sum(size > 1 for size in shape[:3]) > 1 or any(size > 1 for size in shape[3:]):
        return None
    return FixelFiles(_image(path.parent, INDEX), _image(path.parent, DIRECTIONS), path)


def files_of_folder(source: AnyPath) -> tuple[Path, ...]:
    """Return the images of a folder of fixels; none of anything else."""
    if not is_folder(source) or not (index := _images(Path(source), (INDEX,))):
        return ()
    return (*index, *_images(Path(source), (DIRECTIONS,)), *_others(Path(source)))


def load_fixels(files: FixelFiles) -> FixelImages:
    """Read fixels.

    Raises
    ------
    InputError
        If an image is missing or damaged, if images do not fit each other, or if a direction has no length, or a fibre
        density is negative or not finite.
    """
    counts, places, space = _read_index(files.index)
    rows = []
    for path, columns in ((files.directions, 3), (files.densities, 1)):
        values = _read_rows(path, columns)
        if len(values) != len(places):
            raise InputError(
                f"{path}: has {len(values):,} rows, but {files.index} tells of {len(places):,} fixels; give images of "
                "one folder"
            )
        rows.append(values)
    directions, densities = rows[0], rows[1][:, 0]
    lengths = np.linalg.norm(directions, axis=1)
    _check_rows(files.directions, directions, (lengths > 0) & (lengths <= LARGEST), "the direction")
    _check_rows(files.densities, densities, (densities >= 0) & (densities <= LARGEST), "the fibre density")
    if not densities.any():
        raise InputError(f"{files.densities}: is 0 everywhere; give the fibre densities of fixels")
    directions = directions / lengths[:, None]
    return FixelImages(counts, directions[places], densities[places], space, str(files.densities))


def _read_index(path: Path) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], Space]:
    """Return how many fixels each voxel has, the row of each fixel in the order of voxels, and their grid."""
    path, image = open_image(path)
    if len(image.shape) != 4 or image.shape[3] != 2:
        raise InputError(f"{path}: shape {tuple(image.shape)} is not that of an index of fixels, which has two volumes")
    space, values = grid_of(path, image), read_array(path, image)
    if not ((values >= 0) & (values < 2**32) & (values == np.floor(values))).all():
        raise InputError(f"{path}: has values that are no whole numbers from 0 on; write the fixels again")
    counts, first = (values[..., k].astype(np.int64) for k in range(2))
    if counts.max() > MOST:
        raise InputError(f"{path}: has a voxel of {counts.max():,} fixels; {MOST} are the most")
    held = counts > 0
    numbers, begins = counts[held], first[held]
    order = np.argsort(begins, kind="stable")
    if not np.array_equal(begins[order], np.cumsum(numbers[order]) - numbers[order]):
        raise InputError(f"{path}: fixels of several voxels overlap, or some belong to none; write the fixels again")
    places = np.repeat(begins - (np.cumsum(numbers) - numbers), numbers) + np.arange(int(numbers.sum()))
    if not len(places):
        raise InputError(f"{path}: has no fixel")
    return np.ascontiguousarray(counts, np.int32), places, space


def _read_rows(path: Path, columns: int) -> npt.NDArray[np.float64]:
    """Read an image of a row for each fixel, (n, columns).

    MRtrix3 may store the rows in the order and sense of the axes of the voxels. As in any image, the affine then says
    which axis is the first one, and where it begins.
    """
    from nibabel.orientations import apply_orientation, io_orientation

    path, image = open_image(path)
    values = read_array(path, image)
    if len(image.shape) >= 3:
        with reading(path):
            values = apply_orientation(values, io_orientation(np.asarray(image.affine, float)))
    shape = (*values.shape, 1)
    if shape[1] != columns or set(shape[2:]) != {1}:
        needed = "one number" if columns == 1 else f"{columns} numbers"
        raise InputError(f"{path}: shape {tuple(image.shape)}; give an image of {needed} for each fixel")
    return values.reshape(-1, columns).astype(np.float64)


def _check_rows(path: Path, values: Array, right: npt.NDArray[np.bool_], what: str) -> None:
    """Raise an InputError that names the first fixel whose values are wrong."""
    if not right.all():
        fixel = int(np.argmin(right))
        number = ", ".join(f"{value:.4g}" for value in np.atleast_1d(values[fixel]))
        raise InputError(f"{path}: {what} of fixel {fixel} is {number}; correct it, or write the fixels again")


def _densities(folder: Path) -> Path:
    """Return the file of fibre densities of a folder."""
    others = _others(folder)
    known = [path for path in others if _stem(path) in DENSITIES] or others
    if not known:
        raise InputError(f"{folder}: has no image of fibre densities; write them with fod2fixel -afd")
    if len(known) > 1:
        names = ", ".join(path.name for path in known)
        raise InputError(f"{folder}: has several images of fixels ({names}); give the file of the fibre densities")
    return known[0]


def _image(folder: Path, stem: str) -> Path:
    """Return the image of a folder that has this name and any suffix."""
    paths = _images(folder, (stem,))
    if not paths:
        advice = "give a folder of fixels, as fod2fixel or tistreamlines fixels writes it"
        raise InputError(f"{folder}: has no {stem}.mif or {stem}.nii; {advice}")
    if len(paths) > 1:
        raise InputError(f"{folder}: has {' and '.join(path.name for path in paths)}; remove one of them")
    return paths[0]


def _others(folder: Path) -> list[Path]:
    """Return the images of a folder but for the index and the directions."""
    return [path for path in _all(folder) if _stem(path) not in (INDEX, DIRECTIONS)]


def _images(folder: Path, stems: Iterable[str]) -> list[Path]:
    """Return the images of a folder that have one of these names and any suffix."""
    return [path for path in _all(folder) if _stem(path) in stems]


def _all(folder: Path) -> list[Path]:
    """Return the images of a folder; none of one that cannot be read."""
    try:
        there = sorted(folder.iterdir())
    except OSError:
        return []
    return [path for path in there if path.name.lower().endswith(ENDINGS) and not path.name.startswith(".")]


def _stem(path: Path) -> str:
    """Return the name of an image without its suffix."""
    ending = max((end for end in ENDINGS if path.name.lower().endswith(end)), key=len, default="")
    return path.name[: len(path.name) - len(ending)]
