"""A tracker with the arguments of cuslines' tracker, for arrays in memory.

Code written for cuslines needs one other import::

    from tistreamlines.cuslines import BootDirectionGetter, Tracker

Units are those of cuslines: seeds in voxel coordinates (centre of voxel = integer), angles in **radians**, steps in
**voxels**. The streamlines of :class:`Tracker` are in RASmm; those of the one in ``tistreamlines.cuslines``, which
extends it, are in voxels too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from ..aliases import Array, StatefulTractogram
from ..devices import choose, choose_several
from ..errors import ParameterError
from ..options.parameters import Parameters
from ..run import containers
from ..run.setup import settings_of
from ..space.batch import Batch, Space
from ..tracking.growth.settings import Settings
from ..tracking.products.points.compression import compress_batch
from ..tracking.stopping import threshold
from ..tracking.tables.inputs import GetterInputs, KernelTables
from ..tracking.tables.rows import voxels_in_reach
from ..workers.session import Session
from . import arrays
from .direction_getters import BootDirectionGetter, DirectionGetter, ProbDirectionGetter, PttDirectionGetter

if TYPE_CHECKING:
    from trx.trx_file_memmap import TrxFile

__all__ = ["BootDirectionGetter", "ProbDirectionGetter", "PttDirectionGetter", "Tracker"]


@dataclass(eq=False, repr=False)
class Tracker:
    """Track streamlines from seeds, with the arguments of cuslines' tracker.

    A tracker can be used as a context manager, which frees its tables at the end of the block.

    Parameters
    ----------
    dg : BootDirectionGetter, ProbDirectionGetter or PttDirectionGetter
        Direction getter.
    dataf : array_like, (x, y, z, n)
        For boot, the diffusion series in the order of the gradient table; otherwise the PMF or ODF of each voxel at
        the sphere's vertices, or its coefficients if the direction getter has a basis.
    stop_map : array_like, (x, y, z)
        Streamlines end where this map is at or below ``stop_threshold``.
    stop_threshold : float
        Threshold, in the unit of ``stop_map``.
    sphere_vertices : array_like, (v, 3)
        Unit vectors: the vertices of the sphere, which is that of the direction getter if it has one.
    sphere_edges : array_like, (e, 2)
        Pairs of vertex indices.
    sphere_symm : bool
        Whether the orientation function has the same value in opposite directions. If False, they are kept apart on a
        whole sphere. Boot and half a sphere are always symmetric.
    max_angle : float
        Greatest angle between two steps, radians.
    step_size : float
        Step size in voxels (in the smallest voxel side if the sides differ).
    min_pts, max_pts : float
        Streamlines with fewer or more points, or with one point, are dropped.
    relative_peak_thresh : float
        Peaks below this share of the ODF's range (greatest minus least value) are ignored.
    min_separation_angle : float
        Peaks closer than this to a higher peak are ignored, radians.
    ngpus : int
        Number of GPUs that share the seeds, the first ones of the arch. They do not change the result.
    rng_seed : int
        RNG seed for tracking.
    rng_offset : int
        Number of the first seed, from which its random numbers are counted. ``seeds[k:]`` with ``rng_offset=k`` gives
        the same streamlines as these seeds in a run of all seeds.
    chunk_size : int or None
        Number of seeds tracked at a time, which does not change the result. None is as many as fit the device.
    arch : str
        'auto', 'metal', 'cuda', 'amdgpu', 'vulkan' or 'cpu'. If the requested arch is unavailable, the tracker is not
        made.
    exact : bool
        True gives the same bits on every device; False lets the compiler reorder arithmetic.
    threads : int or None
        Number of CPU threads; None is one per core.
    memory_limit : float or None
        Device memory to use at most, GB. None is half of the free memory; on the CPU, no limit.
    max_steps : int
        Greatest number of steps in each direction from the seed.

    Raises
    ------
    InputError
        If an array has the wrong type, shape or values.
    ParameterError
        If another argument is out of bounds, or does not go with the others.
    DeviceError
        If the device cannot be used.

    Examples
    --------
    >>> import nibabel as nib
    >>> import numpy as np
    >>> from dipy.data import default_sphere
    >>> from tistreamlines.cuslines.tracker import ProbDirectionGetter, Tracker
    >>> odf = np.tile(default_sphere.vertices[:, 0] ** 20, (20, 5, 5, 1))  # fibres along x
    >>> image = nib.Nifti1Image(np.ones((20, 5, 5)), np.diag([2, 2, 2, 1]))
    >>> with Tracker(
    ...     ProbDirectionGetter(), odf, image.get_fdata(), 0.2, default_sphere.vertices, default_sphere.edges,
    ...     max_angle=np.radians(30), arch="cpu",
    ... ) as tracker:
    ...     sft = tracker.generate_sft([[10, 2, 2]], image)
    >>> len(sft), sft.space.value
    (1, 'rasmm')
    """

    dg: DirectionGetter
    dataf: Array
    stop_map: Array
    stop_threshold: float
    sphere_vertices: Array
    sphere_edges: Array
    sphere_symm: bool = False
    max_angle: float = math.radians(60)
    step_size: float = 0.5
    min_pts: float = 0
    max_pts: float = math.inf
    relative_peak_thresh: float = 0.25
    min_separation_angle: float = math.radians(45)
    ngpus: int = 1
    rng_seed: int = 0
    rng_offset: int = 0
    chunk_size: int | None = None
    _: KW_ONLY
    arch: Literal["auto", "metal", "cuda", "amdgpu", "vulkan", "cpu"] = "auto"
    exact: bool = True
    threads: int | None = None
    memory_limit: float | None = None
    max_steps: int = 500

    def __post_init__(self) -> None:
        _check_getter(self.dg)
        if self.ngpus < 1:
            raise ParameterError(f"ngpus is {self.ngpus}: give the number of GPUs, 1 or more")
        if not 0 <= self.min_pts <= self.max_pts:
            raise ParameterError(
                f"min_pts is {self.min_pts} and max_pts is {self.max_pts}: give 0 <= min_pts <= max_pts"
            )
        if not 0 <= self.rng_offset < 2**32:
            raise ParameterError(f"rng_offset is {self.rng_offset}: give a number from 0 to 2**32 - 1")
        self.parameters = Parameters(
            dg=self.dg.name, like="dipy", max_angle=arrays.to_degrees("max_angle", self.max_angle),
            step_size=f"{float(self.step_size)!r}vox",
            min_separation_angle=arrays.to_degrees("min_separation_angle", self.min_separation_angle),
            relative_peak_threshold=self.relative_peak_thresh, max_steps=self.max_steps, chunk_size=self.chunk_size,
            exact=self.exact, threads=self.threads, memory_limit=self.memory_limit, rng_seed=self.rng_seed,
            arch=self.arch,
        )
        self.stop_threshold, self.rng_offset = float(self.stop_threshold), int(self.rng_offset)
        self.dataf, self.stop_map = arrays.check_volumes(self.dataf, self.stop_map)
        self.sphere = self.dg._check_sphere(self.dataf, self.sphere_vertices, self.sphere_edges)
        self.symmetric = self.dg._is_symmetric(self.sphere[0], bool(self.sphere_symm))
        self.device = choose(self.arch)
        first = ",".join(map(str, range(self.ngpus)))
        self.devices = [self.device] if self.ngpus == 1 else choose_several(self.arch, first)
        self._prepared: tuple[tuple[object, ...], npt.NDArray[np.bool_], KernelTables] | None = None
        self.set_compression_parameters()

    def __enter__(self) -> Tracker:
        """Return the tracker."""
        return self

    def __exit__(self, *_: object) -> None:
        """Free the tables."""
        self._prepared = None

    def set_compression_parameters(
        self, pos_dtype: npt.DTypeLike = np.float32, linearize: bool = False, tol_error: float = 0.1,
        max_segment_length: float = 10,
    ) -> None:
        """Set how `generate_trx` stores points.

        Parameters
        ----------
        pos_dtype : dtype
            Type of the points, float16 or float32.
        linearize : bool
            Leave out points that lie on a line between others (DIPY's ``compress_streamlines``).
        tol_error : float
            Greatest distance of a point that is left out from this line, mm.
        max_segment_length : float
            Greatest length of this line, mm.

        Raises
        ------
        ParameterError
            If ``pos_dtype`` is another type.
        """
        dtype = np.dtype(pos_dtype)
        if dtype not in (np.float16, np.float32):
            raise ParameterError(f"pos_dtype is {dtype}: give float16 or float32")
        compress = partial(compress_batch, tolerance_mm=tol_error, segment_mm=max_segment_length)
        self._packing = dtype.name, compress if linearize else None

    def generate_sft(self, seeds: npt.ArrayLike, ref_img: arrays.Reference | None = None) -> StatefulTractogram:
        """Track and return all streamlines in memory.

        Parameters
        ----------
        seeds : array_like, (n, 3)
            Seeds in voxel coordinates (centre of voxel = integer).
        ref_img : nibabel image, str, or any other reference that DIPY accepts
            The image whose grid and affine the data have. It is required.

        Returns
        -------
        StatefulTractogram
            Streamlines in RASmm (cuslines' are in voxels, which ``to_vox()`` gives). For each streamline, the data are
            ``seeds`` (RASmm), ``seed_number``, ``direction_number``, and ``stop_reasons`` of both ends, see
            :class:`tistreamlines.Stop`.

        Raises
        ------
        InputError
            If the reference is missing or on another grid, or if most seeds lie outside it.
        """
        with closing(self.batches(seeds, ref_img)) as batches:  # type: ignore[type-var]
            return containers.tractogram(batches, ref_img)

    def generate_trx(self, seeds: npt.ArrayLike, ref_img: arrays.Reference | None = None) -> TrxFile:
        """Track into a temporary file, so that memory holds only one chunk of streamlines.

        Parameters
        ----------
        seeds, ref_img : as in generate_sft
            See :meth:`generate_sft`.

        Returns
        -------
        TrxFile
            Memory-mapped streamlines with the data of `generate_sft`. Closing it deletes the temporary file.

        Raises
        ------
        InputError
            See :meth:`generate_sft`.
        """
        space = arrays.space_of(ref_img, self.stop_map.shape)
        with closing(self.batches(seeds, ref_img)) as batches:  # type: ignore[type-var]
            return containers.mapped_trx(batches, space, *self._packing)

    def batches(self, seeds: npt.ArrayLike, ref_img: arrays.Reference | None = None) -> Iterator[Batch]:
        """Track and return the streamlines batch by batch.

        Parameters
        ----------
        seeds, ref_img : as in generate_sft
            See :meth:`generate_sft`.

        Returns
        -------
        iterator of Batch
            Streamlines in RASmm. Each batch is tracked when it is taken.

        Raises
        ------
        InputError
            See :meth:`generate_sft`.
        """
        space = arrays.space_of(ref_img, self.stop_map.shape)
        return self._grow(arrays.check_seeds("seeds", seeds, space, "voxel"), space)

    def _grow(self, seeds: npt.NDArray[np.float64], space: Space) -> Iterator[Batch]:
        # Each call has an engine with its own buffers, so that several calls can be active.
        with Session(self.devices) as session:
            engine = session.open(self._tables(seeds, space), space, self._settings(space))
            yield from engine.track(seeds, self.rng_offset)

    def _settings(self, space: Space) -> Settings:
        most_steps = None if self.max_pts == math.inf else math.floor(self.max_pts) - 1  # one less than points
        step_mm = self.parameters.step_mm(space.voxel_sizes)
        return settings_of(self.parameters, step_mm, math.ceil(self.min_pts) - 1, most_steps)

    def _tables(self, seeds: npt.NDArray[np.float64], space: Space) -> KernelTables:
        """Return tables that hold all voxels these seeds can reach; they are made again only if that changes."""
        sides = tuple(float(side) for side in space.voxel_sizes)
        parameters = self.parameters.changed(**self.dg._options(space.voxel_sizes))
        stop = threshold.of_map(self.stop_map, self.stop_threshold)
        reach = voxels_in_reach(stop.alive, seeds, self.stop_map.shape)
        key = space.affine.tobytes(), parameters, dict(vars(self.dg))
        if self._prepared is not None and self._prepared[0] == key and not (reach & ~self._prepared[1]).any():
            return self._prepared[2]
        self._prepared = None
        alive = self.stop_map >= self.stop_threshold
        follows = self.dg._follows(self.dataf, space, self.symmetric, alive)
        inputs = GetterInputs(follows, stop, seeds, self.sphere, parameters.step_mm(sides), sides)
        prepared = self.dg._prepare(inputs, parameters)
        self._prepared = key, reach, prepared
        return prepared


def _check_getter(dg: object) -> None:
    """Check that ``dg`` is an instance of a direction getter of this package."""
    if isinstance(dg, type):
        raise ParameterError(f"dg is the class {dg.__name__}: give an instance, {dg.__name__}(...)")
    if not isinstance(dg, DirectionGetter):
        known = "BootDirectionGetter, ProbDirectionGetter or PttDirectionGetter"
        raise ParameterError(f"dg is of the kind {type(dg).__name__}: give tistreamlines' {known}")
