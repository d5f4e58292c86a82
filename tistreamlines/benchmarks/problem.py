"""The data that all targets track: a series and the fits to it, computed once and stored in a folder."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from ..aliases import Array, GradientTable
from ..fit import csd, fits, shells
from ..fit.frames import place_gradients
from ..fit.response import csd_response
from ..fit.tensor import tensor_fa
from ..io import nifti
from ..phantom.phantom import Phantom, make_phantom
from ..space.batch import Space
from ..space.harmonics import highest_order, order_of, sampling_matrix
from ..space.sphere import load_sphere
from .cases import SEED_FA, Case, TimedMethod


@dataclass
class Problem:
    """A series, the fits to it, seeds and a tracking method.

    Parameters
    ----------
    folder : Path
        Folder of :func:`save_problem`.
    method : Method
    nseeds : int
        Number of random seeds, in voxels of the mask with FA above 0.25.
    threads : int, optional
        Threads of targets that use threads; by default all.
    chunk_size : int, optional
        Seeds per chunk, for targets with this setting.
    devices : str, optional
        GPUs that share the seeds, for the archs whose devices have numbers; by default one.
    """

    folder: Path
    method: TimedMethod
    nseeds: int
    threads: int | None = None
    chunk_size: int | None = None
    devices: str | None = None

    def _array(self, name: str) -> Array:
        return np.load(self.folder / f"{name}.npy")

    @cached_property
    def data(self) -> Array:
        """Signals, (x, y, z, n) float32."""
        return self._array("data")

    @cached_property
    def gtab(self) -> GradientTable:
        """DIPY's gradient table."""
        from dipy.core.gradients import gradient_table

        return gradient_table(self._array("bvals"), bvecs=self._array("bvecs"))

    @cached_property
    def fa(self) -> Array:
        """Stop map, (x, y, z) float32; streamlines end below STOP."""
        return self._array("fa")

    @cached_property
    def mask(self) -> Array:
        """Brain mask, (x, y, z) bool."""
        return self._array("mask")

    @cached_property
    def space(self) -> Space:
        """The grid."""
        return Space(self._array("affine"), self.mask.shape)

    @cached_property
    def csd(self) -> Array:
        """Coefficients of CSD in basis descoteaux07_legacy, (x, y, z, n) float32."""
        return self._array(f"csd-{self.method.order}")

    @cached_property
    def pmf(self) -> Array:
        """PMF of ``csd`` on the method's sphere: negative samples set to 0, sum 1; (x, y, z, vertices) float32."""
        positive = np.maximum(samples(self.csd, self.method.sphere), 0)
        if self.method.model == "asymmetric":
            # three times as much along +z as along -z
            positive *= (1 + load_sphere(self.method.sphere)[0][:, 2] / 2).astype(np.float32)
        return positive / np.maximum(positive.sum(axis=-1, keepdims=True), np.finfo(np.float32).tiny)

    @cached_property
    def seeds(self) -> Array:
        """Seeds (nseeds, 3), voxel coordinates, float64 with values exact in float32, so that all targets agree."""
        return seeds_in(self.white, self.nseeds).astype(np.float32).astype(float)

    @property
    def white(self) -> Array:
        """Voxels with seeds, (x, y, z) bool."""
        return self.mask & (self.fa > SEED_FA)

    def read(self) -> None:
        """Read the data of the method now, so that reading is not timed."""
        for name in ("seeds", "fa", "mask", "space", "csd" if self.method.needs_csd else "data"):
            getattr(self, name)

    @property
    def step_mm(self) -> float:
        """Step size, mm: half the smallest voxel size."""
        return float(self.space.voxel_sizes.min()) / 2


def samples(harmonics: Array, sphere: str = "default") -> Array:
    """Sample coefficients (..., n) of basis descoteaux07_legacy on a sphere of SPHERES, (..., vertices) float32."""
    matrix = sampling_matrix(load_sphere(sphere)[0], order_of(harmonics.shape[-1]), "descoteaux07_legacy")
    return harmonics @ matrix.T.astype(np.float32)


def fitted_csd(dwi: nifti.Dwi, mask: Array, order: int) -> Array:
    """Fit CSD to the lowest shell of a series.

    Parameters
    ----------
    dwi : Dwi
    mask : (x, y, z) bool
        Voxels to fit.
    order : int
        Order of the harmonics; reduced if there are too few directions.

    Returns
    -------
    (x, y, z, n) float32
        Coefficients in basis descoteaux07_legacy.
    """
    data, gtab = shells.on_shell(dwi.data, dwi.gtab, shells.shell_of_models)
    response, _ = csd_response(data, gtab, mask)
    return csd.fit_csd(data, gtab, mask, response, min(highest_order(int((~gtab.b0s_mask).sum())), order))


def seeds_in(white: Array, count: int) -> Array:
    """Return random seeds (count, 3) in the voxels of a mask, in voxel coordinates, as the peers' script does."""
    rng = np.random.default_rng(0)
    voxels = np.argwhere(white)
    return voxels[rng.integers(len(voxels), size=count)] + rng.uniform(-0.5, 0.5, (count, 3))


def series_of(case: Case) -> tuple[nifti.Dwi, Array, Phantom | None]:
    """Read or generate the series of a case, its brain mask (x, y, z) bool, and the phantom if it is one."""
    if case.phantom is not None:
        from dipy.core.gradients import gradient_table

        phantom = make_phantom(**case.phantom)
        gtab = gradient_table(phantom.bvals, bvecs=phantom.bvecs)
        space = Space(phantom.affine, phantom.mask.shape)
        return nifti.Dwi(phantom.data, space, gtab, Path(case.name)), phantom.mask, phantom
    dwi = nifti.load_dwi(*case.paths)
    inside = None if case.mask is None else nifti.load_mask(case.mask, dwi.space)
    dwi, placing = place_gradients(dwi, inside, "auto", case.paths[2])
    for text in placing.warnings:
        warnings.warn(text, stacklevel=2)
    if inside is None:
        inside = fits.brain(dwi)
    return dwi, inside, None


def save_problem(case: Case, folder: Path, orders: Iterable[int] = (8,)) -> Phantom | None:
    """Compute the fits that the targets need and store them; return the phantom if the case is one.

    Parameters
    ----------
    case : Case
    folder : Path
        An empty folder.
    orders : iterable of int
        Orders of CSD that the methods need.
    """
    dwi, brain, phantom = series_of(case)
    fa = tensor_fa(dwi.data, dwi.gtab, brain)
    arrays = {
        "data": dwi.data, "bvals": dwi.gtab.bvals, "bvecs": dwi.gtab.bvecs, "fa": fa, "mask": brain,
        "affine": dwi.space.affine,
    }
    arrays |= {f"csd-{order}": fitted_csd(dwi, brain, order) for order in orders}
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return phantom
