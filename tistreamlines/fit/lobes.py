"""Lobes of orientation functions, which are the fixels of a voxel, found on any device as MRtrix3's ``fod2fixel`` does.

References
----------
Smith, Tournier, Calamante, Connelly. SIFT: spherical-deconvolution informed filtering of tractograms. NeuroImage 67,
2013, Appendix 2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..aliases import Array
from ..backends import open_program
from ..backends.program import on_device
from ..devices import Device
from ..devices.threads import in_threads, one_ahead
from ..errors import InputError
from ..kernels.fixels.lobes import NO_LOBE, VALUES
from ..kernels.fixels.lobes import find_lobes as kernel
from ..kernels.fixels.watershed import Half, LobeScratch
from ..linker.parts import Part, Source
from ..linker.records import INTS, REALS, spread, team_memory
from ..space.cones import hexagonal
from ..space.geodesic import half_sphere, quadrature_weights
from ..space.harmonics import degrees, from_harmonics, order_of, to_descoteaux
from ..space.sphere import Ball, round_up, sphere_tables
from . import lobe_kernels

VOXELS = 8192  # in a launch, so that none is long
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
    parts, words, filled = [], np.empty((len(numbers), search.words if table else 0), np.int32), 0
    counts, firsts = np.zeros(len(functions), np.int32), range(0, len(numbers), VOXELS)
    for first, rows in zip(firsts, one_ahead(convert, firsts), strict=True):
        counts[numbers[first : first + VOXELS]], values, known = search(rows)
        parts.append(values)
        words[filled : filled + len(known)] = known
        filled += len(known)
        progress((first + len(rows)) / len(numbers))
    values = np.concatenate([np.zeros((0, VALUES), np.float32), *parts])
    means, integrals, amplitudes, peaks = map(np.ascontiguousarray, np.split(values, (3, 4, 5), axis=1))
    return Lobes(counts, means, peaks, integrals[:, 0], amplitudes[:, 0], words[:filled] if table else None)


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


@dataclass(frozen=True, kw_only=True, eq=False)
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
    """The kernel on a device, with its tables and with buffers for VOXELS functions."""

    def __init__(
        self, coefficients: int, thresholds: Thresholds, device: Device, table: bool, dilate: bool,
        threads: int | None,
    ) -> None:
        directions, edges = half_sphere()
        ball, sphere = sphere_tables(directions, edges, len(directions))
        self.width, self._directions, self._table = round_up(coefficients), len(directions), table
        search = LobeSearch(
            ball=ball, half_order=order_of(coefficients) // 2, row_chunks=self.width // 32, lobes=LOBES,
            merges=int(thresholds.merge_ratio < 1), table=int(table), dilates=int(dilate),
        )
        root, scratch = kernel, LobeScratch
        if device.on_host:
            root, scratch = lobe_kernels.find_lobes, lobe_kernels.SortScratch
        team = team_memory("scratch", scratch, search)
        self._program = open_program(device, Source([root], [search], team), threads=threads)
        weights = np.zeros(32 * ball.vertex_chunks)
        weights[: len(directions)] = quadrature_weights()
        half = Half(sphere=sphere, weights=weights, pattern=_pattern())
        self._values = on_device(self._program, spread("half", half))
        self._values |= {f"rule_{name}": value for name, value in vars(thresholds).items()}
        self.words = 8 * ball.vertex_chunks  # of a table
        self._values |= {
            "coefficients": self._program.empty(VOXELS * self.width, REALS),
            "lobes_counts": self._program.empty(VOXELS, INTS),
            "lobes_table": self._program.empty(VOXELS * self.words if table else 1, INTS),
        }
        self._slots = 0
        self._allocate(SLOTS)

    def _allocate(self, slots: int) -> None:
        """Hold so many lobes of each function."""
        self._slots = slots
        self._values.pop("lobes_values", None)  # frees its memory before the new allocation
        values = self._program.empty(VOXELS * slots * VALUES, INTS)
        self._values |= {"lobes_values": values, "lobes_slots": slots}

    def __call__(self, rows: Array) -> tuple[Array, Array, Array]:
        """Return the numbers of lobes of functions in rows (n, width), what is known of each, and the table's words."""
        count = len(rows)
        self._program.upload(self._values["coefficients"], rows.ravel())
        while True:
            self._program.run(kernel.__name__, count, self._values)
            lobes = self._program.host(self._values["lobes_counts"], count)
            if (lobes < 0).any():
                raise InputError(f"a function has more than {LOBES} lobes: give functions of a lower order")
            if (most := int(lobes.max())) <= self._slots:
                break
            self._allocate(most)
        values = self._program.host(self._values["lobes_values"], count * self._slots * VALUES)
        values = values.view(np.float32).reshape(count, self._slots, VALUES)
        values = values[np.arange(self._slots) < lobes[:, None]]
        if not self._table:
            return lobes, values, np.empty((0, 0), np.int32)
        words = self._program.host(self._values["lobes_table"], count * self.words).reshape(count, -1)[lobes > 0]
        words.view(np.uint8)[:, self._directions :] = NO_LOBE
        return lobes, values, words


def _pattern() -> Array:
    """Return 32 places in a disc of radius 1, (64,), x then y: a hexagonal grid by rising radius, its centre twice."""
    places = hexagonal(1.0, 1 / np.sqrt(7.0001))
    places = places[np.lexsort(places.round(6).T[::-1])]
    places = np.concatenate([places, places[:1]])
    assert len(places) == 32
    return np.concatenate([places[:, 0] * np.cos(places[:, 1]), places[:, 0] * np.sin(places[:, 1])])
