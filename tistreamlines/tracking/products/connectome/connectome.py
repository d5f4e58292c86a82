"""Connectomes of a run: how many streamlines join two nodes of a parcellation, for any number of parcellations."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import TypeVar

import numpy as np

from ....aliases import Array, Json
from ....backends.program import Program
from ....devices.host import give_memory_back
from ....devices.threads import in_threads, thread_pool
from ....errors import ParameterError
from ....io.tables import path_beside
from ....io.trx import member_names
from ....option import OUTPUT, ImageLike, OneOrMore, PathLike, TableLike, flag, of_each, option, pairs_of, values_of
from ....space.batch import Batch, Groups, Space
from ...growth.settings import Settings
from ..batch_work import Backlog, lengths_of, thread_count
from ..files import Maker, ProductFile, check_weights, weight_unit
from ..samples.sampler import SampledMeans, names_of
from .held import Block, Held, in_blocks
from .matrix import (
    MEASURES,
    QSIRECON,
    QSIRECON_MEASURES,
    UNWEIGHTED,
    Edges,
    Matrix,
    Measure,
    amounts_of,
    load_kernels,
    measures_of,
    weight_measure,
    written,
)
from .node_lookup import Ends, NodeLookup
from .on_device import DeviceConnectomes
from .parcellation import END_VOXEL, RADIAL, RADIUS, REVERSE, Parcellation

MOST_THREADS = 8  # while streamlines are tracked
QSIRECON_RADIUS = 2.0  # mm
MOST_GROUPS = 1000  # of which trx-python opens a file each, where 1024 are allowed
LONGEST = 200  # characters of the name of a group
WAITING = 8  # batches that may wait to be added
Outcome = TypeVar("Outcome")
Inputs = tuple[list[Parcellation], NodeLookup, SampledMeans]  # parcellations, their nodes, and maps to sample


@dataclass(frozen=True, repr=False, eq=False)
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
        "those without --weights. The first one is written to its FILE, each other one to a file beside it. "
        f"{QSIRECON} stands for QSIRecon's four, within 2 mm, by their names there, as radius2_count.",
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


@dataclass(frozen=True, repr=False, eq=False)
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
        parcellations, self._lookup, self._sampled = inputs or inputs_of(options)
        self._measures, self._collector = measures_asked(options), collector_of(options)
        self._units = self._sampled.units
        self._weighted, self._pairs = options.weights is not None, options.connectome_pairs
        self._held: list[Held] = []  # streamlines that wait for their weights, or whose order matters
        self._ordered: Future[list[Block]] | None = None
        if self._weighted:
            thread_pool("connectome blocks", 1).submit(load_kernels)  # while streamlines are tracked
            self._measures = {name: weight_measure(measure) for name, measure in self._measures.items()}
        self._edges = [
            Edges(parcellation, path, self._measures)
            for parcellation, (_, path) in zip(parcellations, pairs_of(options.connectome), strict=True)
        ]
        self._zero_diagonal = options.connectome_zero_diagonal
        self.inner_points = self._lookup.needs_points or bool(self._units)
        self._group_names = group_names(self._edges) if options.groups else []
        self._many_groups = many_groups(self._group_names)
        self._threads, self._all_threads = thread_count(threads, MOST_THREADS), threads
        self._backlog = Backlog("connectome", self._threads, WAITING, self._keep)
        self._program: Program | None = None  # None: threads of the host measure
        self.value: tuple[Matrix, ...] = ()

    def move_to(self, program: Program) -> None:
        """Measure lengths with this program; nodes need reals of 64 bits and are looked for on the host."""
        self._program = program

    def add(self, batch: Batch) -> None:
        """Add the streamlines of a batch, in another thread; wait if many batches are not added yet."""
        self._backlog.submit(self._add, batch)

    def _add(self, batch: Batch) -> Held | None:
        lengths, samples = lengths_of(batch, self._program), self._sampled.of(batch)
        if self._weighted or self._pairs:
            ends = self._lookup.along(batch) if self._lookup.needs_points else Ends.of(batch)
            return Held(ends, lengths, batch.seed_number, samples)
        amounts = amounts_of(self._edges, lengths, samples)
        for edges, nodes in zip(self._edges, self._lookup.along(batch), strict=True):
            edges.sums.add(nodes, batch.seed_number, amounts[edges.sums.whole])
        return None

    def _keep(self, held: Held | None) -> None:
        """Keep what is needed of a batch, in the order of the streamlines."""
        if held is not None:
            self._held.append(held)

    def complete(self) -> None:
        """Begin to put the streamlines in order while they are weighed."""
        if self._ordered is None and self._weighted:
            self._backlog.wait()
            self._ordered = thread_pool("connectome blocks", 1).submit(self._order)

    def take_weights(self, weights: Array) -> None:
        """Weigh the streamlines that have come, (n,)."""
        blocks, greatest = self._blocks(), np.zeros(3 + len(self._sampled.units))
        for most in in_threads(lambda block: block.held.greatest(), blocks, self._all_threads):
            greatest = np.maximum(greatest, most)
        units = np.array([weight_unit(weights, most) for most in greatest])
        self._units = [*units[:3], *units[3:] * self._sampled.units]
        in_threads(lambda block: block.weigh(weights, units), blocks, self._all_threads)

    @property
    def parcellations(self) -> list[Parcellation]:
        """Those whose nodes are the rows of the matrices."""
        return [edges.parcellation for edges in self._edges]

    def nodes(self, batch: Batch) -> list[Array]:
        """Return the nodes of both ends of the streamlines of a batch, (n, 2), 0 for none, in each parcellation."""
        return self._lookup.along(batch)

    def groups(self, batch: Batch) -> tuple[Groups, ...]:
        """Return the nodes of the streamlines of a batch as groups, for each parcellation."""
        return tuple(map(Groups, self._group_names, self.nodes(batch)))

    def collector(self, space: Space, settings: Settings) -> DeviceConnectomes | None:
        """Have only ends and lengths come back; return None if other points, or the order of all, are needed."""
        return None if self._collector is None else self._collector(space, self._edges, self._lookup, self._threads)

    def write(self, *, force: bool) -> None:
        """Wait until all streamlines are added, and write the matrices, several at a time."""
        work = self._each(partial(self._finish, force=force))
        self._take([matrix for matrix, *_ in work])
        self.details = {
            "matrices": [details for _, details, _ in work], "files": [file for *_, files in work for file in files],
        }
        self.details |= {"samples": self._sampled.details} if self._sampled.maps else {}

    def matrices(self) -> tuple[Matrix, ...]:
        """Wait until all streamlines are added, and return the matrices, which are not written."""
        self._take([matrix for matrix, _ in self._each(self._matrix)])
        return self.value

    def _each(self, make: Callable[[Sequence[Block], int], Outcome]) -> list[Outcome]:
        """Make something of each connectome, several at a time."""
        blocks = self._blocks()
        in_threads(lambda block: block.measure(self._edges), blocks, self._all_threads)
        largest_first = sorted(range(len(self._edges)), key=lambda place: -self._edges[place].sums.nodes)
        made = in_threads(partial(make, blocks), largest_first, self._all_threads)
        return [outcome for _, outcome in sorted(zip(largest_first, made, strict=True), key=itemgetter(0))]

    def _take(self, matrices: Sequence[Matrix]) -> None:
        """Keep the matrices, and why they may be wrong."""
        self.value = tuple(matrices)
        doubts = [*self._many_groups, *self._sampled.doubts]
        doubts += [text for edges, matrix in zip(self._edges, self.value, strict=True) for text in edges.doubts(matrix)]
        self.doubts = tuple(doubts)

    def _blocks(self) -> list[Block]:
        """Return the streamlines that were held, in order."""
        self._backlog.wait()
        if self._ordered is None:
            self._ordered = Future()
            self._ordered.set_result(self._order())
        return self._ordered.result()

    def _order(self) -> list[Block]:
        """Put the streamlines that were held in order."""
        if not self._held:
            return []
        whole, self._held = Held.join(self._held), []
        return in_threads(lambda places: Block(whole, places, self._lookup), in_blocks(whole), self._all_threads)

    def _finish(
        self, blocks: Sequence[Block], place: int, *, force: bool
    ) -> tuple[Matrix, Json, list[dict[str, str]]]:
        """Write a connectome; return it, and what the record says of it."""
        edges, (matrix, pairs) = self._edges[place], self._matrix(blocks, place)
        if self._pairs:
            edges.write_pairs(pairs, force=force)
        return matrix, *edges.write(matrix, self._measures, force=force)

    def _matrix(self, blocks: Sequence[Block], place: int) -> tuple[Matrix, Array]:
        """Add the streamlines that were held to a connectome; return it, and the nodes of these if they are written."""
        sums, count = self._edges[place].sums, sum(len(block.places) for block in blocks)
        pairs = np.zeros((count if self._pairs else 0, 2), np.int32)

        def parts() -> Generator[tuple[Block, Array], None, None]:
            for block in blocks:
                nodes = block.nodes(place)
                if self._pairs:
                    pairs[block.places] = nodes
                yield block, nodes

        keyed = None
        if sums.is_direct and blocks:
            keyed = sums.of_blocks(((nodes, it.blocks, it.amounts[sums.whole]) for it, nodes in parts()), count)
        else:
            for block, nodes in parts():
                sums.add(nodes, block.held.numbers, block.amounts[sums.whole])
        matrix = self._edges[place].matrix(self._measures, self._units, keyed)
        if blocks:  # those of other connectomes follow
            sums.keyed.take()
            self._lookup.forget(place)
        if self._zero_diagonal:
            matrix.values.zero_diagonal()
            matrix.errors.zero_diagonal()
        return matrix, pairs


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
        whole = QSIRECON_RADIUS if QSIRECON_MEASURES.keys() & measures_asked(options) else RADIUS
        radius = whole if options.connectome_assignment == RADIAL else 0.0
    images, rule = [labels for labels, _ in pairs_of(options.connectome)], options.connectome_assignment
    parcellations = in_threads(
        lambda item: Parcellation(*item, rule, radius), zip(images, tables_of(options), strict=True), None
    )
    _check_nodes(options, parcellations)
    lookup = NodeLookup(parcellations)  # at once, since parcellations take less memory then
    give_memory_back()
    return parcellations, lookup, SampledMeans(values_of(options.connectome_sample))


def _check_nodes(options: ConnectomeInputs, parcellations: Iterable[Parcellation]) -> None:
    """Raise a ParameterError if an option needs the single node of an end, which probabilities do not have."""
    needing = [name for name in ("connectome_pairs", "groups") if getattr(options, name)]
    soft = [parcellation.path for parcellation in parcellations if parcellation.shares is not None]
    if needing and soft:
        raise ParameterError(f"{flag(needing[0])} needs a single node for each end, but {soft[0]} has probabilities: "
                             "leave it out, or give an image with the label of the most probable node")


def excludes_radius(radius: object, assignment: object, measures: Iterable[str]) -> str:
    """Return the option and the value, in words, with which this --connectome-radius cannot be combined, or ''."""
    if assignment == END_VOXEL:
        return f"--connectome-assignment {END_VOXEL}"
    near = {QSIRECON, *QSIRECON_MEASURES}.intersection(measures)
    return f"--connectome-measure {min(near)}" if near and radius != QSIRECON_RADIUS else ""


def _check_qsirecon(options: ConnectomeInputs) -> None:
    """Raise a ParameterError if a measure has a name of QSIRecon, but is another one."""
    names = [name for name in measures_asked(options) if name in QSIRECON_MEASURES]
    within = options.connectome_radius in (None, QSIRECON_RADIUS) and options.connectome_assignment == RADIAL
    if names and not within:
        raise ParameterError(f"--connectome-measure {names[0]} is that of nodes within {QSIRECON_RADIUS:g} mm: leave "
                             f"out --connectome-radius and --connectome-assignment, or give "
                             f"{QSIRECON_MEASURES[names[0]]}")
    weighted = [name for name in names if not QSIRECON_MEASURES[name].startswith(UNWEIGHTED)]
    if weighted and options.weights is None:
        raise ParameterError(f"--connectome-measure {weighted[0]} needs --weights")


def collector_of(options: ConnectomeInputs) -> type[DeviceConnectomes] | None:
    """Return what brings ends and lengths back; None if other points, or the order of all streamlines, are needed."""
    needs_points = options.connectome_assignment == REVERSE or options.connectome_sample is not None
    needs_order = options.connectome_pairs or options.weights is not None
    return None if needs_points or needs_order else DeviceConnectomes


def check(options: ConnectomeInputs) -> Maker:
    """Read the parcellations and maps, which the run then takes: an error of a small file comes before the work."""
    _check_qsirecon(options)
    check_weights(options.weights, options.sift2)
    radius = options.connectome_radius
    other = excludes_radius(radius, options.connectome_assignment, values_of(options.connectome_measure))
    if radius is not None and other:
        raise ParameterError(f"--connectome-radius has no effect with {other}: leave it out")
    return partial(Connectomes, options, inputs=inputs_of(options))
