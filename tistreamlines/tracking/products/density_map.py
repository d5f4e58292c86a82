"""The density map of a run: its options, its grid, its file and what the record says of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...io import sidecar
from ...io.images import grid_of, open_image
from ...io.maps import write_map
from ...option import OUTPUT, PathLike, option
from ...space.batch import Batch, Space
from ..growth.settings import Settings
from .density import Density, check_size, finer
from .device_density import DeviceDensity

if TYPE_CHECKING:
    from ...option import ImageLike


@dataclass(frozen=True)
class DensityOptions:
    """Options of the map, a part of :class:`tistreamlines.Parameters`."""

    density: PathLike | None = option(
        None, OUTPUT, "Write a map of how many streamlines pass through each voxel, .nii or .nii.gz. A streamline "
        "counts once in each voxel that it passes. Without --output, only the map is written, and no streamline is "
        "kept.", unit="FILE", absent="not written", affects="run",
    )  # fmt: skip
    density_voxel: float | None = option(
        None, OUTPUT, "Side of the voxels of --density. They cover the image that is tracked, along its axes.",
        unit="mm", low=0, above=True, absent="the voxels of the image that is tracked", requires=("density",),
        excludes=("density_grid",), affects="run",
    )  # fmt: skip
    density_grid: ImageLike | None = option(
        None, OUTPUT, "Image whose grid --density has; it may be rotated or sheared.", unit="FILE",
        absent="that of the image that is tracked", requires=("density",), excludes=("density_voxel",), affects="run",
    )  # fmt: skip


class DensityMap:
    """Counts the streamlines of a run in each voxel, and writes the map; see :class:`.files.ProductFile`.

    Parameters
    ----------
    options : its options.
    space : grid of the series, or of the orientations.
    step_mm : step size, mm.
    threads : how many threads count on the host; None for as many as help.
    """

    def __init__(self, options: DensityOptions, space: Space, step_mm: float, threads: int | None = None) -> None:
        if options.density_grid is not None:
            space = grid_of_map(options.density_grid)
        elif options.density_voxel is not None:
            space = finer(space, options.density_voxel)
        assert options.density is not None
        self._path, self._density = Path(options.density), Density(space, step_mm, threads)
        self.paths = (self._path,)
        self._step_mm = step_mm
        self._device: DeviceDensity | None = None
        self.value: npt.NDArray[Any] = np.zeros((0, 0, 0), np.int32)
        self.told: dict[str, Any] = {}
        self.doubts: tuple[str, ...] = ()

    def add(self, batch: Batch) -> None:
        """Count the streamlines of a batch on the host."""
        self._density.add(batch)

    def collector(self, space: Space, settings: Settings) -> DeviceDensity | None:
        """Have the devices that track count; return None if they lack the memory."""
        made = DeviceDensity(space, self._density.space, self._step_mm, 2 * settings.max_steps)
        self._device = made if made.fits(settings.memory_limit) else None
        return self._device

    def write(self, *, force: bool) -> None:
        """Wait until all streamlines are counted, and write the map."""
        if self._device is not None and len(self._device.total):
            self._density.add_counts(self._device.total)
        self.value, space = self._density.counts(), self._density.space
        write_map(self._path, self.value, space, force=force)
        self.told = {
            "path": str(self._path), "sha256": sidecar.sha256(self._path), "shape": space.shape, "affine": space.affine,
        }  # fmt: skip


def blank(space: Space, settings: Settings) -> DeviceDensity:
    """Return what counts on any grid: the kernels are the same on all."""
    return DeviceDensity(space, space, settings.step_mm, 2 * settings.max_steps)


def check(options: DensityOptions) -> None:
    """Open the image whose grid the map has: an error of a small file comes before the work."""
    if options.density_grid is not None:
        grid_of_map(options.density_grid)


def grid_of_map(image: Any) -> Space:
    """Return the grid of any image of three axes or more, which may be rotated or sheared."""
    path, opened = open_image(image)
    if len(opened.shape) < 3:
        raise InputError(f"{path}: has {len(opened.shape)} axes; give one of three for the density map's grid")
    space = grid_of(path, opened, sheared=True)
    check_size(space)
    return space
