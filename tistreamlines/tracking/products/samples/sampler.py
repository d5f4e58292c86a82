"""Values of maps along streamlines, as MRtrix3's ``tcksample`` gives them: at each point, and their statistics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import Lock

import numpy as np
import numpy.typing as npt

from ....aliases import Json
from ....errors import InputError
from ....io.images import AnyPath, Tell, grid_of, open_image, silent
from ....io.nifti import load_map
from ....io.trx import member_names
from ....kernels.lanes import MapVolume
from ....kernels.products.samples import GREATEST, LEAST, MEDIAN, NUMBERS, TOTAL, WEIGHT, sample_points
from ....linker.lang import LANES
from ....linker.records import Arguments, spread
from ....option import ImageLike, file_of
from ....space.batch import Batch, of_each
from ...tables.inputs import MapCount, MapImage
from ..batch_work import points_of, program_of, thread_count

Values = npt.NDArray[np.float32]
STATISTICS = ("mean", "median", "min", "max")
ONE_MAP = MapCount(maps=1)


def load_sampled(image: AnyPath, note: Tell = silent) -> MapImage:
    """Read a map that is sampled at points in RASmm.

    Parameters
    ----------
    image : str, Path, InMemory or Opened
        3-D image of any grid, which may be rotated or sheared.
    note : callable
        Receives a message if there are NaN values, which become 0.

    Returns
    -------
    MapImage
        Its values, and the affine from RASmm to its voxels.

    Raises
    ------
    InputError
        If the file is missing or damaged, no 3-D image, or has infinite values.
    """
    opened = open_image(image)
    shape = tuple(opened.image.shape)
    if len(shape) < 3 or any(size > 1 for size in shape[3:]):
        raise InputError(f"{opened.path}: shape {shape}; give a 3-D image, a value for each voxel, to be sampled")
    space = grid_of(*opened, sheared=True)
    return MapImage(load_map(opened, space, note), np.linalg.inv(space.affine))


def unit_of(sampled: MapImage) -> float:
    """Return by how much values of a map are multiplied to be whole numbers, a power of two.

    The greatest value has 30 bits then, so that more than 2^32 streamlines can be summed.
    """
    return 2.0 ** (30 - int(np.frexp(np.abs(sampled.values).max(initial=0))[1]))


def _outside(batch: Batch, sampled: MapImage) -> npt.NDArray[np.bool_]:
    """Return which points of a batch lie outside a map, (p,)."""
    x, y, z = batch.points.T.astype(np.float64)
    outside = np.zeros(len(x), bool)
    for (a, b, c, d), side in zip(sampled.to_grid[:3].tolist(), sampled.values.shape, strict=False):
        place = a * x + b * y + c * z + d
        outside |= (place < -0.5) | (place >= side - 0.5)
    return outside


def names_of(images: Iterable[ImageLike]) -> dict[str, AnyPath]:
    """Return maps by the name of their file, of letters, digits, - and _; a name that is taken gets a number."""
    paths = [file_of(image) for image in images]
    files = (Path(path).name.removesuffix(" (in memory)").removesuffix(".gz") for path in paths)
    return dict(zip(member_names(Path(file).stem for file in files), paths, strict=True))


class Sampler:
    """Samples maps along streamlines, by trilinear interpolation; a value outside a map is 0.

    Parameters
    ----------
    maps : mapping of str to MapImage
        3-D maps by name, see :func:`load_sampled`.
    threads : int, optional
        How many threads sample; by default as many as help.

    Attributes
    ----------
    maps : mapping of str to MapImage
        The maps by name.
    paths : dict of str to path
        Their files by name, if they are known.

    Notes
    -----
    Values depend neither on how streamlines are divided into batches, nor on the number of threads.
    """

    def __init__(self, maps: Mapping[str, MapImage], threads: int | None = None) -> None:
        self._values = {name: spread("map", MapVolume(**sampled.fields())) for name, sampled in maps.items()}
        self.maps, self._unmet, self._used = maps, set(maps), False
        self.paths: dict[str, AnyPath] = {}
        self._threads = thread_count(threads)

    @classmethod
    def of(cls, images: Iterable[ImageLike], threads: int | None = None, note: Tell = silent) -> Sampler:
        """Return what samples images, by the names of their files; ``note`` is that of :func:`load_sampled`."""
        paths = names_of(images)
        sampler = cls({name: load_sampled(path, note) for name, path in paths.items()}, threads)
        sampler.paths = paths
        return sampler

    @property
    def details(self) -> dict[str, str]:
        """Fields of the record: the files of the maps."""
        return {name: str(path) for name, path in self.paths.items()}

    @property
    def doubts(self) -> list[str]:
        """A warning for each map in which no streamline lies, if there were streamlines."""
        return [
            f"{path}: no point of a streamline lies in this map, so all its values are 0: check that it lies in the "
            "space of the streamlines" for name, path in self.paths.items() if self._used and name in self._unmet
        ]

    def per_point(self, batch: Batch) -> dict[str, Values]:
        """Return the values at each point, ``(p,)`` float32, by the name of the map."""
        return self.sample(batch)[0]

    def per_streamline(self, batch: Batch) -> dict[str, Values]:
        """Return the statistics of each streamline, ``(n,)`` float32: ``NAME_mean`` and so on, of STATISTICS.

        The mean weights each point by half the length of the segments on both sides of it. A streamline without points
        has NaN.
        """
        return self.sample(batch)[1]

    def sample(self, batch: Batch) -> tuple[dict[str, Values], dict[str, Values]]:
        """Return what :meth:`per_point` and :meth:`per_streamline` return, at the cost of one of them."""
        self._look(batch)
        points: dict[str, Values] = {}
        streamlines: dict[str, Values] = {}
        for name, sampled in self._values.items():
            points[name], numbers = self._run(batch, sampled)
            mean = numbers[:, TOTAL] / numbers[:, WEIGHT]
            columns = (mean, *(numbers[:, column] for column in (MEDIAN, LEAST, GREATEST)))
            streamlines |= {f"{name}_{which}": column for which, column in zip(STATISTICS, columns, strict=True)}
        return points, streamlines

    def _look(self, batch: Batch) -> None:
        """Note the maps in which a point lies; other threads may look as well."""
        self._used |= len(batch) > 0
        for name in [*self._unmet]:
            if not _outside(batch, self.maps[name]).all():
                self._unmet.discard(name)

    def _run(self, batch: Batch, sampled: Arguments) -> tuple[Values, Values]:
        """Return the value of a map at each point, and the NUMBERS of each streamline."""
        values = np.zeros(len(batch.points) + LANES - 1, np.float32)
        numbers = np.zeros((len(batch), NUMBERS), np.float32)
        arrays = points_of(batch) | {"values": values, "numbers": numbers.ravel()}
        if len(batch):
            program = program_of(sample_points, part=ONE_MAP, threads=self._threads)
            program.run("sample_points", len(batch), sampled | arrays)
        numbers[batch.lengths == 0] = np.nan
        return values[: len(batch.points)], numbers


class SampledMeans:
    """Samples maps along streamlines, and counts the streamlines that leave each of them.

    Parameters
    ----------
    images : 3-D images of any grid.

    Attributes
    ----------
    maps : each of them by its short name, that of its file.
    units : by how much the values of each are multiplied to be whole numbers, powers of two.

    Raises
    ------
    InputError
        If an image is missing or damaged, or no 3-D image.
    """

    def __init__(self, images: Iterable[ImageLike]) -> None:
        self._notes: list[str] = []
        self._sampler = Sampler.of(images, 1, self._notes.append)
        self.maps = self._sampler.maps
        self.units = [unit_of(sampled) for sampled in self.maps.values()]
        self._outside, self._adding = dict.fromkeys(self.maps, 0), Lock()

    def of(self, batch: Batch) -> npt.NDArray[np.int64] | None:
        """Return the mean of each map along each streamline, (n, maps), in units; None without maps."""
        if not self.maps:
            return None
        for name, sampled in self.maps.items():
            left = of_each(np.logical_or, _outside(batch, sampled), batch.offsets)
            with self._adding:
                self._outside[name] += int(left.sum())
        values = self._sampler.per_streamline(batch)
        means = np.stack([values[f"{name}_mean"] for name in self.maps], axis=1).astype(float)
        return np.rint(np.nan_to_num(means) * self.units).astype(np.int64)  # without points, there is no edge either

    @property
    def details(self) -> Json:
        """The maps in the record."""
        return {
            name: {"path": path, "unit": 1 / unit, "streamlines_outside": self._outside[name]}
            for (name, path), unit in zip(self._sampler.details.items(), self.units, strict=True)
        }

    @property
    def doubts(self) -> list[str]:
        """Why the means may be wrong."""
        return self._notes + [
            f"{path}: {self._outside[name]:,} streamlines leave the map, outside which its value counts as 0: check "
            "that it covers all streamlines" for name, path in self._sampler.paths.items() if self._outside[name]
        ]
