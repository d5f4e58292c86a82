"""Writing of fixels as MRtrix3's folder of images.

``index`` has for each voxel how many fixels it has and the number of the first one. Other images have a row for each
fixel: ``directions`` a unit vector along the scanner's axes (RAS), others a number.

References
----------
https://mrtrix.readthedocs.io/en/3.0.3/fixel_based_analysis/fixel_directory_format.html
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..aliases import Array
from ..errors import OutputError
from ..space.batch import Space
from .drafts import check_target, explained, hidden_folder
from .maps import map_content

FORMATS = ("mif", "nii", "nii.gz")
INDEX, DIRECTIONS = "index", "directions"  # images whose names MRtrix3 knows
COUNT = "nfixels"  # key in the header of the index


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
        If the folder has other files, or another format of an image whose name MRtrix3 knows.
    """
    if not folder.exists():
        if not folder.name:
            raise OutputError(f"{folder}: is no name of a folder; name one")
        check_target(folder, force=force)
        return
    if not folder.is_dir():
        raise OutputError(f"{folder}: is a file, but fixels are a folder of images; give another name")
    with explained(folder):
        there = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    if there and not force:
        raise OutputError(f"{folder}: is not empty; give another name, or --force to replace fixels there")
    known = {f"{name}.{other}" for name in (INDEX, DIRECTIONS) for other in FORMATS if other != suffix}
    if both := sorted(there & known):
        raise OutputError(f"{folder}: has {both[0]}, beside which programs would not know the right one; remove it")
    for name in names:
        check_target(folder / f"{name}.{suffix}", force=force)


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
