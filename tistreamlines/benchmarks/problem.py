"""What every target is given: a series and what is fitted to it, made once and kept in a folder."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..fit import csd
from ..fit.frames import place_gradients
from ..fit.tensor import tensor_fa
from ..io import nifti
from ..io.tractogram import Space
from ..phantom.phantom import Phantom, make_phantom
from .cases import SEED_FA, STOP, Case, Method

Array = npt.NDArray[Any]


@dataclass
class Series:
    """Signals, (x, y, z, n), DIPY's gradient table, and the grid."""

    data: Array
    gtab: Any
    space: Space


@dataclass
class Problem:
    """A series, what is fitted to it, seeds and a way of tracking.

    Parameters
    ----------
    folder : where :func:`save_problem` put it.
    method : way of tracking.
    nseeds : seeds, random in the voxels of the mask whose FA is over 0.25.
    threads : of targets that have threads, None for all.
    chunk_size : seeds a chunk, of targets that let it be chosen; None for what they choose.
    """

    folder: Path
    method: Method
    nseeds: int
    threads: int | None = None
    chunk_size: int | None = None

    def _array(self, name: str) -> Array:
        return np.load(self.folder / f"{name}.npy", mmap_mode="r")

    @cached_property
    def data(self) -> Array:
        """Signals, (x, y, z, n) float32."""
        return np.array(self._array("data"))

    @cached_property
    def gtab(self) -> Any:
        """DIPY's gradient table."""
        from dipy.core.gradients import gradient_table

        return gradient_table(np.array(self._array("bvals")), bvecs=np.array(self._array("bvecs")))

    @cached_property
    def fa(self) -> Array:
        """Stop map, (x, y, z) float32; streamlines end below STOP."""
        return np.array(self._array("fa"))

    @cached_property
    def mask(self) -> Array:
        """(x, y, z) bool."""
        return np.array(self._array("mask"))

    @cached_property
    def space(self) -> Space:
        """The grid."""
        return Space(np.array(self._array("affine")), self.mask.shape)

    @cached_property
    def csd(self) -> Array:
        """Harmonics of CSD, DIPY's legacy descoteaux07 basis, (x, y, z, n) float32."""
        return np.array(self._array(f"csd-{self.method.order}"))

    @cached_property
    def pmf(self) -> Array:
        """Samples of ``csd`` on DIPY's default sphere, negative ones as 0, their sum 1, (x, y, z, 362) float32."""
        positive = np.maximum(samples(self.csd), 0)
        return positive / np.maximum(positive.sum(axis=-1, keepdims=True), np.finfo(np.float32).tiny)

    @cached_property
    def seeds(self) -> Array:
        """(nseeds, 3) voxel coordinates, float64 that are float32 too, so that every target gets the same."""
        return seeds_in(self.white, self.nseeds).astype(np.float32).astype(float)

    @property
    def white(self) -> Array:
        """Voxels that are seeded, (x, y, z) bool."""
        return self.mask & (self.fa > SEED_FA)

    def read(self) -> None:
        """Read what the method needs now, rather than when the clock runs."""
        for name in ("seeds", "fa", "mask", "space", "csd" if self.method.model == "csd" else "data"):
            getattr(self, name)

    @property
    def step_mm(self) -> float:
        """Half the smallest side of a voxel."""
        return float(self.space.voxel_sizes.min()) / 2

    @property
    def stop(self) -> float:
        """Least FA."""
        return STOP


def samples(harmonics: Array) -> Array:
    """Harmonics of DIPY's legacy descoteaux07 basis, (..., n), on its default sphere, (..., 362) float32."""
    from dipy.data import default_sphere

    from ..sphere.harmonics import order_of, sampling_matrix

    matrix = sampling_matrix(default_sphere.vertices, order_of(harmonics.shape[-1]), "descoteaux07_legacy")
    return harmonics @ matrix.T.astype(np.float32)


def most_order(volumes: int, order: int) -> int:
    """The order of harmonics, or the greatest even one that so many directions can tell."""
    return max(even for even in range(2, order + 1, 2) if (even + 1) * (even + 2) // 2 <= volumes)


def fitted_csd(dwi: Any, mask: Array, order: int) -> Array:
    """Harmonics of CSD of a series' lowest shell, DIPY's legacy descoteaux07 basis, (x, y, z, n) float32.

    Parameters
    ----------
    dwi : the series.
    mask : (x, y, z) bool, where it is fitted.
    order : of the harmonics, or as much as the directions can tell.
    """
    data, gtab = csd.lowest_shell(dwi.data, dwi.gtab)
    response, _ = csd.csd_response(data, gtab, mask)
    return csd.fit_csd(data, gtab, mask, response, most_order(int((~gtab.b0s_mask).sum()), order))


def seeds_in(white: Array, count: int) -> Array:
    """Random seeds in the voxels of a mask, as the peers' script places them: (count, 3) voxel coordinates."""
    rng = np.random.default_rng(0)
    voxels = np.argwhere(white)
    return voxels[rng.integers(len(voxels), size=count)] + rng.uniform(-0.5, 0.5, (count, 3))


def series_of(case: Case, paths: tuple[str, ...] = (), mask: str | None = None) -> tuple[Any, Array, Phantom | None]:
    """Read or make a case's series: series, mask, and the phantom if it is one.

    Parameters
    ----------
    case : what to track.
    paths : dwi, bvals, bvecs of a user's own series.
    mask : path of its mask; None for what DIPY's median_otsu takes for brain.
    """
    if case.phantom is not None:
        from dipy.core.gradients import gradient_table

        made = make_phantom(**case.phantom)
        gtab = gradient_table(made.bvals, bvecs=made.bvecs)
        return Series(made.data, gtab, Space(made.affine, made.mask.shape)), made.mask, made
    if case.fetched:
        paths = fetch_stanford()
    dwi = nifti.load_dwi(*paths)
    inside = None if mask is None else nifti.load_mask(mask, dwi.space)
    dwi, placing = place_gradients(dwi, inside, "auto", paths[2])
    for text in placing.warnings:
        warnings.warn(text, stacklevel=2)
    if inside is None:
        from ..fit.fits import brain

        inside = brain(dwi)
    return dwi, inside, None


def fetch_stanford() -> tuple[str, ...]:
    """Paths of DIPY's Stanford HARDI: series, bvals, bvecs; downloaded where they are not yet in DIPY's folder.

    Raises
    ------
    InputError
        If the download fails.
    """
    from dipy.data import get_fnames
    from dipy.data.fetcher import FetcherError

    try:
        return tuple(map(str, get_fnames(name="stanford_hardi")))
    except (FetcherError, OSError) as error:
        raise InputError(f"stanford: DIPY cannot download it ({error}): try again, or name other cases") from error


def save_problem(
    case: Case, folder: Path, *, paths: tuple[str, ...] = (), mask: str | None = None, orders: Iterable[int] = (8,)
) -> Phantom | None:
    """Fit what the targets need and keep it in a folder; return the phantom if the case is one.

    Parameters
    ----------
    case : what to track.
    folder : an empty one.
    paths, mask : as for :func:`series_of`.
    orders : of CSD that methods follow.
    """
    dwi, brain, phantom = series_of(case, paths, mask)
    fa = tensor_fa(dwi.data, dwi.gtab, brain)
    arrays = {
        "data": dwi.data, "bvals": dwi.gtab.bvals, "bvecs": dwi.gtab.bvecs, "fa": fa, "mask": brain,
        "affine": dwi.space.affine,
    }  # fmt: skip
    arrays |= {f"csd-{order}": fitted_csd(dwi, brain, order) for order in orders}
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return phantom
