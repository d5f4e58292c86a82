"""CSA and OPDT: the coefficients of DIPY's CsaOdfModel and OpdtModel, by a kernel for all devices.

DIPY divides signals and takes logarithms in float32. Here (:mod:`.linear_kernels`) they have 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..aliases import Array, GradientTable
from ..backends import open_program
from ..backends.program import Program, on_device
from ..devices import CPU, Device, choose, choose_wide
from ..devices.threads import single_blas
from ..errors import InputError
from ..linker.host_arrays import in_chunks
from ..linker.lang import LANES
from ..linker.parts import Part, Source
from ..linker.records import INTS, spread, team_memory
from ..space.harmonics import order_advice, order_of
from ..space.sphere import round_up
from . import dipy_private
from . import linear_kernels as kernels
from .series import batches_of, check_series

OPDT, CSA = "opdt", "csa"
LINEAR = (OPDT, CSA)
BATCH, GPU_BATCH = 1 << 14, 1 << 17  # voxels between two reports of progress
MORE_DIRECTIONS = "give a series of at least 6 directions, the coefficients of order 2"


@dataclass(frozen=True, eq=False)
class LinearModel:
    """A model whose coefficients are sums over transformed signals.

    Parameters
    ----------
    name : str
        'opdt' or 'csa'.
    degrees : (c,) int
        Degrees of the coefficients.
    matrices : of (c, directions)
        Factors of the transformed signals, and with OPDT those of the signals.
    constants : (c,)
        Added to the coefficients.
    """

    name: str
    degrees: Array
    matrices: tuple[Array, ...]
    constants: Array

    @classmethod
    def of(cls, gtab: GradientTable, name: str, order: int, smoothing: float) -> LinearModel:
        """Return DIPY's model for gradients; ``smoothing`` is the weight of the Laplace-Beltrami regularisation."""
        from dipy.reconst.shm import CsaOdfModel, OpdtModel

        with single_blas():
            model = (OpdtModel if name == OPDT else CsaOdfModel)(gtab, sh_order_max=order, smooth=smoothing)
        degrees, constants = np.asarray(model.l_values, int), np.zeros(len(model.l_values))
        if isinstance(model, OpdtModel):
            of_signals, of_transforms = dipy_private.fit_matrices(model)
            return cls(name, degrees, (of_transforms, -of_signals), constants)
        matrix = dipy_private.fit_matrices(model)[0].copy()
        matrix[0], constants[0] = 0.0, dipy_private.csa_constant(model)
        return cls(name, degrees, (matrix,), constants)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Kind(Part):
    """The constant of the kernel."""

    opdt: int


def begin_compiling(model: str) -> None:
    """Begin to compile the CPU's kernel of a model, if it is not in the cache, beside other work."""
    _program_on(choose(CPU), model)


def _program_on(device: Device, model: str, threads: int | None = None) -> Program:
    kind = Kind(opdt=int(model == OPDT))
    source = Source([kernels.fit_voxel], [kind], team_memory("work", kernels.Working, kind))
    return open_program(device, source, threads=threads, bits=64)


def fit_linear(
    data: Array, gtab: GradientTable, mask: npt.NDArray[np.bool_], model: LinearModel, least: float,
    threads: int | None = None, progress: Callable[[float], object] = lambda _: None, arch: str = CPU,
) -> npt.NDArray[np.float32]:
    """Fit the coefficients of CSA or OPDT.

    Parameters
    ----------
    data : (x, y, z, n)
        Signals, which are taken as float32.
    gtab : GradientTable
        Gradients of the n volumes.
    mask : (x, y, z) bool
        Voxels to fit.
    model : LinearModel
        The model of these gradients.
    least : float
        Signals below this one are raised to it.
    threads : int, optional
        Number of threads; by default all available cores. The result does not depend on it.
    progress : callable, optional
        Called from this thread with the fraction of fitted voxels, 0 to 1.
    arch : str
        Where to compute: 'cpu', 'cuda', 'vulkan' or 'auto'. The bits of the result are the same. A device without reals
        of 64 bits, such as Metal's, leaves the fit to the CPU, with a warning.

    Returns
    -------
    (x, y, z, c) float32
        Coefficients in DIPY's default basis (descoteaux07, legacy), 0 outside the mask and in voxels with a signal that
        is not finite.

    Raises
    ------
    InputError
        If the arrays do not match, or the series has no b0 or fewer directions than coefficients.
    """
    check_series(data, gtab, mask)
    b0s, coefficients = np.asarray(gtab.b0s_mask), len(model.degrees)
    _check_volumes(b0s, coefficients)
    tables, layout = tables_of(model, b0s, least)
    device = choose_wide(arch, model.name)
    most = min(GPU_BATCH if device.on_gpu else BATCH, max(int(mask.sum()), 1))
    batch = _Batch(_program_on(device, model.name, threads), tables, layout, most)
    out = np.zeros((mask.size, coefficients), np.float32)
    for rows, signals in batches_of(data, mask, np.arange(layout.volumes), most, threads, progress):
        out[rows] = batch.fit(signals)[:, :coefficients]
    return out.reshape(*mask.shape, -1)


def _check_volumes(b0s: npt.NDArray[np.bool_], coefficients: int) -> None:
    """Check that a series determines the coefficients."""
    if not b0s.any():
        raise InputError("no volume is a b0, by which signals are divided: give a series with one, or fit csd")
    if (directions := int(np.count_nonzero(~b0s))) < coefficients:
        raise InputError(
            f"{directions} diffusion-weighted volumes do not determine the {coefficients} coefficients of order "
            f"{order_of(coefficients)}: {order_advice(directions, MORE_DIRECTIONS)}"
        )


class _Batch:
    """Memory of a program for so many voxels, and the tables of all."""

    def __init__(self, program: Program, tables: kernels.Tables, layout: kernels.Layout, voxels: int) -> None:
        self._program, self._width = program, LANES * layout.chunks
        self._signals = program.empty(voxels * layout.volumes + LANES, INTS)  # lanes read beyond the end
        self._out = program.empty(voxels * self._width, INTS)
        known = on_device(program, spread("tables", tables) | spread("layout", layout))
        self._values = known | {"signals": self._signals, "out": self._out}

    def fit(self, signals: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return the coefficients of signals (m, n), in rows that have zeros at their end."""
        self._program.upload(self._signals, signals.view(np.int32).ravel())
        self._program.run("fit_voxel", len(signals), self._values)
        words = self._program.host(self._out, len(signals) * self._width)
        return words.view(np.float32).reshape(-1, self._width)


def tables_of(model: LinearModel, b0s: npt.NDArray[np.bool_], least: float) -> tuple[kernels.Tables, kernels.Layout]:
    """Lay a model out for the kernel."""
    unweighted, weighted = np.flatnonzero(b0s), np.flatnonzero(~b0s)
    first, count = int(weighted[0]), int(weighted[-1] - weighted[0]) + 1
    rows = np.zeros((len(model.matrices), count, len(model.degrees)))
    rows[:, weighted - first] = np.stack(model.matrices).swapaxes(1, 2)
    limit = np.float32(max(least, np.finfo(np.float32).tiny))
    layout = kernels.Layout(
        volumes=len(b0s), first=first, weighted=count, unweighted=len(unweighted),
        chunks=round_up(len(model.degrees)) // LANES, least=int(limit.view(np.int32)),
    )
    tables = kernels.Tables(
        unweighted=unweighted.astype(np.int32), constants=in_chunks(model.constants[None]),
        matrix=in_chunks(rows.reshape(-1, len(model.degrees))),
    )
    return tables, layout
