"""Batches of voxels for the kernel of CSD (:mod:`.csd_kernels`): the layout of its tables, and its launches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..aliases import Array
from ..backends import open_program
from ..backends.program import on_device
from ..devices import CPU, Device, choose
from ..errors import InputError
from ..linker.host_arrays import flattened, in_chunks, padded
from ..linker.lang import LANES
from ..linker.parts import Part, Source
from ..linker.records import INTS, REALS, spread, team_memory
from ..space.harmonics import order_of
from ..space.sphere import round_up
from . import csd_kernels as kernels
from .csd_system import System

SMOOTH = 15  # number of coefficients up to degree 4: DIPY finds the first set of directions from these
RIDGE = 1e-5  # DIPY's mu, added to the diagonal if the directions do not determine the coefficients
ROWS = 4  # of a block of the matrix
TEAM_BYTES = 40 * 1024  # of a GPU's shared memory that a team may have
WORK = 3 * 10**8  # of a batch on the CPU, as cubes of the number of coefficients: 0.2 s of a Zen 4 core at order 8
ENDS = 3  # ways in which the kernel ends: converged, unfinished, singular


@dataclass(frozen=True)
class Pace:
    """How much a device is given at a time.

    Parameters
    ----------
    batch : voxels between two reports of progress.
    launch : voxels of a launch.
    run : voxels of a team, one after the other, in the same memory.
    solutions : of a voxel in a launch.
    """

    batch: int
    launch: int
    run: int
    solutions: int

    @classmethod
    def of(cls, device: Device, solutions: int, coefficients: int) -> Pace:
        """Return that of a device for so many solutions.

        Mesa's software driver ends loops after 65,535 turns, all of a launch together.
        """
        if device.on_host:
            voxels = min(WORK // coefficients**3, 1 << 14)
            return cls(voxels, voxels, 1, solutions)
        if device.software:
            return cls(1 << 12, 1 << 12, 1, 1)
        return cls(1 << 16, 1 << 15, 4, solutions)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Rows(Part):
    """The constant of the kernel: how many rows have sums that grow together."""

    abreast: int


# a GPU reads each column once for four rows; a CPU has too few registers for their sums
ON_HOST, ON_GPU = Rows(abreast=1), Rows(abreast=4)


def layout_of(system: System, run: int, *, in_team: bool) -> kernels.Layout:
    """Return the layout of equations; ``in_team``: whether matrix and factor lie in team memory in any case."""
    (volumes, n), directions = system.design.shape, len(system.positivity)
    groups, width = -(-directions // LANES), round_up(n + 1, ROWS)
    chunks, held = -(-width // LANES), _elements(n)
    fits = 8 * (held + 2 * round_up(n) + LANES * groups) <= TEAM_BYTES
    return kernels.Layout(
        coefficients=n, size=round_up(n), width=width, blocks=-(-n // ROWS), chunks=chunks,
        shift=chunks * LANES // ROWS - width // ROWS, few=min(SMOOTH, n), directions=directions, groups=groups,
        volumes=volumes, run=run, matrix=0 if in_team else held, factor=0 if in_team or fits else held,
    )


def scratch_of(layout: kernels.Layout) -> dict[str, tuple[str, int]]:
    """Return the team memory."""
    known = team_memory("work", kernels.Working, layout)
    places = {"matrix": layout.matrix, "factor": layout.factor}
    return known | {name: (REALS, _elements(layout.coefficients)) for name, step in places.items() if not step}


def begin_compiling() -> None:
    """Begin to compile the CPU's kernel of CSD, if it is not in the cache, beside other work."""
    open_program(choose(CPU), Source([kernels.fit_run], [ON_HOST]), threads=1, bits=64)


class Batches:
    """A program of the kernel for a device, with the tables of all voxels and memory for some.

    Parameters
    ----------
    device : where to compute.
    system : the equations.
    voxels : of all batches.
    solutions : the most of a voxel.
    threads : CPU threads; None is all cores.

    Raises
    ------
    InputError
        If the gradients do not determine the coefficients.
    """

    def __init__(self, device: Device, system: System, voxels: int, solutions: int, threads: int | None) -> None:
        self._solutions = solutions
        pace = self._pace = Pace.of(device, solutions, system.design.shape[1])
        layout = self._layout = layout_of(system, pace.run, in_team=device.on_host)
        rows = ON_HOST if device.on_host else ON_GPU
        tables, source = equations_of(system, layout), Source([kernels.fit_run], [rows], scratch_of(layout))
        self._program = program = open_program(device, source, threads=threads, bits=64)
        self.voxels = min(pace.batch, max(voxels, 1))
        runs = -(-min(pace.launch, self.voxels) // pace.run)
        self._out = {"out": program.empty(self.voxels * layout.size, INTS), "ends": program.empty(self.voxels, INTS)}
        self._signals = program.empty(self.voxels * layout.volumes, INTS)
        known = on_device(program, spread("equations", tables) | spread("layout", layout))
        self._values = known | self._out | {"signals": self._signals, "kept": program.empty(2 * LANES * runs, INTS)}
        for name, step in (("matrix", layout.matrix), ("factor", layout.factor)):
            if step:
                self._values[name] = program.empty(runs * step, REALS)

    def fit(self, signals: Array) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """Fit the signals (m, volumes) of some voxels: coefficients (m, n), and numbers of voxels by their end (3,)."""
        count, layout, pace = len(signals), self._layout, self._pace
        self._program.upload(self._signals, np.ascontiguousarray(signals, np.float32).view(np.int32).ravel())
        for first in range(0, count, pace.launch):
            last = min(first + pace.launch, count)
            for solved in range(0, self._solutions, pace.solutions):
                if solved and kernels.UNFINISHED not in self._program.host(self._out["ends"], last)[first:]:
                    break
                most = min(pace.solutions, self._solutions - solved)
                part = {"first": first, "last": last, "solved": solved, "most": most}
                self._program.run("fit_run", -(-(last - first) // pace.run), self._values | part)
        out = self._program.host(self._out["out"], count * layout.size).view(np.float32).reshape(count, -1)
        ends = np.bincount(self._program.host(self._out["ends"], count), minlength=ENDS)
        return out[:, : layout.coefficients], ends


def equations_of(system: System, layout: kernels.Layout) -> kernels.Equations:
    """Lay the equations out for the kernel."""
    n = layout.coefficients
    try:
        normal = _regular(system.normal)
        unconstrained = np.linalg.solve(normal, system.design.T)  # from signals to coefficients
    except np.linalg.LinAlgError as error:
        order = order_of(n)
        raise InputError(f"the gradients do not determine coefficients of order {order}: {lower(order)}") from error
    # position 32 k + l of a table of directions has the k-th direction of lane l
    positivity = padded(system.positivity, LANES * layout.groups, layout.width)
    positivity = positivity.reshape(LANES, layout.groups, -1).swapaxes(0, 1).reshape(LANES * layout.groups, -1)
    limits = np.array([system.positivity[0, 0], system.tau])
    return kernels.Equations(
        moments=in_chunks(system.design), unconstrained=in_chunks(unconstrained.T), normal=_blocks(normal, layout),
        table=flattened(positivity, LANES), sampling=in_chunks(positivity[:, :n].T), limits=limits,
    )


def _regular(normal: Array) -> Array:
    """Return X'X (n, n), with DIPY's small ridge if it has no Cholesky factor otherwise.

    Raises
    ------
    numpy.linalg.LinAlgError
        If it has none with the ridge.
    """
    try:
        np.linalg.cholesky(normal)
    except np.linalg.LinAlgError:
        normal = normal + RIDGE * np.eye(len(normal))
        np.linalg.cholesky(normal)
    return normal


def lower(order: int) -> str:
    """Return what to do if a series does not determine the coefficients of an order."""
    return "lower the order (--sh-order)" if order > 2 else "give a series of more directions"


def _elements(n: int) -> int:
    """Number of elements of a matrix of n rows, and of those that lanes read beyond its end."""
    return sum(ROWS * round_up(n + 1 - first) for first in range(0, n, ROWS)) + LANES


def _blocks(normal: Array, layout: kernels.Layout) -> npt.NDArray[np.float64]:
    """Return a symmetric matrix (n, n) in blocks of four rows, each from the first column of its block on."""
    whole = padded(normal, ROWS * layout.blocks, ROWS * layout.blocks + LANES * layout.chunks)
    firsts = range(0, layout.coefficients, ROWS)
    parts = [whole[f : f + ROWS, f : f + round_up(layout.coefficients + 1 - f)] for f in firsts]
    return flattened(np.concatenate([part.ravel() for part in parts]), LANES)
