"""Drop-in for cuslines' tracker, on arrays in memory.

Code written for cuslines changes one import::

    from tistreamlines import BootDirectionGetter, Tracker

Units are cuslines': seeds in voxel coordinates (centre of voxel = integer), angles in **radians**, steps in **voxels**.
What comes out is in RASmm.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..backends.devices import choose
from ..engine.engine import Engine
from ..engine.settings import Settings
from ..errors import ParameterError
from ..io.tractogram import Batch, Space
from ..methods import threshold
from ..methods.given import Given, Prepared
from ..methods.rows import touched
from ..run import containers
from ..run.parameters import Parameters
from . import arrays
from .direction_getters import BootDirectionGetter, DirectionGetter, Geometry, ProbDirectionGetter, PttDirectionGetter

if TYPE_CHECKING:
    from dipy.io.stateful_tractogram import StatefulTractogram
    from trx.trx_file_memmap import TrxFile

__all__ = ["BootDirectionGetter", "ProbDirectionGetter", "PttDirectionGetter", "Tracker"]
Array = npt.NDArray[Any]


class Tracker:
    """Tracks from seeds, with the arguments of cuslines' tracker.

    A context manager, though it need not be used as one: the end of the block frees the tables.

    Parameters
    ----------
    dg : BootDirectionGetter, ProbDirectionGetter or PttDirectionGetter
    dataf : (x, y, z, n), what the getter works on
        For boot the diffusion series in the order of the gradient table, else a PMF or ODF at the vertices.
    stop_map : (x, y, z); streamlines go on where it is above ``stop_threshold``.
    sphere_vertices : (v, 3), sphere_edges : (e, 2)
        Of the sphere, the direction getter's if it has one.
    sphere_symm : on a whole sphere, whether a direction stands for its opposite too; if not, opposite directions are
        kept apart.  On half a sphere it does in any case, and so it does for boot.
    max_angle : greatest angle between two steps, radians.
    step_size : step length in voxels: in an image of unequal sides, in smallest ones.
    min_pts, max_pts : streamlines of fewer or more points are dropped; so are those of one point.
    relative_peak_thresh : peaks lower than this share of the ODF's range are left out.
    min_separation_angle : a peak closer than this to a higher one is left out, radians.
    ngpus : 1. A tracker works on one device: to use more, start a process for each.
    rng_seed : RNG seed for tracking.
    rng_offset : number of the first seed, by which the draws are counted: ``seeds[k:]`` with an offset of ``k`` gives
        the streamlines that these seeds give among all.
    chunk_size : seeds at a time; changes no result. None for what fits the device.
    arch : 'auto', 'cuda', 'metal', 'vulkan' or 'cpu'; no other one takes the place of the one named.
    exact : the same bits on every device; False lets the compiler reorder arithmetic.
    threads : CPU threads, None for all cores.
    memory_limit : GB of device memory to use at most, None for what is free.
    max_steps : most steps each way from the seed.

    Raises
    ------
    TrackingError
        If an argument or an array is wrong, or the device cannot be used.
    """

    def __init__(
        self, dg: DirectionGetter, dataf: Array, stop_map: Array, stop_threshold: float, sphere_vertices: Array,
        sphere_edges: Array, sphere_symm: bool = False, max_angle: float = math.radians(60), step_size: float = 0.5,
        min_pts: float = 0, max_pts: float = math.inf, relative_peak_thresh: float = 0.25,
        min_separation_angle: float = math.radians(45), ngpus: int = 1, rng_seed: int = 0, rng_offset: int = 0,
        chunk_size: int | None = None, *, arch: str = "auto", exact: bool = True, threads: int | None = None,
        memory_limit: float | None = None, max_steps: int = 500,
    ) -> None:  # fmt: skip
        arrays.getter(dg)
        if ngpus != 1:
            raise ParameterError(
                f"ngpus is {ngpus}: a tracker works on one device; start a process for each GPU, "
                "with a part of the seeds and rng_offset=number of its first seed"
            )
        if not 0 <= min_pts <= max_pts:
            raise ParameterError(f"min_pts is {min_pts}, max_pts {max_pts}: give 0 <= min_pts <= max_pts")
        if not 0 <= rng_offset < 2**32:
            raise ParameterError(f"rng_offset is {rng_offset}: give a number from 0 to 2**32 - 1")
        self.parameters = Parameters(
            dg=dg.name, max_angle=arrays.degrees("max_angle", max_angle), step_size=f"{float(step_size)!r}vox",
            min_separation_angle=arrays.degrees("min_separation_angle", min_separation_angle), max_steps=max_steps,
            relative_peak_threshold=relative_peak_thresh, chunk_size=chunk_size, arch=arch, exact=exact,
            threads=threads, memory_limit=memory_limit, rng_seed=rng_seed,
        )  # fmt: skip
        self.dg, self.stop_threshold, self.rng_offset = dg, float(stop_threshold), int(rng_offset)
        self._points = (min_pts, max_pts)
        self.dataf, self.stop_map = arrays.volumes(dataf, stop_map)
        self.sphere = dg.sphere_tables(self.dataf, sphere_vertices, sphere_edges)
        self.symmetric = dg.symmetric(self.sphere[0], bool(sphere_symm))
        self.device = choose(arch)
        self._prepared: tuple[tuple[Geometry, Parameters], npt.NDArray[np.bool_], Prepared] | None = None
        self.set_compression_parameters()

    def __enter__(self) -> Tracker:
        """Return the tracker."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Free the tables."""
        self._prepared = None

    def set_compression_parameters(
        self, pos_dtype: npt.DTypeLike = np.float32, linearize: bool = False, tol_error: float = 0.1,
        max_segment_length: float = 10,
    ) -> None:  # fmt: skip
        """Say how `generate_trx` stores points.

        Parameters
        ----------
        pos_dtype : float16 or float32.
        linearize : leave out points that lie on a line between others (DIPY's compress_streamlines).
        tol_error, max_segment_length : of that, in mm.
        """
        self._packing = containers.Packing(np.dtype(pos_dtype), linearize, tol_error, max_segment_length)

    def generate_sft(self, seeds: npt.ArrayLike, ref_img: Any = None) -> StatefulTractogram:
        """Track, and hold all streamlines in memory.

        Parameters
        ----------
        seeds : (n, 3), voxel; centre of voxel = integer.
        ref_img : image, or anything DIPY takes as a reference, on the grid of the data; it has to be given.

        Returns
        -------
        StatefulTractogram
            In RASmm (cuslines' is in voxels: ``to_vox()``), with ``seeds`` (RASmm), ``seed_number``,
            ``direction_number`` and ``stop_reasons`` of both ends (:class:`tistreamlines.Stop`) for each streamline.
        """
        with closing(self.batches(seeds, ref_img)) as batches:  # type: ignore[type-var]
            return containers.tractogram(batches, ref_img)

    def generate_trx(self, seeds: npt.ArrayLike, ref_img: Any = None) -> TrxFile:
        """Track into a temporary file, so that memory is bounded by a chunk.

        Parameters
        ----------
        seeds, ref_img : as for `generate_sft`.

        Returns
        -------
        TrxFile
            Mapped from the file, which goes when the TrxFile is closed; data per streamline as in `generate_sft`.
        """
        space = arrays.space_of(ref_img, self.stop_map.shape)
        with closing(self.batches(seeds, ref_img)) as batches:  # type: ignore[type-var]
            return containers.mapped_trx(batches, space, self._packing)

    def batches(self, seeds: npt.ArrayLike, ref_img: Any = None) -> Iterator[Batch]:
        """Track as batches are taken; arguments as for `generate_sft`."""
        space = arrays.space_of(ref_img, self.stop_map.shape)
        points = arrays.seed_points(seeds, space)
        return self._grow(points, space)

    def _grow(self, seeds: npt.NDArray[np.float64], space: Space) -> Iterator[Batch]:
        # An engine for each call: each has buffers of its own, so calls may go on side by side.
        engine = Engine(self._tables(seeds, space), space, self.device, self._settings(space))
        yield from engine.track(seeds, self.rng_offset)

    def _settings(self, space: Space) -> Settings:
        chosen = self.parameters
        fewest, most = self._points  # one more than steps
        return Settings(
            step_mm=chosen.step_mm(space.voxel_sizes), max_steps=chosen.max_steps, fewest_steps=math.ceil(fewest) - 1,
            most_steps=None if most == math.inf else math.floor(most) - 1,
            rng_seed=chosen.rng_seed, exact=chosen.exact, threads=chosen.threads, chunk_size=chosen.chunk_size,
            memory_limit=None if chosen.memory_limit is None else int(chosen.memory_limit * 1e9),
        )  # fmt: skip

    def _tables(self, seeds: npt.NDArray[np.float64], space: Space) -> Prepared:
        """Tables that hold all voxels these seeds can reach; made once, as long as these do."""
        sides = tuple(float(side) for side in space.voxel_sizes)
        axes = tuple(tuple(float(cosine) for cosine in row) for row in space.axes)
        geometry = Geometry(sides, self.symmetric, axes, self.stop_map >= self.stop_threshold)
        parameters = replace(self.parameters, **self.dg.options(geometry))
        stop = threshold.of_map(self.stop_map, self.stop_threshold)
        reach, key = touched(stop.alive, seeds, self.stop_map.shape), (geometry, parameters)
        if self._prepared is not None and self._prepared[0] == key and not (reach & ~self._prepared[1]).any():
            return self._prepared[2]
        self._prepared = None
        follows, step_mm = self.dg.follow(self.dataf, geometry), parameters.step_mm(sides)
        prepared = self.dg.prepare(Given(follows, stop, seeds, self.sphere, step_mm, sides), parameters)
        self._prepared = key, reach, prepared
        return prepared
