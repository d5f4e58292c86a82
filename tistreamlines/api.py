"""Drop-ins for cuslines' tracker and bootstrap direction getter, on arrays in memory.

Code written for cuslines changes one import::

    from tistreamlines import BootDirectionGetter, Tracker

Units are cuslines': seeds in voxel coordinates (centre of voxel = integer), angles in **radians**, steps in **voxels**.
What comes out is in RASmm.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from . import arrays, containers, models
from .backends.devices import choose
from .engine import Engine, Settings
from .models import Prepared
from .parameters import ParameterError, Parameters
from .tractogram import Batch, Space
from .volume import touched

if TYPE_CHECKING:
    from dipy.core.gradients import GradientTable
    from dipy.core.sphere import Sphere
    from dipy.io.stateful_tractogram import StatefulTractogram
    from trx.trx_file_memmap import TrxFile

Array = npt.NDArray[Any]
MODELS = ("opdt", "csa")


class BootDirectionGetter:
    """Directions by residual bootstrap of an OPDT or CSA fit.

    Parameters
    ----------
    model_type : 'opdt' or 'csa', in any case.
    gtab : DIPY's gradient table of the n volumes; the b0s may be anywhere, the rest is one shell.
    sphere : DIPY's sphere or hemisphere on which peaks are sought; the tracker is given the same one.
    sh_order_max : order of the spherical harmonics, even.
    sh_lambda : Laplace-Beltrami smoothing of the fit.
    min_signal : signals below this are raised to it.
    boot_rule : 'dipy' draws again only while there is no peak at all, 'cuslines' until one fits the angle.
    negative_odf : an ODF without a positive value has one peak ('dipy') or none ('none').

    Attributes
    ----------
    angular_weight : float, 0 to 1
        Weight w of ODF * (1 - w + w |cos(angle to the last step)|); 0 is off. May be set at any time.

    Notes
    -----
    The matrices that cuslines' constructor takes (H, R, delta_b, ...) are made from the gradient table here.
    """

    angular_weight = 0.0

    def __init__(
        self, model_type: str, gtab: GradientTable | None = None, sphere: Sphere | None = None, sh_order_max: int = 6,
        sh_lambda: float = 0.006, min_signal: float = 1, *, boot_rule: str = "dipy", negative_odf: str = "dipy",
        **matrices: Any,
    ) -> None:  # fmt: skip
        if not hasattr(gtab, "b0s_mask") or not hasattr(sphere, "vertices") or matrices:
            raise ParameterError(
                "a BootDirectionGetter takes a gradient table and a sphere, not the matrices made from them: "
                "use BootDirectionGetter.from_dipy_opdt(gtab, sphere) or from_dipy_csa(gtab, sphere)"
            )
        if str(model_type).lower() not in MODELS:
            raise ParameterError(f"model_type is {model_type!r}: give one of {', '.join(MODELS)}")
        self.gtab, self.sphere = cast("GradientTable", gtab), cast("Sphere", sphere)
        self.model_type = str(model_type).lower()
        self.sh_order_max, self.sh_lambda, self.min_signal = sh_order_max, sh_lambda, min_signal
        self.boot_rule, self.negative_odf = boot_rule, negative_odf
        self.options()

    @classmethod
    def from_dipy_opdt(
        cls, gtab: GradientTable, sphere: Sphere, sh_order_max: int = 6, full_basis: bool = False,
        sh_lambda: float = 0.006, min_signal: float = 1,
    ) -> BootDirectionGetter:  # fmt: skip
        """Bootstrap DIPY's orientation probability density transform; arguments as for the class."""
        _no_full_basis(full_basis)
        return cls("opdt", gtab, sphere, sh_order_max, sh_lambda, min_signal)

    @classmethod
    def from_dipy_csa(
        cls, gtab: GradientTable, sphere: Sphere, sh_order_max: int = 6, full_basis: bool = False,
        sh_lambda: float = 0.006, min_signal: float = 1,
    ) -> BootDirectionGetter:  # fmt: skip
        """Bootstrap DIPY's constant solid angle ODF; arguments as for the class."""
        _no_full_basis(full_basis)
        return cls("csa", gtab, sphere, sh_order_max, sh_lambda, min_signal)

    def options(self) -> dict[str, Any]:
        """Return the options of :func:`tistreamlines.models.prepare_boot` that belong to the model, checked."""
        named = {
            "model": self.model_type, "sh_order": self.sh_order_max, "sm_lambda": self.sh_lambda,
            "min_signal": self.min_signal, "angular_weight": self.angular_weight, "boot_rule": self.boot_rule,
            "negative_odf": self.negative_odf,
        }  # fmt: skip
        checked = Parameters(**named)
        return {name: getattr(checked, name) for name in named}


def _no_full_basis(full_basis: bool) -> None:
    if full_basis:
        raise ParameterError("full_basis=True: the diffusion signal is symmetric, its models have no odd harmonics")


class Tracker:
    """Tracks from seeds, with the arguments of cuslines' tracker.

    A context manager, though it need not be used as one: the end of the block frees the tables.

    Parameters
    ----------
    dg : BootDirectionGetter
    dataf : (x, y, z, n), the diffusion series in the order of the gradient table.
    stop_map : (x, y, z); streamlines go on where it is above ``stop_threshold``.
    sphere_vertices : (v, 3), sphere_edges : (e, 2)
        Of the direction getter's sphere.
    sphere_symm : taken as it comes: a direction always stands for its opposite too.
    max_angle : greatest angle between two steps, radians.
    step_size : step length in voxels: in an image of unequal sides, in smallest ones.
    min_pts, max_pts : streamlines of fewer or more points are dropped; so are those of one point.
    relative_peak_thresh : peaks lower than this share of the ODF's range are left out.
    min_separation_angle : a peak closer than this to a higher one is left out, radians.
    ngpus : 1. A tracker works on one device: to use more, start a process for each.
    rng_seed : key of the random draws.
    rng_offset : number of the first seed, by which the draws are counted: ``seeds[k:]`` with an offset of ``k`` gives
        the streamlines that these seeds give among all.
    chunk_size : seeds at a time; changes no result. None for what fits the device.
    arch : 'auto', 'cuda', 'metal', 'vulkan' or 'cpu'; no other one takes the place of the one named.
    exact : the same bits on every device, or whatever the compiler's liberties give.
    threads : CPU threads, None for all cores.
    memory_limit : GB of device memory to use at most, None for what is free.
    max_steps : most steps each way from the seed.

    Raises
    ------
    TrackingError
        If an argument, the arrays or the device do not do.
    """

    def __init__(
        self, dg: BootDirectionGetter, dataf: Array, stop_map: Array, stop_threshold: float, sphere_vertices: Array,
        sphere_edges: Array, sphere_symm: bool = False, max_angle: float = math.radians(60), step_size: float = 0.5,
        min_pts: float = 0, max_pts: float = math.inf, relative_peak_thresh: float = 0.25,
        min_separation_angle: float = math.radians(45), ngpus: int = 1, rng_seed: int = 0, rng_offset: int = 0,
        chunk_size: int | None = None, *, arch: str = "auto", exact: bool = True, threads: int | None = None,
        memory_limit: float | None = None, max_steps: int = 500,
    ) -> None:  # fmt: skip
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
            max_angle=arrays.degrees("max_angle", max_angle), step_size=f"{float(step_size)!r}vox", rng_seed=rng_seed,
            min_separation_angle=arrays.degrees("min_separation_angle", min_separation_angle), max_steps=max_steps,
            relative_peak_threshold=relative_peak_thresh, chunk_size=chunk_size, arch=arch, exact=exact,
            threads=threads, memory_limit=memory_limit,
        )  # fmt: skip
        self.dg, self.stop_threshold, self.rng_offset = dg, float(stop_threshold), int(rng_offset)
        self._points = (min_pts, max_pts)
        self.dataf, self.stop_map = arrays.volumes(dg.gtab, dataf, stop_map)
        self.sphere = arrays.sphere_tables(dg.sphere, sphere_vertices, sphere_edges)
        self.device = choose(arch)
        self._prepared: tuple[dict[str, Any], Prepared] | None = None
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
        ref_img : image, or anything DIPY takes as a reference, on the grid of the data; None for an affine of ones.

        Returns
        -------
        StatefulTractogram
            In RASmm (cuslines' is in voxels: ``to_vox()``), with ``seeds`` (RASmm), ``seed_number``,
            ``direction_number`` and ``stop_reasons`` of both ends (:class:`tistreamlines.Stop`) for each streamline.
        """
        with closing(self.batches(seeds, ref_img)) as batches:  # type: ignore[type-var]
            return containers.tractogram(batches, ref_img, self.stop_map.shape)

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
        points = arrays.seed_points(seeds, self.stop_map.shape)
        space = arrays.space_of(ref_img, self.stop_map.shape)
        return self._grow(points, space)

    def _grow(self, seeds: npt.NDArray[np.float64], space: Space) -> Iterator[Batch]:
        # An engine for each call: Taichi is global to a process, and another run may have started it anew since.
        engine = Engine(self._tables(seeds), space, self.device, self._settings(space))
        yield from engine.track(seeds, self.rng_offset)

    def _settings(self, space: Space) -> Settings:
        chosen = self.parameters
        step, (fewest, most) = chosen.step_mm(space.voxel_sizes), self._points
        return Settings(
            step_mm=step, max_steps=chosen.max_steps, min_mm=max(fewest - 1.5, 0) * step, max_mm=(most - 0.5) * step,
            rng_seed=chosen.rng_seed, exact=chosen.exact, threads=chosen.threads, chunk_size=chosen.chunk_size,
            memory_limit=None if chosen.memory_limit is None else int(chosen.memory_limit * 1e9),
        )  # fmt: skip

    def _tables(self, seeds: npt.NDArray[np.float64]) -> Prepared:
        """Tables that hold all voxels these seeds can reach; made once, as long as that does."""
        options = self.dg.options()
        if self._prepared is not None and self._prepared[0] == options:
            held = self._prepared[1].arrays["volume_index"].reshape(self.stop_map.shape) != 0
            if not (touched(self.stop_map, self.stop_threshold, seeds) & ~held).any():
                return self._prepared[1]
        self._prepared = None
        prepared = models.prepare_boot(
            self.dataf, self.dg.gtab, self.stop_map, self.stop_threshold, seeds, sphere=self.sphere,
            max_angle=self.parameters.max_angle, min_separation_angle=self.parameters.min_separation_angle,
            relative_peak_threshold=self.parameters.relative_peak_threshold, **options,
        )  # fmt: skip
        self._prepared = options, prepared
        return prepared
