"""The density map of a run, and that of the ends: their options, grid and files, and what the record says of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ....aliases import Array
from ....backends.program import Program
from ....errors import InputError, ParameterError
from ....io import sidecar
from ....io.images import AnyPath, grid_of, open_image
from ....io.maps import write_map
from ....io.tables import load_weights
from ....option import OUTPUT, ImageLike, PathLike, file_of, option
from ....space.batch import Batch, Space
from ...growth.settings import Settings, bytes_of
from ..files import SIFT2, ProductFile, check_weights
from ..grid import check_size, finer
from ..samples.sampler import load_sampled
from .density import Density, DeviceDensity, DeviceEnds, Ends, check_memory

MAPS = ("density", "ends")
KINDS = ("count", "direction", "length", "mean-length", "sample")
ENDS = "ends"  # kind of the map of --ends
COUNTS = {"count": (Density, DeviceDensity), ENDS: (Ends, DeviceEnds)}  # what counts on the host, and on a device


@dataclass(frozen=True, repr=False, eq=False)
class DensityOptions:
    """Options of the map, a part of :class:`tistreamlines.Parameters`; its grid is that of all maps."""

    density: PathLike | None = option(
        None, OUTPUT, "Write a map of how many streamlines pass through each voxel, .nii or .nii.gz. A streamline "
        "counts once in each voxel that it passes. Without --output, only maps are written.", unit="FILE",
        absent="not written", affects="run",
    )
    density_voxel: float | None = option(
        None, OUTPUT, "Side of the voxels of --density and --ends. They cover the image that is tracked, along its "
        "axes.", unit="mm", low=0, above=True, absent="the voxels of the image that is tracked", needs_one=MAPS,
        excludes=("density_grid",), affects="run",
    )
    density_grid: ImageLike | None = option(
        None, OUTPUT, "Image whose grid --density and --ends have; it may be rotated or sheared.", unit="FILE",
        absent="that of the image that is tracked", needs_one=MAPS, excludes=("density_voxel",), affects="run",
    )
    density_kind: str = option(
        "count", OUTPUT, "Values of --density: the count of the streamlines that pass a voxel, their mean direction "
        "as three colours, their length within the voxel (mm), the mean length of these streamlines (mm), or the mean "
        "of a sampled map along them.", choices=KINDS, requires=("density",), affects="run",
    )
    density_sample: ImageLike | None = option(
        None, OUTPUT, "Map that is sampled along streamlines for --density-kind sample, on any grid.", unit="FILE",
        absent="none", requires=("density", "density_kind"), affects="run",
    )


@dataclass(frozen=True, repr=False, eq=False)
class EndsOptions:
    """The option that names the map, a part of :class:`tistreamlines.Parameters`."""

    ends: PathLike | None = option(
        None, OUTPUT, "Write a map of how many streamlines end in each voxel, .nii or .nii.gz. Both ends of a "
        "streamline count. Without --output, only maps are written.", unit="FILE", absent="not written", affects="run",
    )


@dataclass(frozen=True, repr=False, eq=False)
class MapOptions(EndsOptions, DensityOptions):
    """Options of all maps."""


@dataclass(frozen=True, repr=False, eq=False)
class DensityInputs(MapOptions):
    """Options of all maps, and those of a run that maps read."""

    weights: str | None = None
    sift2: object = None
    memory_limit: float | None = None


class CountMap(ProductFile):
    """Counts in each voxel, and writes the map.

    Parameters
    ----------
    path : file of the map.
    kind : one of KINDS, or ENDS.
    options : of all maps.
    space : grid of the series, or of the orientations.
    step_mm : step size, mm.
    threads : how many threads count on the host; None for as many as help.
    """

    def __init__(
        self, path: PathLike | None, kind: str, options: DensityInputs, space: Space, step_mm: float,
        threads: int | None = None,
    ) -> None:
        if options.density_grid is not None:
            space = grid_of_map(file_of(options.density_grid))
        elif options.density_voxel is not None:
            space = finer(space, options.density_voxel)
        assert path is not None
        super().__init__(Path(path))
        self._kind, self._options, self._step_mm = kind, options, step_mm
        self._density = _density(kind, options, space, step_mm, threads)
        check_memory(space, self._density.voxel_bytes, bytes_of(options.memory_limit))
        self._device: DeviceDensity | None = None
        self.value: Array = np.zeros((0, 0, 0), np.int32)
        images = [str(image) for image in (options.density_grid, options.density_sample) if image is not None]
        self._places = " and ".join(images) or "its grid"

    def take_weights(self, weights: npt.NDArray[np.float64]) -> None:
        """Sum weighted streamlines."""
        self._density.take_weights(weights)

    def move_to(self, program: Program) -> None:
        """Have points counted with this program; other kinds of maps stay on the host."""
        self._density.move_to(program)

    def add(self, batch: Batch) -> None:
        """Count the streamlines of a batch, on the host unless the kernels were moved."""
        self._density.add(batch)

    def collector(self, space: Space, settings: Settings) -> DeviceDensity | None:
        """Have the devices that track count; return None if they lack the memory, or if the map needs points."""
        if (kind := collector_of(self._kind, self._options)) is None:
            return None
        device = kind(space, self._density.space, self._step_mm, 2 * settings.max_steps)
        self._device = device if device.fit(settings.memory_limit) else None
        return self._device

    def write(self, *, force: bool) -> None:
        """Wait until all streamlines are counted, and write the map."""
        if self._device is not None and len(self._device.total):
            self._density.add_counts(self._device.total)
        self.value, space, (path,) = self._density.values(), self._density.space, self.paths
        write_map(path, self.value, space, force=force)
        if not self.value.any():
            self.nowhere = (
                f"{path}: is 0 everywhere, though there are streamlines: check that {self._places} lies in their space"
            )
        self.details = sidecar.file_record(path) | {"shape": space.shape, "affine": space.affine}
        if self._kind != ENDS:
            self.details["kind"] = self._kind


def _density(kind: str, options: DensityInputs, space: Space, step_mm: float, threads: int | None) -> Density:
    """Return what the host counts with."""
    if kind in COUNTS and options.weights is None:
        return COUNTS[kind][0](space, step_mm, threads)
    from .kinds import SUMS, CountOfEnds

    sums = CountOfEnds if kind == ENDS else SUMS[kind]
    sampled = None
    if kind == "sample" and options.density_sample is not None:
        sampled = load_sampled(file_of(options.density_sample))
    known = None if options.weights in (None, SIFT2) else load_weights(options.weights)
    return sums(space, step_mm, threads, sampled, options.weights is not None, known)


def collector_of(kind: str, options: DensityInputs) -> type[DeviceDensity] | None:
    """Return what counts where streamlines are tracked; None if a map of this kind needs points."""
    return None if kind not in COUNTS or options.weights is not None else COUNTS[kind][1]


def density_map(options: DensityInputs, space: Space, step_mm: float, threads: int | None = None) -> CountMap:
    """Return the map of --density, of any kind."""
    check_sample(options)
    return CountMap(options.density, options.density_kind, options, space, step_mm, threads)


def ends_map(options: DensityInputs, space: Space, step_mm: float, threads: int | None = None) -> CountMap:
    """Return the map of --ends."""
    return CountMap(options.ends, ENDS, options, space, step_mm, threads)


def check(options: DensityInputs) -> None:
    """Open the images that maps need: an error of a small file comes before the work."""
    if options.density_grid is not None:
        grid_of_map(file_of(options.density_grid))
    check_weights(options.weights, options.sift2)
    check_sample(options)
    if options.density_sample is not None:
        load_sampled(file_of(options.density_sample))


def check_sample(options: MapOptions) -> None:
    """Check that there is a map to sample if the kind of map needs one."""
    if (options.density_kind == "sample") != (options.density_sample is not None):
        raise ParameterError("--density-kind sample and --density-sample belong together: give both or neither")


def grid_of_map(image: AnyPath) -> Space:
    """Return the grid of any image of three axes or more, which may be rotated or sheared."""
    path, opened = open_image(image)
    if len(opened.shape) < 3:
        raise InputError(f"{path}: has {len(opened.shape)} axes; give one of three for the density map's grid")
    space = grid_of(path, opened, sheared=True)
    check_size(space)
    return space
