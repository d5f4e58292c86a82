"""Lobes of orientation functions, which are the fixels of a voxel, found on any device as MRtrix3's ``fod2fixel`` does.

References
----------
Smith, Tournier, Calamante, Connelly. SIFT: spherical-deconvolution informed filtering of tractograms. NeuroImage 67,
2013, Appendix 2.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..aliases import Array
from ..backends import open_program
from ..backends.program import on_device
from ..devices import Device, usable_cores
from ..devices.threads import ahead, in_threads, single_blas, thread_pool
from ..errors import InputError
from ..kernels.fixels.lobes import NO_LOBE, VALUES
from ..kernels.fixels.lobes import find_lobes as kernel
from ..kernels.fixels.watershed import Half, LobeScratch
from ..linker.parts import Part, Source
from ..linker.records import INTS, REALS, spread, team_memory
from ..linker.transfer import Transfer
from ..space.cones import hexagonal
from ..space.geodesic import half_sphere, quadrature_weights
from ..space.harmonics import degrees, from_harmonics, order_of, to_descoteaux
from ..space.sphere import Ball, round_up, sphere_tables
from . import lobe_kernels

VOXELS = 8192  # in a launch, so that none is long
CONVERTING = 8  # threads that make rows of functions ahead, which bounds their memory
LAUNCHES = 4  # of which a GPU works at one, while threads copy what others have found
SLOTS = 8  # lobes of a voxel for which there is room at first
ROUNDED = 0.99  # of a peak's least amplitude, which no function below reaches by rounding
LOBES = 126  # the most that the table of directions can number


@dataclass(frozen=True)
class Thresholds:
    """Which lobes are kept, as the options ``-fmls_*`` of ``fod2fixel`` say it.

    Attributes
    ----------
    peak_value : float
        Least amplitude of a lobe's peak.
    integral : float
        Least integral of a lobe.
    merge_ratio : float
        Two lobes are one where the amplitude between them exceeds this part of the lower peak; with 1, none are.
    """

    peak_value: float = 0.1
    integral: float = 0.0
    merge_ratio: float = 1.0


@dataclass(frozen=True, eq=False)
class Lobes:
    """The lobes of n functions, by falling amplitude of the direction with which each begins.

    Attributes
    ----------
    counts : (n,) int32
        Lobes of each function.
    means, peaks : (m, 3) float32
        Unit vectors of each lobe, along the axes of the functions: of its mean direction, weighted by amplitude, and of
        its peak. The sign means nothing.
    integrals : (m,) float32
        Integral over the lobe and its opposite. The integral of the function over the whole sphere is in these units.
    amplitudes : (m,) float32
        Of the peak.
    words : (k, 328) int32, or None
        The table in words of four directions, as kernels read it, of the k functions with lobes.
    """

    counts: npt.NDArray[np.int32]
    means: npt.NDArray[np.float32]
    peaks: npt.NDArray[np.float32]
    integrals: npt.NDArray[np.float32]
    amplitudes: npt.NDArray[np.float32]
    words: npt.NDArray[np.int32] | None

    @property
    def table(self) -> npt.NDArray[np.uint8]:
        """Lobe of each direction, (n, 1281) uint8, if the caller wants it.

        Number within its voxel of the lobe to which each direction of :func:`.geodesic.half_sphere` belongs, 127 where
        a function has none. Directions outside all lobes belong to the nearest one; without ``dilate`` they have 127.
        """
        return self.words_of_all().view(np.uint8)[:, : len(half_sphere()[0])]

    def words_of_all(self) -> npt.NDArray[np.int32]:
        """Return the table in words of four directions for all functions, (n, 328)."""
        assert self.words is not None
        table = np.full((len(self.counts), 4 * self.words.shape[1]), NO_LOBE, np.uint8).view(np.int32)
        table[self.counts > 0] = self.words
        return table


def find_lobes(
    functions: npt.NDArray[np.float32], basis: str, thresholds: Thresholds, device: Device, *, table: bool = False,
    dilate: bool = True, threads: int | None = None, progress: Callable[[float], object] = lambda _: None,
) -> Lobes:
    """Find the lobes of orientation functions.

    Parameters
    ----------
    functions : (n, coefficients) float32
        Spherical harmonics, along any axes.
    basis : str
        One of harmonics.BASES that is symmetric.
    thresholds : Thresholds
        Which lobes are kept.
    device : Device
        The device that finds them. The result is the same everywhere.
    table : bool
        Also return the lobe of each direction.
    dilate : bool
        Whether directions outside all lobes belong, in the table, to the nearest one.
    threads : int, optional
        CPU threads; by default all cores.
    progress : callable
        Receives the share of the functions whose lobes are found, 0 to 1.

    Returns
    -------
    Lobes

    Raises
    ------
    InputError
        If a function has more than 126 lobes.
    DeviceError
        If the device cannot start, or lacks the memory.
    """
    search = _Search(functions.shape[1], thresholds, device, table, dilate, threads)
    change = from_harmonics(order_of(functions.shape[1])).T
    numbers = np.flatnonzero(_may_peak(functions, basis, thresholds.peak_value, threads))

    def convert(first: int) -> Array:
        block = functions[numbers[first : first + VOXELS]]
        rows = np.zeros((len(block), search.width), np.float32)
        rows[:, : block.shape[1]] = to_descoteaux(block, basis) @ change
        return rows

    # room for all: what is not filled takes no memory
    words, counts, filled = np.empty((len(numbers), search.words if table else 0), np.int32), [np.zeros(0, np.int32)], 0
    waiting: deque[_Launch] = deque()
    parts: list[Future[Array]] = []

    def take() -> None:
        """Have a thread copy what the first of the launches has found."""
        nonlocal filled
        counts.append((launch := waiting.popleft()).counts())
        part = words[filled : filled + np.count_nonzero(counts[-1])]
        parts.append(thread_pool("lobes", LAUNCHES).submit(launch.take, part))
        filled += len(part)
        progress(sum(map(len, counts)) / len(numbers))

    firsts, threads = range(0, len(numbers), VOXELS), min(threads or usable_cores(), CONVERTING)
    with single_blas():
        for number, rows in enumerate(ahead(convert, firsts, threads)):
            if number >= LAUNCHES:
                parts[number - LAUNCHES].result()  # whose memory this launch has
            waiting.append(search.launch(rows))
            if len(waiting) > 1:
                take()
    if waiting:
        take()
    values = np.concatenate([np.zeros((0, VALUES), np.float32), *(part.result() for part in parts)])
    counts_of_all = np.zeros(len(functions), np.int32)
    counts_of_all[numbers] = np.concatenate(counts)
    means, integrals, amplitudes, peaks = map(np.ascontiguousarray, np.split(values, (3, 4, 5), axis=1))
    return Lobes(counts_of_all, means, peaks, integrals[:, 0], amplitudes[:, 0], words[:filled] if table else None)


def _may_peak(functions: Array, basis: str, least: float, threads: int | None) -> npt.NDArray[np.bool_]:
    """Return which functions may have an amplitude (n,) from a least one on: most of a brain have none.

    No amplitude exceeds the sum over degrees l of the norm of their coefficients times sqrt((2 l + 1) / (4 pi)).
    """
    l_values = degrees(order_of(functions.shape[1]))[0]
    of_degree = l_values[:, None] == np.unique(l_values)
    highest = np.sqrt((2 * np.unique(l_values) + 1) / (4 * np.pi))

    def may(first: int) -> npt.NDArray[np.bool_]:
        squares = to_descoteaux(functions[first : first + VOXELS], basis) ** 2
        return ~(np.sqrt(squares @ of_degree) @ highest < ROUNDED * least)

    return np.concatenate([np.zeros(0, bool), *in_threads(may, range(0, len(functions), VOXELS), threads)])


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class LobeSearch(Part):
    """The constants of the search, see ``kernels/fixels``."""

    ball: Ball
    half_order: int
    row_chunks: int
    lobes: int
    merges: int
    table: int
    dilates: int
    symmetric: int = 1


class _Search:
    """The kernel on a device, with its tables and with buffers for launches of VOXELS functions."""

    def __init__(
        self, coefficients: int, thresholds: Thresholds, device: Device, table: bool, dilate: bool,
        threads: int | None,
    ) -> None:
        directions, edges = half_sphere()
        ball, sphere = sphere_tables(directions, edges, len(directions))
        self.width, self.directions = round_up(coefficients), len(directions)
        search = LobeSearch(
            ball=ball, half_order=order_of(coefficients) // 2, row_chunks=self.width // 32, lobes=LOBES,
            merges=int(thresholds.merge_ratio < 1), table=int(table), dilates=int(dilate),
        )
        root, scratch = kernel, LobeScratch
        if device.on_host:
            root, scratch = lobe_kernels.find_lobes, lobe_kernels.SortScratch
        team = team_memory("scratch", scratch, search)
        self.program = open_program(device, Source([root], [search], team), threads=threads)
        weights = np.zeros(32 * ball.vertex_chunks)
        weights[: len(directions)] = quadrature_weights()
        half = Half(sphere=sphere, weights=weights, pattern=_pattern())
        self.values = on_device(self.program, spread("half", half))
        self.values |= {f"rule_{name}": value for name, value in vars(thresholds).items()}
        self.values["coefficients"] = self.program.empty(VOXELS * self.width, REALS)
        self.words = 8 * ball.vertex_chunks if table else 0  # of a table
        self._memories = deque(self._memory() for _ in range(LAUNCHES))

    def _memory(self) -> dict[str, Any]:
        """Return memory for the lobes of a launch."""
        sizes = {"lobes_counts": VOXELS, "lobes_table": max(VOXELS * self.words, 1)}
        memory: dict[str, Any] = {name: self.program.empty(size, INTS) for name, size in sizes.items()}
        return self.with_slots(memory, SLOTS)

    def with_slots(self, memory: dict[str, Any], slots: int) -> dict[str, Any]:
        """Give memory room for so many lobes of each function, and return it."""
        memory.pop("lobes_values", None)  # frees its memory before the new allocation
        memory |= {"lobes_values": self.program.empty(VOXELS * slots * VALUES, INTS), "lobes_slots": slots}
        return memory

    def launch(self, rows: Array) -> _Launch:
        """Let the device search functions in rows (n, width), with the memory of ``LAUNCHES`` calls before."""
        self._memories.rotate(-1)
        return _Launch(self, rows, self._memories[-1])


class _Launch:
    """Functions that the device searches, in rows (n, width), and what it finds, in some memory."""

    def __init__(self, search: _Search, rows: Array, memory: dict[str, Any]) -> None:
        self._search, self._rows, self._memory = search, rows, memory
        self._coming = self._begin()

    def _begin(self) -> list[Transfer[npt.NDArray[np.int32]]]:
        """Launch the kernel; return what is copied afterwards: counts, values, and words of the table."""
        search, memory, count = self._search, self._memory, len(self._rows)
        search.program.upload(search.values["coefficients"], self._rows.ravel())
        search.program.run(kernel.__name__, count, search.values | memory)
        numbers = {"lobes_counts": 1, "lobes_values": memory["lobes_slots"] * VALUES, "lobes_table": search.words}
        return [search.program.later(memory[name], count * number) for name, number in numbers.items()]

    def counts(self) -> npt.NDArray[np.int32]:
        """Return the lobes of each function, (n,)."""
        while True:
            self._counts = self._coming[0].wait()
            if (self._counts < 0).any():
                raise InputError(f"a function has more than {LOBES} lobes: give functions of a lower order")
            if (most := int(self._counts.max())) <= self._memory["lobes_slots"]:
                return self._counts
            self._search.with_slots(self._memory, most)
            self._coming = self._begin()

    def take(self, words: Array) -> Array:
        """Return what is known of each lobe, (m, VALUES), and fill the words of the functions with lobes."""
        slots, count = self._memory["lobes_slots"], len(self._rows)
        values = self._coming[1].wait().view(np.float32).reshape(count, slots, VALUES)
        if self._search.words:
            table = self._coming[2].wait().reshape(count, -1)
            np.take(table, np.flatnonzero(self._counts), axis=0, out=words, mode="clip")  # other modes copy twice
            words.view(np.uint8)[:, self._search.directions :] = NO_LOBE
        return values[np.arange(slots) < self._counts[:, None]]


def _pattern() -> Array:
    """Return 32 places in a disc of radius 1, (64,), x then y: a hexagonal grid by rising radius, its centre twice."""
    places = hexagonal(1.0, 1 / np.sqrt(7.0001))
    places = places[np.lexsort(places.round(6).T[::-1])]
    places = np.concatenate([places, places[:1]])
    assert len(places) == 32
    return np.concatenate([places[:, 0] * np.cos(places[:, 1]), places[:, 0] * np.sin(places[:, 1])])
