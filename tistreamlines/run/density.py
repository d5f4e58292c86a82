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
from ..options.parameters import Parameters
from ..space.batch import Space
from ..tracking.engine.settings import Settings
from ..tracking.products.density import Density, check_size, finer
from ..tracking.products.device_density import DeviceDensity
from ..tracking.products.products import Product


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
    device : counts the streamlines where they grow, if no points are asked for.
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
        self._step_mm = step_mm
        self.device: DeviceDensity | None = None
        self.counts: npt.NDArray[Any] = np.zeros((0, 0, 0), np.int32)
        self.told: dict[str, Any] = {}

    def on_device(self, space: Space, settings: Settings) -> DeviceDensity | None:
        """Have the map counted on the devices that track; return what they make, None if they lack the memory."""
        made = DeviceDensity(space, self._density.space, self._step_mm, 2 * settings.max_steps)
        self.device = made if made.fits(settings.memory_limit) else None
        return self.device

    def write(self, *, force: bool) -> None:
        """Wait until all streamlines are counted, and write the map."""
        if self.device is not None and len(self.device.total):
            self._density.add_counts(self.device.total)
        self.counts, space = self._density.counts(), self._density.space
        write_map(self.path, self.counts, space, force=force)
        self.told = {
            "path": str(self.path), "sha256": sidecar.sha256(self.path), "shape": space.shape, "affine": space.affine,
        }  # fmt: skip


def map_of(parameters: Parameters, space: Space) -> DensityMap | None:
    """Return the map that the options ask for."""
    if parameters.density is None:
        return None
    return DensityMap(
        parameters.density, space, parameters.step_mm(space.voxel_sizes), voxel_mm=parameters.density_voxel,
        grid=parameters.density_grid, threads=parameters.threads,
    )  # fmt: skip


def products_of(mapped: DensityMap | None, space: Space, settings: Settings) -> list[Product]:
    """Return what devices make in place of points where a map is all that is asked for; nothing, if the host counts."""
    made = None if mapped is None else mapped.on_device(space, settings)
    return [] if made is None else [made]


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
