"""Writing of maps as NIfTI or in MRtrix3's format; a file appears only when it is complete."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np

from ..aliases import Array
from ..space.batch import Space
from .drafts import completed

SUFFIXES = (".nii.gz", ".nii")
LEVEL = 4  # of gzip: for maps of counts, 9 takes several times as long and saves a few per cent


MIF = ".mif"
LARGEST_SIDE = 2**15 - 1  # of NIfTI-1; beyond it is NIfTI-2
NO_KEYS: Mapping[str, str] = MappingProxyType({})


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
        Further lines of the header of a .mif; NIfTI has no place for them.

    Raises
    ------
    OutputError
        If the file exists and ``force`` is false, or if it cannot be written.
    """
    content = map_content(path.suffix, values, space, keys=keys)
    with completed(path, force=force) as draft:
        draft.write_bytes(content)


def map_content(suffix: str, values: Array, space: Space, *, keys: Mapping[str, str] = NO_KEYS) -> bytes:
    """Return the bytes of an image that :func:`write_map` writes to a file whose name ends so."""
    content = mif_content(values, space, keys) if suffix.lower() == MIF else _nifti_content(values, space)
    # the header of gzip would name the file and the hour
    return gzip.compress(content, LEVEL, mtime=0) if suffix.lower() == ".gz" else content


def _nifti_content(values: Array, space: Space) -> bytes:
    import nibabel as nib

    kind = nib.Nifti1Image if max(values.shape) <= LARGEST_SIDE else nib.Nifti2Image
    image = kind(values, space.affine, dtype=values.dtype)
    image.header.set_xyzt_units("mm")
    return image.to_bytes()


def mif_content(values: Array, space: Space, keys: Mapping[str, str]) -> bytes:
    """Return the bytes of an image in MRtrix3's format, which :mod:`.mif` reads, with the axes as in the grid.

    Parameters
    ----------
    values : ndarray, (x, y, z) or (x, y, z, volumes)
        Integers, float32 or float64.
    space : Space
        Grid of the first three axes.
    keys : mapping
        Further lines of the header.

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
        *(f"{key}: {value}" for key, value in keys.items()),
    ]
    text = "\n".join(lines)
    offset = -(-(len(text.encode()) + 64) // 64) * 64  # 64 bytes are enough for the line with the offset and for END
    head = f"{text}\nfile: . {offset}\nEND\n".encode()
    return head.ljust(offset, b"\0") + values.astype(kind, copy=False).tobytes(order="F")
