"""Constrained spherical deconvolution of several shells and tissues (Jeurissen et al. 2014), on all cores.

It solves the problem of MRtrix3's ``dwi2fod msmt_csd``: least squares in which amplitudes must not be negative.
:mod:`.tissues` has its equations, and :mod:`.msmt_kernels` the solver.
"""

from __future__ import annotations

import time
import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..aliases import Array, GradientTable
from ..backends import open_program
from ..backends.program import Program, on_device
from ..devices import CPU, Device, choose_wide
from ..errors import DeviceMemoryError, InputError
from ..linker.host_arrays import flattened, padded
from ..linker.lang import LANES
from ..linker.parts import Part, Source
from ..linker.records import INTS, REALS, spread, team_memory
from ..linker.transfer import Transfer
from ..space.sphere import round_up
from . import msmt_kernels as kernels
from .series import check_series, in_parts, signals_of
from .shells import stray_volumes
from .tissues import TissueProblem, tissue_shells

NEAR = 0.15  # product of two normals, above which a half-space is left out of the window when the other has entered
BATCH, FEWEST, MOST = 1 << 14, 1 << 14, 1 << 20  # voxels of a batch on the host, and on a GPU: multiples of a run's
FIRST = 1 << 16, 1 << 17  # voxels of the first two batches on a GPU
SECONDS = 3.0  # that a later batch may take there; long ones are better, since threads wait at the end of each
SIGNALS = 1 << 27  # of a batch at most: half a gigabyte, of which the host holds a copy or two
IN_WORK = 2  # batches of which one is fitted while another is copied

__all__ = ["TissueFit", "fit_msmt"]


@dataclass(frozen=True, eq=False)
class TissueFit:
    """The coefficients of each tissue, and how well they fit.

    Attributes
    ----------
    coefficients : of each tissue, (x, y, z, k) float32
        Spherical harmonics in tournier07, along the axes of the gradients; 0 outside the mask and where ``failed``.
    failed : (x, y, z) bool
        Voxels of the mask that have no fit: a signal is not finite or all are 0, or the solver has not ended.
    residual : (x, y, z) float32
        Root of the mean squared difference between the signal and its fit.
    problem : TissueProblem
        The equations that were solved.
    """

    coefficients: dict[str, npt.NDArray[np.float32]]
    failed: npt.NDArray[np.bool_]
    residual: npt.NDArray[np.float32]
    problem: TissueProblem


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ConeSizes(Part):
    """The constants of the kernel, see ``msmt_kernels.py``."""

    unknowns: int
    size: int
    rows: int
    wide: int
    half: int
    packed: int
    stride: int
    dual: int
    free: int
    active: int
    state: int
    planes: int
    windows: int
    volumes: int
    signals: int

    @classmethod
    def of(cls, problem: TissueProblem, packed: bool) -> ConeSizes:
        """Return the sizes of a problem; both bases may be packed in one matrix."""
        volumes, unknowns = problem.design.shape
        rows, windows = round_up(unknowns, LANES // 2), -(-len(problem.amplitudes) // (kernels.CHUNKS * LANES))
        half = unknowns > LANES and 0 < unknowns % LANES <= LANES // 2
        wide, stride = unknowns // LANES if half else round_up(unknowns) // LANES, rows + 1
        columns = LANES * wide + LANES // 2 * half
        dual, free = rows * columns, round_up(unknowns, 4) * rows + LANES // 2
        active = dual + free
        if packed:
            active = dual = free = stride * (columns + rows - unknowns) + LANES
        return cls(
            unknowns=unknowns, size=round_up(unknowns), rows=rows, wide=wide, half=int(half), packed=int(packed),
            stride=stride, dual=dual, free=free, active=active, state=active + unknowns + 1,
            planes=windows * kernels.CHUNKS * LANES, windows=windows, volumes=volumes, signals=round_up(volumes),
        )

    def source(self) -> Source:
        """Return the kernel with these constants."""
        scratch = team_memory("work", kernels.Working, self)
        shares = {"work_free": ("work_dual", 0)} if self.packed else {}
        return Source([kernels.fit_run], [self], scratch, shares)


def fit_msmt(
    data: Array,
    gtab: GradientTable,
    mask: npt.NDArray[np.bool_],
    responses: Mapping[str, Array],
    orders: Sequence[int] | None = None,
    threads: int | None = None,
    progress: Callable[[float], object] = lambda _: None, arch: str = CPU,
) -> TissueFit:
    """Fit the orientation distribution of white matter and the shares of other tissues to a series of several shells.

    Parameters
    ----------
    data : (x, y, z, n)
        Signals.
    gtab : dipy.core.gradients.GradientTable
        Gradients of the n volumes.
    mask : (x, y, z) bool
        Voxels to fit.
    responses : mapping
        Of each tissue, the zonal coefficients of the degrees 0, 2, ... (shells, degrees), by rising b-value from b = 0
        on, as in a response file of MRtrix3.
    orders : sequence of int, optional
        Order of the harmonics of each tissue; by default that of its response, at most 8.
    threads : int, optional
        Number of threads; by default all available cores. The result does not depend on it.
    progress : callable, optional
        Called from this thread with the fraction of finished voxels, 0 to 1.
    arch : str
        Where to compute: 'cpu', 'cuda', 'vulkan' or 'auto'. The bits of the result are the same. A device without reals
        of 64 bits, such as Metal's, leaves the fit to the CPU.

    Returns
    -------
    TissueFit

    Raises
    ------
    InputError
        If the arrays, shells and responses do not match, or the gradients do not determine all coefficients.
    DeviceError
        If the device cannot compute this.

    Warns
    -----
    UserWarning
        If volumes are in no shell. They are not fitted. If the device leaves the fit to the CPU.
    """
    check_series(data, gtab, mask)
    if not responses:
        raise InputError("no tissue has a response: give one to three")
    for sentence in stray_volumes(gtab, tissue_shells(gtab)):
        warnings.warn(sentence, stacklevel=2)
    problem, device = TissueProblem.of(gtab, responses, orders), choose_wide(arch, "the tissues")
    sizes = ConeSizes.of(problem, packed=not device.on_host)
    program = open_program(device, sizes.source(), threads=threads, bits=64)
    out = np.zeros((mask.size, sizes.unknowns), np.float32)
    residual, failed = np.zeros(mask.size, np.float32), np.zeros(mask.size, bool)
    voxels, series = np.flatnonzero(mask), np.ascontiguousarray(data).reshape(mask.size, -1)
    batch = _memory_for(program, problem, sizes, device, len(voxels))
    waiting: deque[tuple[Array, Transfer]] = deque()
    pace = _Pace(batch.voxels)

    def take() -> None:
        rows, fit = waiting.popleft()
        fitted, errors, ends = fit.wait()
        pace.note(len(rows))

        def copy(part: slice) -> None:
            out[rows[part]], residual[rows[part]], failed[rows[part]] = fitted[part], errors[part], ends[part]

        in_parts(copy, len(rows), threads)

    first = 0
    while first < len(voxels):
        progress(first / len(voxels))
        rows = voxels[first : first + (pace.next() if device.on_gpu else BATCH)]
        first += len(rows)
        waiting.append((rows, batch.fit(signals_of(series, rows, problem.volumes, threads))))
        if len(waiting) == IN_WORK:
            take()
    while waiting:
        take()
    progress(1.0)
    out[failed], residual[failed] = 0, 0
    parts = {name: out[:, part].reshape(*mask.shape, -1) for name, part in problem.parts().items()}
    return TissueFit(parts, failed.reshape(mask.shape), residual.reshape(mask.shape), problem)


def _turns(device: Device) -> int:
    """Return how many voxels of a run are fitted in a launch.

    Systems stop a launch that keeps a GPU from drawing the screen for some seconds. Mesa's software driver ends loops
    after 65,535 turns, all of a launch together.
    """
    return kernels.RUN if device.on_host else 4 if device.on_gpu else 1


class _Pace:
    """How many voxels a GPU takes at a time: what it fits in :data:`SECONDS` by the pace of the last batch.

    Parameters
    ----------
    most : voxels for which there is memory.
    """

    def __init__(self, most: int) -> None:
        self._most, self._first, self._size, self._last = most, deque(FIRST), FEWEST, time.perf_counter()

    def next(self) -> int:
        """Return the voxels of the next batch."""
        return min(self._first.popleft() if self._first else self._size, self._most)

    def note(self, count: int) -> None:
        """Take into account that a batch of so many voxels has come."""
        now = time.perf_counter()
        seconds, self._last = now - self._last, now
        # in whole runs: the fit of a voxel begins from that of the one before it in its run
        self._size = max(int(count * SECONDS / seconds) // FEWEST, 1) * FEWEST


def _memory_for(program: Program, problem: TissueProblem, sizes: ConeSizes, device: Device, count: int) -> _Batch:
    """Return memory for as many of so many voxels as the device has room for."""
    most = min(MOST, SIGNALS // sizes.volumes // FEWEST * FEWEST) if device.on_gpu else BATCH
    most = max(min(most, count), 1)
    while True:
        try:
            return _Batch(program, problem, sizes, most, _turns(device))
        except DeviceMemoryError:
            if most <= FEWEST:
                raise
            most = max(most // 4 // FEWEST, 1) * FEWEST


class _Batch:
    """Memory of a program for some voxels, and the tables of all.

    Parameters
    ----------
    program : the program of ``msmt_kernels.fit_run``.
    problem : the equations.
    sizes : of them.
    voxels : the most voxels at a time.
    turns : voxels of a run that are fitted in a launch.
    """

    def __init__(self, program: Program, problem: TissueProblem, sizes: ConeSizes, voxels: int, turns: int) -> None:
        self._program, self._sizes, self._turns, self.voxels = program, sizes, turns, voxels
        normals = problem.half_spaces
        cone = kernels.Cone(
            projection=_table(problem.projection, sizes.size, sizes.signals), normals=_table(normals, sizes.size),
            columns=_table(normals.T, sizes.planes, sizes.rows), near=_marks(normals @ normals.T > NEAR, sizes.planes),
            coefficients=_table(problem.to_coefficients.T, sizes.size, sizes.rows),
        )
        counts = {"out": voxels * sizes.size, "errors": voxels, "ends": voxels}
        self._outs = deque({name: program.empty(count, INTS) for name, count in counts.items()} for _ in range(IN_WORK))
        self._signals = program.empty(voxels * sizes.volumes + LANES, INTS)  # lanes read beyond the end
        runs = -(-voxels // kernels.RUN) if turns < kernels.RUN else 1
        self._state = program.empty(runs * sizes.state, REALS)
        self._cone = on_device(program, spread("cone", cone))

    def fit(self, signals: Array) -> Transfer[tuple[Array, Array, Array]]:
        """Fit the signals (m, volumes) of some voxels: coefficients (m, n), residuals (m,), and which failed (m,).

        The results have to be waited for before ``IN_WORK`` later calls.
        """
        program, count, sizes, out = self._program, len(signals), self._sizes, self._outs[0]
        self._outs.rotate(-1)
        program.upload(self._signals, signals.view(np.int32).ravel())
        program.upload(out["ends"], np.full(count, kernels.FAILED, np.int32))
        values = {**self._cone, **out, "signals": self._signals, "state": self._state, "voxels": count}
        for first in range(0, kernels.RUN, self._turns):
            part = {"first": first, "last": first + self._turns}
            program.run("fit_run", -(-count // kernels.RUN), values | part)
        lengths = {"out": count * sizes.size, "errors": count, "ends": count}
        coming = [program.later(out[name], length) for name, length in lengths.items()]

        def wait() -> tuple[Array, Array, Array]:
            fitted, errors, ends = (transfer.wait() for transfer in coming)
            residuals = np.sqrt(np.maximum(errors.view(np.float32), 0) / sizes.volumes)
            return fitted.view(np.float32).reshape(count, -1)[:, : sizes.unknowns], residuals, ends != kernels.FITTED

        return Transfer(wait)


def _table(values: Array, width: int, height: int = 0) -> Array:
    """Pad a matrix with zeros to at least ``height`` rows of ``width``. Lanes may read beyond its end."""
    return flattened(padded(values, max(height, len(values)), width), LANES)


def _marks(values: npt.NDArray[np.bool_], width: int) -> npt.NDArray[np.int32]:
    """Return the rows of a matrix as words of 32 bits, padded with 0 to ``width`` bits."""
    bits = np.zeros((len(values), width), bool)
    bits[:, : values.shape[1]] = values
    return np.packbits(bits, axis=1, bitorder="little").view("<i4").astype(np.int32).ravel()
