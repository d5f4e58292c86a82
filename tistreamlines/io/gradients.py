"""A series that is given without its gradients: files beside it, or what the image seems to be instead."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from ..aliases import Array
from ..errors import InputError
from ..option import flag
from ..space.harmonics import order_of
from .images import existing, open_image, read_array
from .stored import Image

SIGNED = 0.2  # of the values: so many of harmonics and peaks are negative, and hardly any of signals


# names of the files, after that of the series or alone in its folder: those of converters, of FSL, and of its eddy
NAMES = {
    "b-values": ("{}.bval", "{}.bvals", "bvals"),
    "directions": ("{}.bvec", "{}.bvecs", "{}.eddy_rotated_bvecs", "bvecs"),
}


def gradients_beside(dwi: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Find the gradients of a series in its folder, by their names.

    Parameters
    ----------
    dwi : str or Path
        File of the series.

    Returns
    -------
    bvals, bvecs : Path
        Files in FSL's format.

    Raises
    ------
    InputError
        If there are none, or several that differ; the message says what the file seems to be instead.
    """
    if Path(dwi).is_dir() and any(Path(dwi).glob("merged_th1samples*")):
        raise InputError(f"{dwi}: is a folder of bedpostX: give it as {flag('bedpostx')} {dwi}")
    path = existing(dwi)
    stem = path.name.removesuffix(".gz").rpartition(".")[0] or path.name
    taken = {}
    for what, names in NAMES.items():
        files = [file for name in names if (file := path.parent / name.format(stem)).is_file()]
        others = [file for file in files[1:] if file.read_bytes() != files[0].read_bytes()]
        if others:
            raise InputError(
                f"{path}: {files[0].name} and {others[0].name} beside it differ: give BVALS and BVECS after DWI"
            )
        taken[what] = files[0] if files else None
    bvals, bvecs = taken.values()
    if bvals is not None and bvecs is not None:
        return bvals, bvecs
    missing = next(what for what, file in taken.items() if file is None)
    kind = other_kind(*open_image(path)) if bvals is bvecs else ""
    wanted = " or ".join(name.format(stem) for name in NAMES[missing])
    raise InputError(
        f"{path}: {kind or f'its {missing} are not beside it ({wanted}): give BVALS and BVECS after DWI'}"
    )


def other_kind(path: Path, image: Image) -> str:
    """Say so if an image holds harmonics or peaks, which another option takes.

    Parameters
    ----------
    path : Path
        The file.
    image : nibabel image or StoredImage
        What was opened.

    Returns
    -------
    str
        What the image looks like and what to do, or nothing.
    """
    count = int(np.prod(image.shape[3:], dtype=int))
    try:
        order = order_of(count)
    except ValueError:
        order = 0
    if order == 0 and count % 3:
        return ""
    values = np.nan_to_num(read_array(path, image)).reshape(-1, count)
    values = values[values.any(axis=1)]
    if order and (values[:, 0] > 0).sum() > len(values) / 2 and _are_signed(values[:, 1:]):
        return f"these look like FODs, {count} coefficients of order {order}: give them as {flag('sh')} {path}"
    if count % 3 == 0 and all(_are_signed(values[:, axis::3]) for axis in range(3)):
        return f"these look like peaks, {count // 3} a voxel: give them as {flag('peaks')} {path}"
    return ""


def _are_signed(values: Array) -> bool:
    return (values < 0).sum() > SIGNED * np.count_nonzero(values)
