"""Connectomes of a run: how many streamlines join two nodes of a parcellation, for any number of parcellations."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ...aliases import Array, Json
from ...backends.program import Program
from ...devices import usable_cores
from ...devices.threads import thread_pool
from ...errors import ParameterError
from ...io import sidecar
from ...io.matrices import beside, write_matrix, write_nodes, write_pairs
from ...io.trx import member_names
from ...kernels.products.lengths import measure_points
from ...space.batch import Batch, Groups, Space
from ..growth.settings import Settings
from .connectome_options import ConnectomeOptions, files, measures_of, tables_of, written
from .device_connectome import DeviceConnectomes
from .files import Checked
from .matrix import EdgeSums, Matrix, Measure, weighted, weighted_columns
from .parcellation import END_VOXEL, RADIAL, RADIUS, REVERSE, Parcellation
from .point_kernels import launch, program_of
from .sampled_means import SampledMeans
from .weighing import are_weighted, check_weights, weight_unit

MOST_THREADS = 8
MOST_GROUPS = 1000  # of which trx-python opens a file each, where 1024 are allowed
LONGEST = 200  # characters of the name of a group
WAITING = 8  # batches that may wait to be added


class Connectomes:
    """Makes the connectomes of a run, and writes them; see :class:`.files.ProductFile`.

    Parameters
    ----------
    options : its options.
    space, step_mm : of the image that is tracked, and the step size; not needed.
    threads : how many threads look for nodes; None for as many as help.
    """

    def __init__(
        self, options: ConnectomeOptions, space: Space, step_mm: float, threads: int | None = None
    ) -> None:
        pairs: Any = options.connectome
        self.paths = files(options)
        parcellations, self._sampled = INPUTS.take(options)
        self._measures, units = measures_of(options), self._sampled.units
        self._held: list[_Held] | None = None  # streamlines that wait for their weights
        if are_weighted(options):
            self._held = []
            self._measures = {name: weighted(one) for name, one in self._measures.items()}
        self._made = [
            _One(parcellation, Path(path), EdgeSums(len(parcellation.nodes), self._measures, units))
            for parcellation, (_, path) in zip(parcellations, pairs, strict=True)
        ]
        self._pairs, self._zero_diagonal = options.connectome_pairs, options.connectome_zero_diagonal
        self._group_names = group_names(self._made)
        self._many_groups = many_groups(self._group_names) if getattr(options, "groups", False) else ()
        self._threads = max(1, min(threads or usable_cores(), MOST_THREADS))
        self._waiting: deque[Future[_Held]] = deque()
        self._program: Program | None = None  # None: threads of the host measure
        self.value: tuple[Matrix, ...] = ()
        self.told: Json = {}
        self.doubts: tuple[str, ...] = ()

    def move_to(self, program: Program) -> None:
        """Measure lengths with this program; nodes need reals of 64 bits and are looked for on the host."""
        self._program = program

    def add(self, batch: Batch) -> None:
        """Add the streamlines of a batch, in another thread; wait if many batches are not added yet."""
        while len(self._waiting) > WAITING:
            self._finish_first()
        self._waiting.append(thread_pool("connectome", self._threads).submit(self._add, batch))

    def _add(self, batch: Batch) -> _Held:
        lengths, samples = lengths_of(batch, self._program), self._sampled.of(batch)
        found = _Held([one.parcellation.of_batch(batch) for one in self._made], lengths, batch.seed_number, samples)
        if self._held is None:
            self._sum(found, samples)
        return found

    def _sum(self, found: _Held, samples: Array | None) -> None:
        for one, nodes in zip(self._made, found.nodes, strict=True):
            one.add(nodes, found.lengths, found.numbers, samples)

    def _finish_first(self) -> None:
        """Wait for the first of the waiting batches, so that nodes are kept in the order of the streamlines."""
        found = self._waiting.popleft().result()
        for one, nodes in zip(self._made, found.nodes, strict=True):
            if self._pairs:
                one.pairs.append(nodes)
        if self._held is not None:
            self._held.append(found)

    def take_weights(self, weights: Array) -> None:
        """Sum the streamlines that have come, weighted, (n,); see :class:`.files.Weighted`."""
        while self._waiting:
            self._finish_first()
        assert self._held is not None
        most = np.zeros(3 + len(self._sampled.units))
        for found in self._held:
            most = np.maximum(most, np.abs(weighted_columns(found.lengths, found.samples)).max(axis=0, initial=0))
        units = np.array([weight_unit(weights, one) for one in most])
        for one in self._made:
            one.sums.take_units([*units[:3], *units[3:] * self._sampled.units])
        first = 0
        for found in self._held:
            own = weights[first : first + len(found.lengths), None] * units
            self._sum(found, np.rint(own * weighted_columns(found.lengths, found.samples)).astype(np.int64))
            first += len(own)
        self._held = []

    def groups(self, batch: Batch) -> tuple[Groups, ...]:
        """Return the nodes of the streamlines of a batch as groups, for each parcellation."""
        return tuple(
            Groups(names, one.parcellation.of_batch(batch))
            for names, one in zip(self._group_names, self._made, strict=True)
        )

    def collector(self, space: Space, settings: Settings) -> DeviceConnectomes | None:
        """Have only ends and lengths come back; return None if other points, or the order of all, are needed."""
        waits = self._held is not None
        if waits or self._pairs or self._sampled.maps or any(one.parcellation.needs_points for one in self._made):
            return None
        return DeviceConnectomes(space, self._made, self._threads)

    def write(self, *, force: bool) -> None:
        """Wait until all streamlines are added, and write the matrices."""
        while self._waiting:
            self._finish_first()
        self.value = tuple(one.matrix(self._measures) for one in self._made)
        if self._zero_diagonal:
            for made in self.value:
                for matrix in (*made.values.values(), *made.errors.values()):
                    np.fill_diagonal(matrix, 0)
        if self._pairs:
            for one in self._made:
                one.write_pairs(force)
        written = [
            one.write(made, self._measures, force) for one, made in zip(self._made, self.value, strict=True)
        ]
        self.told = {"matrices": [told for told, _ in written], "files": [file for _, some in written for file in some]}
        self.told |= {"samples": self._sampled.told} if self._sampled.maps else {}
        doubts = (one.doubts(made) for one, made in zip(self._made, self.value, strict=True))
        self.doubts = (*self._many_groups, *self._sampled.doubts, *(text for some in doubts for text in some))


@dataclass(frozen=True, eq=False)
class _Held:
    """What is summed of some streamlines: nodes of each parcellation, lengths, numbers of seeds, samples."""

    nodes: list[Array]
    lengths: Array
    numbers: Array
    samples: Array | None


class _One:
    """A parcellation, and the sums of its edges."""

    def __init__(self, parcellation: Parcellation, path: Path, sums: EdgeSums) -> None:
        self.parcellation, self.path, self.sums = parcellation, path, sums
        self.pairs: list[Array] = []  # the nodes of both ends of the streamlines of each batch, if they are written

    def add(self, found: Array, lengths: Array, numbers: Array, samples: Array | None = None) -> None:
        """Add streamlines; several threads may."""
        self.sums.add(found, lengths, numbers, samples)

    def matrix(self, measures: Mapping[str, Measure]) -> Matrix:
        """Return what was made so far."""
        one = self.parcellation
        return Matrix(
            str(one.path), one.nodes, one.names, *self.sums.matrices(measures, one.volumes),
            self.sums.unassigned, self.sums.streamlines,
        )

    def write(
        self, made: Matrix, measures: Mapping[str, Measure], force: bool
    ) -> tuple[Json, list[dict[str, str]]]:
        """Write the matrices of all measures, their errors and the nodes; return what the record says of them."""
        told = {
            "labels": made.labels, "nodes": len(made.nodes), "streamlines": made.streamlines,
            "unassigned": made.unassigned,
        }
        some = []
        for path, measure, what in written(self.path, measures):
            write_matrix(path, getattr(made, what)[measure], force=force)
            about = {"measure": measure, "holds": measures[measure].words if what == "values" else "standard error"}
            some.append({"path": str(path), "sha256": sidecar.sha256(path)} | about)
        write_nodes(beside(self.path, "_nodes", ".tsv"), made.nodes, made.names, self.parcellation.volumes, force=force)
        return told, some

    def write_pairs(self, force: bool) -> None:
        """Write the labels of the two nodes of each streamline, 0 for none."""
        labels = np.append(0, self.parcellation.nodes)
        pairs = [labels[nodes] for nodes in self.pairs] or [np.zeros((0, 2), int)]
        write_pairs(beside(self.path, "_pairs", ".tsv"), np.concatenate(pairs), force=force)

    def doubts(self, made: Matrix) -> list[str]:
        """Return why the matrix may be wrong."""
        nameless = self.parcellation.nameless
        missing = [name for name, volume in zip(made.names, self.parcellation.volumes, strict=True) if not volume]
        out = []
        if len(nameless):
            first = _first(nameless.tolist())
            out.append(f"{made.labels}: {len(nameless)} labels are not in the lookup table ({first}), and count as no "
                       "node: check that the table belongs to it")
        if missing:
            out.append(f"{made.labels}: {len(missing)} of {len(made.nodes)} nodes have no voxel ({_first(missing)}), "
                       "and their rows are 0")
        if made.streamlines and made.unassigned > made.streamlines / 2:
            out.append(f"{made.labels}: {made.unassigned:,} of {made.streamlines:,} streamlines have an end without a "
                       "node: check that the parcellation lies in the space of the tracked image")
        return out


def _first(some: Sequence[Any]) -> str:
    """Return the first of some names, in words."""
    return ", ".join(map(str, some[:5])) + (", ..." if len(some) > 5 else "")


def group_names(made: Sequence[_One]) -> list[tuple[str, ...]]:
    """Return the names of the groups of each parcellation: that of its file, and that of the node."""
    named = iter(member_names((f"{one.path.stem}_{name}" for one in made for name in one.parcellation.names), LONGEST))
    return [tuple(islice(named, len(one.parcellation.names))) for one in made]


def many_groups(names: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Say that a program may be unable to read so many groups."""
    if (count := sum(map(len, names))) <= MOST_GROUPS:
        return ()
    return (f"--groups: up to {count:,} groups are written, and trx-python opens a file for each: allow it more open "
            "files (ulimit -n), or give parcellations of fewer nodes",)


def lengths_of(batch: Batch, program: Program | None = None) -> Array:
    """Return the length of each streamline of a batch, (n,) int32, in 2^-16 mm, measured on the host by default."""
    values = {"points": batch.points.ravel(), "offsets": batch.offsets.astype(np.int32)}
    program = program or program_of(measure_points)
    made = launch(program, measure_points, len(batch), values, {"lengths": len(batch)})
    return program.host(made["lengths"], len(batch))


def inputs_of(options: ConnectomeOptions) -> tuple[list[Parcellation], SampledMeans]:
    """Read the parcellations, and the maps that are sampled."""
    pairs: Any = options.connectome
    radius = options.connectome_radius
    if radius is None:
        radius = RADIUS if options.connectome_assignment == RADIAL else 0.0
    parcellations = [
        Parcellation(labels, table, options.connectome_assignment, radius)
        for (labels, _), table in zip(pairs, tables_of(options), strict=True)
    ]
    return parcellations, SampledMeans(options.connectome_sample or ())


INPUTS = Checked(inputs_of)


def blank(options: ConnectomeOptions, space: Space, settings: Settings) -> DeviceConnectomes | None:
    """Return what brings ends back, whatever becomes of them; None if other points are needed."""
    needs_points = options.connectome_assignment == REVERSE or options.connectome_sample is not None
    needs_points = needs_points or options.connectome_pairs or are_weighted(options)
    return None if needs_points else DeviceConnectomes(space, ())


def check(options: ConnectomeOptions) -> None:
    """Read the parcellations and maps, which the run then takes: an error of a small file comes before the work."""
    measures_of(options)
    check_weights(options)
    if options.connectome_assignment == END_VOXEL and options.connectome_radius is not None:
        raise ParameterError("--connectome-radius has no effect with --connectome-assignment end-voxel: leave it out")
    INPUTS.check(options)
