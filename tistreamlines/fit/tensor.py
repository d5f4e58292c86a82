"""Fractional anisotropy (FA) by weighted least squares: the values of DIPY's TensorModel, by a kernel for all devices.

DIPY computes the pseudo-inverse of each voxel's weighted design. :mod:`.tensor_kernels` solves its normal equations,
and only the few voxels where these are ill-conditioned have a pseudo-inverse.

References
----------
Chung, Lu, Henry. Comparison of bootstrap approaches for estimation of uncertainties of DTI parameters. NeuroImage 33,
2006.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..aliases import Array, GradientTable
from ..backends import open_program
from ..backends.program import Program, on_device
from ..devices import CPU, Device, choose, choose_wide
from ..devices.threads import in_threads
from ..linker.lang import LANES, Func
from ..linker.parts import Part, Source
from ..linker.records import INTS, spread, team_memory
from ..space.encoding import TENSOR, tensor_design
from . import tensor_kernels as kernels

# voxels per task of the kernel; a GPU has a team for each 32 of them, since Mesa's software driver ends loops after
# 65,535 turns, all of a launch together
VOXELS, GPU_VOXELS = 1 << 12, 1 << 17
COLUMNS = [0, 2, 5, 4, 3, 1, 6]  # of the design, in the order of the kernel
# of DIPY's fit: the least signal, and the least eigenvalue times the greatest element of the design
LEAST_SIGNAL, LEAST_DECAY = 1e-4, 1e-6


def tensor_fa(
    data: npt.NDArray[np.float32], gtab: GradientTable, mask: npt.NDArray[np.bool_], threads: int | None = None,
    volumes: npt.NDArray[np.bool_] | None = None, arch: str = CPU,
) -> npt.NDArray[np.float32]:
    """Fit FA as DIPY's TensorModel does by weighted least squares.

    Parameters
    ----------
    data : ndarray, (x, y, z, n)
        Signals.
    gtab : GradientTable
        DIPY's gradient table of the volumes that are fitted.
    mask : ndarray of bool, (x, y, z)
        Voxels to fit.
    threads : int, optional
        Number of threads; by default all available cores. The result does not depend on it.
    volumes : ndarray of bool, (n,), optional
        Volumes that are fitted; by default all.
    arch : str
        Where to compute: 'cpu', 'cuda', 'vulkan' or 'auto'. The bits of the result are the same. A device without reals
        of 64 bits, such as Metal's, leaves the fit to the CPU, with a warning.

    Returns
    -------
    ndarray, (x, y, z), float32
        FA, 0 outside the mask.
    """
    out = np.zeros(mask.shape, np.float32)
    out[mask] = anisotropy(data, gtab, mask, threads, volumes, arch)
    return out


def anisotropy(
    data: Array, gtab: GradientTable, mask: npt.NDArray[np.bool_], threads: int | None = None,
    volumes: npt.NDArray[np.bool_] | None = None, arch: str = CPU,
) -> Array:
    """Return the FA of :func:`tensor_fa` for the m voxels of the mask, (m,) float64."""
    device = choose_wide(arch, "FA")
    voxels, fit = np.nonzero(mask), _weighted_fit(gtab, device)
    block = VOXELS if device.on_host else GPU_VOXELS

    def fit_block(first: int) -> Array:
        signals = data[tuple(axis[first : first + block] for axis in voxels)]
        return fit(signals if volumes is None or volumes.all() else signals.compress(volumes, axis=1))

    blocks = range(0, len(voxels[0]), block)
    parts = in_threads(fit_block, blocks, threads) if device.on_host else map(fit_block, blocks)
    return np.concatenate([np.empty(0), *parts])


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Memory(Part):
    """The constants of the kernel, see ``tensor_kernels.py``."""

    chunk: int
    keeps: int


# a GPU has little memory for a team, and computes logarithms sooner than it reads them
ON_HOST, ON_GPU = Memory(chunk=32, keeps=1), Memory(chunk=16, keeps=0)


def begin_compiling() -> None:
    """Begin to compile the CPU's kernel of FA, if it is not in the cache, beside other work."""
    program_of(kernels.fit_team, choose(CPU), ON_HOST)


def program_of(root: Func, device: Device, memory: Memory, volumes: int = 1) -> Program:
    """Return the program of a kernel of FA for so many volumes."""
    scratch = team_memory("work", kernels.Working, memory, volumes if memory.keeps else memory.chunk)
    return open_program(device, Source([root], [memory], scratch), threads=1, bits=64)


def _weighted_fit(gtab: GradientTable, device: Device) -> TensorFit:
    design = tensor_design(gtab)
    program = program_of(kernels.fit_team, device, ON_HOST if device.on_host else ON_GPU, len(design))
    numbers = {"rotations": kernels.ROTATIONS}
    return TensorFit(program, kernels.fit_team, design, numbers, lambda rows: eigenvalues(design, rows))


class TensorFit:
    """The fit of FA to signals (m, n) by a kernel. On the CPU, several threads may call it, and each fits in itself.

    Parameters
    ----------
    program, root : a program, and its kernel.
    design : (n, 7).
    values : of the kernel's arguments, besides those of all such kernels.
    rare : returns the eigenvalues (m, 3) of voxels that the kernel does not fit.
    """

    def __init__(
        self, program: Program, root: Func, design: Array, values: Mapping[str, object], rare: Callable[[Array], Array]
    ) -> None:
        self._program, self._name, self._rare = program, root.__name__, rare
        model = on_device(program, spread("model", _model(design)))
        self._values = {**model, **values, "volumes": len(design)}

    def __call__(self, signals: Array) -> Array:
        """Return the FA (m,) of voxels."""
        count, teams, program = len(signals), -(-len(signals) // LANES), self._program
        with np.errstate(over="ignore"):  # of signals beyond float32, which the kernel leaves to the host
            words = np.ascontiguousarray(signals, np.float32).view(np.int32).ravel()
        out = program.empty(2 * LANES * teams, INTS)
        values = {**self._values, "signals": program.array(words), "voxels": count, "out": out}
        program.run(self._name, teams, values)
        parts = program.host(out, 2 * LANES * teams).view(np.float32).reshape(teams, 2, LANES)
        fa = parts.sum(axis=1, dtype=np.float64).ravel()[:count]
        rare = fa < 0
        if rare.any():
            fa[rare] = np.nan_to_num(fractional_anisotropy(self._rare(signals[rare])))
        return fa


def eigenvalues(design: Array, signals: Array) -> Array:
    """Return the eigenvalues (m, 3), the largest first, by pseudo-inverses of a design (n, 7), as DIPY computes them.

    DIPY takes 0.5 s to import.
    """
    inverse = np.linalg.pinv(design)

    def fit_block(first: int) -> Array:
        logs = np.log(np.maximum(signals[first : first + VOXELS], LEAST_SIGNAL))
        weights = np.exp(np.einsum("ij,mj->mi", inverse, logs) @ design.T)
        fit = np.einsum("mij,mj->mi", np.linalg.pinv(design * weights[..., None]), weights * logs)
        return np.linalg.eigh(fit[:, TENSOR])[0][:, ::-1].clip(LEAST_DECAY / -design.min())

    return np.concatenate([np.empty((0, 3)), *map(fit_block, range(0, len(signals), VOXELS))])


def fractional_anisotropy(eigenvalues: Array) -> Array:
    """Return the FA (...) of eigenvalues (..., 3); 0 if all are 0."""
    differences = eigenvalues - np.roll(eigenvalues, -1, axis=-1)
    squares = (eigenvalues**2).sum(axis=-1)
    return np.sqrt(0.5 * (differences**2).sum(axis=-1) / (squares + (squares == 0)))


def sizes_of(design: Array) -> Array:
    """Return the greatest size in each column of a design (n, m), (m,)."""
    return np.abs(design).max(axis=0).clip(1e-30)


def _model(whole: Array) -> kernels.Model:
    """Return the tables of the kernel for a design (n, 7)."""
    design = whole[:, COLUMNS]
    sizes = sizes_of(design)
    sizes[6] = -1
    scaled = (design / sizes).T
    products = scaled[:, None] * np.concatenate([scaled, scaled[:1]])  # rows of 8
    tables = {"first": np.linalg.pinv(design) * sizes[:, None], "design": scaled, "products": products}
    scales = -design.min() / sizes[:6]
    return kernels.Model(**{name: np.ascontiguousarray(table).ravel() for name, table in tables.items()}, scales=scales)
