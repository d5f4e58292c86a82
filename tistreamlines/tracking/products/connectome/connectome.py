"""Connectomes of a run: how many streamlines join two nodes of a parcellation, for any number of parcellations."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, pairwise
from pathlib import Path

import numpy as np

from ....aliases import Array
from ....backends.program import Program
from ....devices.threads import thread_pool
from ....errors import ParameterError
from ....io.tables import path_beside
from ....io.trx import member_names
from ....option import OUTPUT, ImageLike, OneOrMore, PathLike, TableLike, flag, of_each, option, pairs_of, values_of
from ....space.batch import Batch, Groups, Space
from ...growth.settings import Settings
from ..batch_work import Backlog, lengths_of, thread_count
from ..files import Maker, ProductFile, check_weights, weight_unit
from ..samples.sampler import SampledMeans, names_of
from .matrix import (
    MEASURES,
    UNWEIGHTED,
    Edges,
    Matrix,
    Measure,
    measures_of,
    weight_measure,
    weighted_columns,
    written,
)
from .on_device import DeviceConnectomes
from .parcellation import END_VOXEL, RADIAL, RADIUS, REVERSE, Parcellation, nodes_of

MOST_THREADS = 8
MOST_GROUPS = 1000  # of which trx-python opens a file each, where 1024 are allowed
LONGEST = 200  # characters of the name of a group
BLOCK = 1 << 18  # streamlines that are weighted at a time
WAITING = 8  # batches that may wait to be added
Inputs = tuple[list[Parcellation], SampledMeans]  # parcellations, and the maps that are sampled


@dataclass(frozen=True)
class ConnectomeOptions:
    """Options of connectomes, a part of :class:`tistreamlines.Parameters`."""

    connectome: OneOrMore[tuple[ImageLike, PathLike]] | None = option(
        None, OUTPUT, "Write the matrix of how many streamlines join two nodes of the parcellation LABELS to FILE, "
        ".csv, .tsv or .npy, with its standard errors and its nodes in files beside it. LABELS may also have the "
        "probabilities of a node in each volume, among which ends are shared. Without --output, no streamline is "
        "written.", unit="LABELS FILE", absent="not written", affects="run",
    )
    connectome_assignment: str = option(
        RADIAL, OUTPUT, "Node of --connectome for an end: of the nearest voxel within a radius, of the voxel that "
        "holds it, or the first one on the way back to the middle.", choices=(RADIAL, END_VOXEL, REVERSE),
        requires=("connectome",), affects="run",
    )
    connectome_radius: float | None = option(
        None, OUTPUT, "Greatest distance between an end and its node of --connectome.", unit="mm", low=0, above=True,
        absent="4 with --connectome-assignment radial, any distance with reverse", requires=("connectome",),
        affects="run",
    )
    connectome_measure: OneOrMore[str] | None = option(
        None, OUTPUT, f"The values of --connectome for two nodes: {', '.join(MEASURES)}; with {UNWEIGHTED} before it, "
        "those without --weights. The first one is written to its FILE, each other one to a file beside it.",
        unit="MEASURE", absent="count", requires=("connectome",), affects="run",
    )
    connectome_sample: OneOrMore[ImageLike] | None = option(
        None, OUTPUT, "Write the mean of this map over the streamlines of each edge, too, to *_NAME_mean beside FILE, "
        "where NAME is that of the map. A streamline has the mean along it, as MRtrix3's tcksample -stat_tck mean "
        "computes it: weighted by length, and with 0 outside the map. The map can have any grid.", unit="MAP",
        absent="none", requires=("connectome",), affects="run",
    )
    connectome_nodes: OneOrMore[TableLike] | None = option(
        None, OUTPUT, "Lookup table whose nodes are the rows of --connectome, in its order: of FreeSurfer, MRtrix3, "
        "FSL (.xml) or BIDS (.tsv). One for all parcellations, or one for each.", unit="FILE",
        absent="the labels from 1 to the greatest one", requires=("connectome",), affects="run",
    )
    connectome_pairs: bool = option(
        False, OUTPUT, "Also write the two nodes of each streamline, 0 for none, to a file beside each matrix of "
        "--connectome (_pairs.tsv): a line for each streamline, in the order of the tractogram.",
        off="no-connectome-pairs", requires=("connectome",), affects="run",
    )
    weights: str | None = option(
        None, OUTPUT, "Weigh the streamlines in --connectome, --density and --ends: sift2 for the weights of --sift2, "
        "or a text file of weights in the order of the streamlines, as tcksift2 writes it. All measures and maps are "
        "those of weighted streamlines, as with -tck_weights_in of tck2connectome and tckmap. With sift2 "
        "alone, track writes weights by its own FODs beside the tractogram, NAME_weights.txt.", unit="sift2 or FILE",
        absent="each streamline counts the same", affects="run",
    )
    connectome_zero_diagonal: bool = option(
        False, OUTPUT, "Set the diagonal of --connectome to 0: streamlines with both ends in the same node do not "
        "count.", off="no-connectome-zero-diagonal", requires=("connectome",), affects="run",
    )


@dataclass(frozen=True)
class ConnectomeInputs(ConnectomeOptions):
    """Options of connectomes, and those of a run that they need."""

    sift2: object = None
    groups: bool = False


def tables_of(options: ConnectomeOptions) -> Sequence[TableLike | None]:
    """Return the lookup table of each parcellation, or None."""
    return of_each(
        "connectome", len(values_of(options.connectome)), "connectome_nodes", values_of(options.connectome_nodes),
        "one table for all parcellations",
    )


def measures_asked(options: ConnectomeOptions) -> dict[str, Measure]:
    """Return the measures that options name, those of sampled maps at the end."""
    return measures_of(values_of(options.connectome_measure), names_of(values_of(options.connectome_sample)))


def files(options: ConnectomeOptions) -> tuple[Path, ...]:
    """Return all files that are written."""
    out = []
    for _, path in pairs_of(options.connectome):
        out += [file for file, *_ in written(path, measures_asked(options))] + [path_beside(path, "_nodes", ".tsv")]
        out += [path_beside(path, "_pairs", ".tsv")] * options.connectome_pairs
    return tuple(out)


class Connectomes(ProductFile):
    """Makes the connectomes of a run, and writes them.

    Parameters
    ----------
    options : its options.
    space, step_mm : of the image that is tracked, and the step size; not needed.
    threads : how many threads look for nodes; None for as many as help.
    inputs : what :func:`inputs_of` returns; it is read by default.
    """

    def __init__(
        self, options: ConnectomeInputs, space: Space, step_mm: float, threads: int | None = None,
        inputs: Inputs | None = None,
    ) -> None:
        super().__init__(*files(options))
        parcellations, self._sampled = inputs or inputs_of(options)
        self._measures, self._collector = measures_asked(options), collector_of(options)
        self._units = self._sampled.units
        self._weighted = options.weights is not None
        self._held: list[_StreamlineData] = []  # streamlines that wait for their weights
        self._nodes: list[list[Array]] = []  # of each batch, if pairs are written
        if self._weighted:
            self._measures = {name: weight_measure(measure) for name, measure in self._measures.items()}
        self._edges = [
            Edges(parcellation, path, self._measures)
            for parcellation, (_, path) in zip(parcellations, pairs_of(options.connectome), strict=True)
        ]
        self._pairs, self._zero_diagonal = options.connectome_pairs, options.connectome_zero_diagonal
        self._group_names = group_names(self._edges)
        self._many_groups = many_groups(self._group_names) if options.groups else ()
        self._threads = thread_count(threads, MOST_THREADS)
        self._backlog = Backlog("connectome", self._threads, WAITING, self._keep)
        self._program: Program | None = None  # None: threads of the host measure
        self.value: tuple[Matrix, ...] = ()

    def move_to(self, program: Program) -> None:
        """Measure lengths with this program; nodes need reals of 64 bits and are looked for on the host."""
        self._program = program

    def add(self, batch: Batch) -> None:
        """Add the streamlines of a batch, in another thread; wait if many batches are not added yet."""
        self._backlog.submit(self._add, batch)

    def _add(self, batch: Batch) -> _StreamlineData:
        lengths, samples = lengths_of(batch, self._program), self._sampled.of(batch)
        nodes = self._nodes_of(batch)
        joined = _StreamlineData(nodes, lengths, batch.seed_number, samples)
        if not self._weighted:
            self._sum(joined, samples)
        return joined

    def _nodes_of(self, batch: Batch) -> list[Array]:
        return nodes_of([edges.parcellation for edges in self._edges], batch)

    def _sum(self, joined: _StreamlineData, samples: Array | None) -> None:
        for edges, nodes in zip(self._edges, joined.nodes, strict=True):
            edges.sums.add(nodes, joined.lengths, joined.numbers, samples)

    def _keep(self, joined: _StreamlineData) -> None:
        """Keep what is needed of a batch, in the order of the streamlines."""
        if self._pairs:
            self._nodes.append(joined.nodes)
        if self._weighted:
            self._held.append(joined)

    def take_weights(self, weights: Array) -> None:
        """Sum the streamlines that have come, weighted, (n,)."""
        self._backlog.wait()
        pool, held = thread_pool("connectome", self._threads), list(blocks_of(self._held))
        self._held = []
        greatest = np.zeros(3 + len(self._sampled.units))
        for most in pool.map(_StreamlineData.greatest, held):
            greatest = np.maximum(greatest, most)
        units = np.array([weight_unit(weights, most) for most in greatest])
        self._units = [*units[:3], *units[3:] * self._sampled.units]

        def add(joined: _StreamlineData, last: int) -> None:
            unit = weights[last - len(joined.lengths) : last, None] * units
            self._sum(joined, np.rint(unit * weighted_columns(joined.lengths, joined.samples)).astype(np.int64))

        deque(pool.map(add, held, np.cumsum([len(joined.lengths) for joined in held]).tolist()), maxlen=0)

    def groups(self, batch: Batch) -> tuple[Groups, ...]:
        """Return the nodes of the streamlines of a batch as groups, for each parcellation."""
        return tuple(map(Groups, self._group_names, self._nodes_of(batch)))

    def collector(self, space: Space, settings: Settings) -> DeviceConnectomes | None:
        """Have only ends and lengths come back; return None if other points, or the order of all, are needed."""
        return None if self._collector is None else self._collector(space, self._edges, self._threads)

    def write(self, *, force: bool) -> None:
        """Wait until all streamlines are added, and write the matrices."""
        self._backlog.wait()
        self.value = tuple(edges.matrix(self._measures, self._units) for edges in self._edges)
        doubts = [*self._many_groups, *self._sampled.doubts]
        self.details = {"matrices": [], "files": []}
        for place, (edges, matrix) in enumerate(zip(self._edges, self.value, strict=True)):
            if self._zero_diagonal:
                for values in (*matrix.values.values(), *matrix.errors.values()):
                    np.fill_diagonal(values, 0)
            if self._pairs:
                edges.write_pairs((nodes[place] for nodes in self._nodes), force=force)
            details, described = edges.write(matrix, self._measures, force=force)
            self.details["matrices"].append(details)
            self.details["files"] += described
            doubts += edges.doubts(matrix)
        self.details |= {"samples": self._sampled.details} if self._sampled.maps else {}
        self.doubts = tuple(doubts)


@dataclass(frozen=True, eq=False)
class _StreamlineData:
    """The amounts of streamlines in a connectome: nodes of each parcellation, lengths, numbers of seeds, samples."""

    nodes: list[Array]
    lengths: Array
    numbers: Array
    samples: Array | None

    @classmethod
    def join(cls, parts: Sequence[_StreamlineData]) -> _StreamlineData:
        """Return the streamlines of several ones."""
        lengths, numbers = (np.concatenate([getattr(part, name) for part in parts]) for name in ("lengths", "numbers"))
        nodes = [np.concatenate(rows) for rows in zip(*(part.nodes for part in parts), strict=True)]
        samples = [part.samples for part in parts if part.samples is not None]
        return cls(nodes, lengths, numbers, np.concatenate(samples) if samples else None)

    def greatest(self) -> Array:
        """Return the greatest sizes of the columns that are summed with weights, (3 + maps,)."""
        return np.abs(weighted_columns(self.lengths, self.samples)).max(axis=0, initial=0)


def blocks_of(held: Sequence[_StreamlineData]) -> Iterator[_StreamlineData]:
    """Join what is known of streamlines in their order; threads are slow with small arrays."""
    blocks = np.cumsum([len(part.lengths) for part in held]) // BLOCK
    begins = [0, *(np.flatnonzero(np.diff(blocks)) + 1).tolist(), len(held)]
    return (_StreamlineData.join(held[a:b]) for a, b in pairwise(begins) if b > a)


def group_names(parcels: Sequence[Edges]) -> list[tuple[str, ...]]:
    """Return the names of the groups of each parcellation: its file's name and the node's."""
    whole = (f"{edges.path.stem}_{name}" for edges in parcels for name in edges.parcellation.names)
    names = iter(member_names(whole, LONGEST))
    return [tuple(islice(names, len(edges.parcellation.names))) for edges in parcels]


def many_groups(names: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Say that a program may be unable to read so many groups."""
    if (count := sum(map(len, names))) <= MOST_GROUPS:
        return ()
    return (f"--groups: up to {count:,} groups are written, and trx-python opens a file for each: allow it more open "
            "files (ulimit -n), or give parcellations of fewer nodes",)


def inputs_of(options: ConnectomeInputs) -> Inputs:
    """Read the parcellations, and the maps that are sampled."""
    radius = options.connectome_radius
    if radius is None:
        radius = RADIUS if options.connectome_assignment == RADIAL else 0.0
    parcellations = [
        Parcellation(labels, table, options.connectome_assignment, radius)
        for (labels, _), table in zip(pairs_of(options.connectome), tables_of(options), strict=True)
    ]
    _check_nodes(options, parcellations)
    return parcellations, SampledMeans(values_of(options.connectome_sample))


def _check_nodes(options: ConnectomeInputs, parcellations: Iterable[Parcellation]) -> None:
    """Raise a ParameterError if an option needs the single node of an end, which probabilities do not have."""
    needing = [name for name in ("connectome_pairs", "groups") if getattr(options, name)]
    soft = [parcellation.path for parcellation in parcellations if parcellation.shares is not None]
    if needing and soft:
        raise ParameterError(f"{flag(needing[0])} needs a single node for each end, but {soft[0]} has probabilities: "
                             "leave it out, or give an image with the label of the most probable node")


def collector_of(options: ConnectomeInputs) -> type[DeviceConnectomes] | None:
    """Return what brings ends and lengths back; None if other points, or the order of all streamlines, are needed."""
    needs_points = options.connectome_assignment == REVERSE or options.connectome_sample is not None
    needs_order = options.connectome_pairs or options.weights is not None
    return None if needs_points or needs_order else DeviceConnectomes


def check(options: ConnectomeInputs) -> Maker:
    """Read the parcellations and maps, which the run then takes: an error of a small file comes before the work."""
    measures_asked(options)
    check_weights(options.weights, options.sift2)
    if options.connectome_assignment == END_VOXEL and options.connectome_radius is not None:
        raise ParameterError("--connectome-radius has no effect with --connectome-assignment end-voxel: leave it out")
    return partial(Connectomes, options, inputs=inputs_of(options))
