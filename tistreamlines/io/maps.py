"""Writing of maps as NIfTI or in MRtrix3's format, and of fixels; a file appears only when it is complete.

Fixels are MRtrix3's folder of images: ``index`` has for each voxel how many fixels it has and the number of the first
one. Other images have a row for each fixel: ``directions`` a unit vector along the scanner's axes (RAS), others a
number.

References
----------
https://mrtrix.readthedocs.io/en/3.0.3/fixel_based_analysis/fixel_directory_format.html
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from ..aliases import Array
from ..errors import OutputError
from ..space.batch import Space
from .drafts import check_folder_name, check_target, completed, explained, hidden_folder
from .images import ENDINGS

SUFFIXES = (".nii.gz", ".nii")
LEVEL = 4  # of gzip: for maps of counts, 9 takes several times as long and saves a few per cent
MIF = ".mif"
LARGEST_SIDE = 2**15 - 1  # of NIfTI-1; beyond it is NIfTI-2
NO_KEYS: Mapping[str, str] = MappingProxyType({})
FORMATS = ("mif", "nii", "nii.gz")
INDEX, DIRECTIONS = "index", "directions"  # images whose names MRtrix3 knows
COUNT = "nfixels"  # key in the header of the index


def write_map(
    path: Path, values: Array, space: Space, *, force: bool, keys: Mapping[str, str] = NO_KEYS
) -> None:
    """Write a map; the same values have the same bytes at any time and under any name.

    Parameters
    ----------
    path : Path
        Name ending in .nii, .nii.gz or .mif.
    values : ndarray, (x, y, z) or (x, y, z, volumes)
        Integers or float32.
    space : Space
        Grid of the map.
    force : bool
        Replace an existing file.
    keys : mapping
        Further lines of the header, see :func:`map_content`.

    Raises
    ------
    OutputError
        If the file exists and ``force`` is false, or if it cannot be written.
    """
    content = map_content(path.suffix, values, space, keys=keys)
    with completed(path, force=force) as draft:
        draft.write_bytes(content)


def map_content(suffix: str, values: Array, space: Space, *, keys: Mapping[str, str] = NO_KEYS) -> bytes:
    """Return the bytes of an image that :func:`write_map` writes to a file whose name ends so.

    ``keys`` are further lines of the header of a .mif; NIfTI has no place for them.
    """
    if suffix.lower() == MIF:
        return mif_content(values, space, keys)
    import nibabel as nib

    kind = nib.Nifti1Image if max(values.shape) <= LARGEST_SIDE else nib.Nifti2Image
    image = kind(values, space.affine, dtype=values.dtype)
    image.header.set_xyzt_units("mm")
    content = image.to_bytes()
    # the header of gzip would name the file and the hour
    return gzip.compress(content, LEVEL, mtime=0) if suffix.lower() == ".gz" else content


def mif_content(values: Array, space: Space, keys: Mapping[str, str]) -> bytes:
    """Return the bytes of an image in MRtrix3's format, which :mod:`.mif` reads, with the axes as in the grid.

    Parameters
    ----------
    values : ndarray, (x, y, z) or (x, y, z, volumes)
        Integers, float32 or float64.
    space : Space
        Grid of the first three axes.
    keys : mapping
        Further lines of the header: one for each line of a value.

    Returns
    -------
    bytes
    """
    kind = values.dtype.newbyteorder("<")
    word = {"i": "Int", "u": "UInt", "f": "Float"}[kind.kind] + str(8 * kind.itemsize)
    sides = [f"{side:.10g}" for side in space.voxel_sizes] + ["nan"] * (values.ndim - 3)
    rows = np.column_stack([space.axes, space.affine[:3, 3]])
    lines = [
        "mrtrix image",
        f"dim: {','.join(map(str, values.shape))}",
        f"vox: {','.join(sides)}",
        f"layout: {','.join(f'+{axis}' for axis in range(values.ndim))}",
        f"datatype: {word}{'' if kind.itemsize == 1 else 'LE'}",
        *(f"transform: {', '.join(f'{number:.15g}' for number in row)}" for row in rows),
        *(f"{key}: {line}" for key, value in keys.items() for line in value.split("\n")),
    ]
    text = "\n".join(lines)
    offset = -(-(len(text.encode()) + 64) // 64) * 64  # 64 bytes are enough for the line with the offset and for END
    head = f"{text}\nfile: . {offset}\nEND\n".encode()
    return head.ljust(offset, b"\0") + values.astype(kind, copy=False).tobytes(order="F")


def check_folder(folder: Path, names: tuple[str, ...], suffix: str, *, force: bool) -> None:
    """Raise an OutputError unless the images can be written to a folder.

    Parameters
    ----------
    folder : Path
        It need not exist, but the folder that it lies in must.
    names : tuple of str
        Names of the images, without suffix.
    suffix : str
        One of FORMATS.
    force : bool
        Whether images of these names are replaced in a folder that has files already.

    Raises
    ------
    OutputError
        If the folder has files, or, with ``force``, other images than these, such as densities of earlier fixels.
    """
    if not folder.exists():
        check_folder_name(folder)
        check_target(folder, force=force)
        return
    if not folder.is_dir():
        raise OutputError(f"{folder}: is a file, but fixels are a folder of images; give another name")
    with explained(folder):
        there = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    if there and not force:
        raise OutputError(f"{folder}: is not empty; give another name, or --force to replace fixels there")
    files = [f"{name}.{suffix}" for name in names]
    if others := sorted(name for name in there - {*files} if name.lower().endswith(ENDINGS)):
        what = "it" if len(others) == 1 else "them"
        raise OutputError(
            f"{folder}: has {', '.join(others)}, which would not be replaced and may be of other fixels; move {what} "
            "away, or give another name"
        )
    for name in files:
        check_target(folder / name, force=force)


def write_fixels(
    folder: Path, index: npt.NDArray[np.uint32], images: Mapping[str, Array], space: Space, suffix: str, *,
    force: bool,
) -> None:
    """Write fixels.

    Parameters
    ----------
    folder : Path
        Made if it does not exist.
    index : (x, y, z, 2) uint32
        Of each voxel, the number of its fixels and that of the first one.
    images : mapping
        By name, (fixels,) or (fixels, k) float32.
    space : Space
        Grid of the voxels.
    suffix : str
        One of FORMATS.
    force : bool
        Replace images of the same names.

    Raises
    ------
    OutputError
        As :func:`check_folder`, or if an image cannot be written.
    """
    check_folder(folder, (*images, INDEX), suffix, force=force)
    # a row for each fixel is the first axis, which MRtrix3 would exchange with another one on turned axes
    rows = Space(np.eye(4), (1, 1, 1))
    # all are written before the first one gets its name; the index is the last, without which there are no fixels
    with explained(folder), hidden_folder(folder / INDEX if folder.is_dir() else folder) as draft:
        drafts = {name: draft / f"{name}.{suffix}" for name in (*images, INDEX)}
        for name, values in images.items():
            content = map_content(drafts[name].suffix, values.reshape(len(values), -1, 1), rows)
            drafts[name].write_bytes(content)
        keys = {COUNT: str(int(index[..., 0].sum()))}
        drafts[INDEX].write_bytes(map_content(drafts[INDEX].suffix, index, space, keys=keys))
        folder.mkdir(exist_ok=True)
        for path in drafts.values():
            check_target(folder / path.name, force=force)
        for path in drafts.values():
            path.replace(folder / path.name)
