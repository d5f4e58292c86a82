"""The density map of a run: its grid, its file and what the record says of it."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..io import sidecar
from ..io.images import grid_of, open_image
from ..io.maps import suffix_of, write_map
from ..space.batch import Space
from ..tracking.products.density import Density, check_size, finer


class DensityMap:
    """Counts the streamlines of a run in each voxel, and writes the map.

    Parameters
    ----------
    path : the map, .nii or .nii.gz.
    space : grid of the series, or of the orientations.
    step_mm : step size, mm.
    voxel_mm : side of the voxels, if they are other than those of ``space``.
    grid : image whose grid the map has instead.
    threads : how many threads count; None for as many as help.

    Attributes
    ----------
    counts : the map, (x, y, z), once it is written.
    told : what the record says of it, once it is written.
    """

    def __init__(
        self, path: str | PathLike[str], space: Space, step_mm: float, *, voxel_mm: float | None = None,
        grid: Any = None, threads: int | None = None,
    ) -> None:  # fmt: skip
        if grid is not None:
            space = grid_of_map(grid)
        elif voxel_mm is not None:
            space = finer(space, voxel_mm)
        self.path, self._density = Path(path), Density(space, step_mm, threads)
        self.add = self._density.add
        self.counts: npt.NDArray[Any] = np.zeros((0, 0, 0), np.int32)
        self.told: dict[str, Any] = {}

    def write(self, *, force: bool) -> None:
        """Wait until all batches are counted, and write the map."""
        self.counts, space = self._density.counts(), self._density.space
        write_map(self.path, self.counts, space, force=force)
        self.told = {
            "path": str(self.path), "sha256": sidecar.sha256(self.path), "shape": space.shape, "affine": space.affine,
        }  # fmt: skip


def grid_of_map(image: Any) -> Space:
    """Return the grid of any image of three axes or more, which may be rotated or sheared."""
    path, opened = open_image(image)
    if len(opened.shape) < 3:
        raise InputError(f"{path}: has {len(opened.shape)} axes; give one of three for the density map's grid")
    space = grid_of(path, opened, sheared=True)
    check_size(space)
    return space


def record_path(output: Path | None, density: Path | None) -> Path | None:
    """Return the name of the record of a run: beside the tractogram, or without one beside the density map."""
    if output is not None or density is None:
        return None if output is None else sidecar.sidecar_path(output)
    return density.with_name(density.name.removesuffix(suffix_of(density)) + ".json")
