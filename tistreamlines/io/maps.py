"""Writing of maps as NIfTI; a file appears only when it is complete."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy.typing as npt

from ..space.batch import Space
from .writer import completed

SUFFIXES = (".nii.gz", ".nii")
LEVEL = 4  # of gzip: for maps of counts, 9 takes several times as long and saves a few per cent


def write_map(path: Path, values: npt.NDArray[Any], space: Space, *, force: bool) -> None:
    """Write a map as NIfTI; the same values have the same bytes at any time and under any name.

    Parameters
    ----------
    path : Path
        Name ending in .nii or .nii.gz.
    values : ndarray, (x, y, z) or (x, y, z, volumes)
        Integers or float32.
    space : Space
        Grid of the map.
    force : bool
        Replace an existing file.

    Raises
    ------
    OutputError
        If the file exists and ``force`` is false, or if it cannot be written.
    """
    import nibabel as nib

    image = nib.Nifti1Image(values, space.affine, dtype=values.dtype)
    image.header.set_xyzt_units("mm")
    content = image.to_bytes()
    with completed(path, force=force) as draft:
        # the header of gzip would name the file and the hour
        draft.write_bytes(gzip.compress(content, LEVEL, mtime=0) if path.suffix.lower() == ".gz" else content)
