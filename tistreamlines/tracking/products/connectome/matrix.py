"""The matrix of a parcellation: sums over the streamlines of each edge, standard errors, and the files of both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ....aliases import Array, Json
from ....backends.numba.cache import Function, text_of
from ....errors import ParameterError, listed
from ....io import sidecar
from ....io.drafts import completed
from ....io.number_lines import SymmetricLines
from ....io.tables import SEPARATORS, path_beside, write_lines, write_matrix, write_nodes
from ....kernels.products.lengths import UNITS
from ..files import first_of
from ..keyed_sums import MOST_DIRECT, SPARSE, KeyedSums
from .parcellation import Parcellation
from .shares import UNITS as STREAMLINE
from .shares import Shares

BLOCK_BITS = 5
BLOCKS = 1 << BLOCK_BITS  # of seeds, by their number modulo this, of which the jackknife leaves one out at a time
INVERSE = 2.0**32  # units of 1 / mm
DIGITS = 3  # of parts of streamlines
COUNT, LENGTH, INVERSE_LENGTH, SAMPLED = range(4)  # columns of the sums; those of sampled maps are the last ones
VOLUME = -1  # stands for no column
Keyed = tuple[Array, Array]  # edges and blocks, and their sums, (n, columns)
_text = text_of(Path(__file__).with_name("edges_kernels.py"))
_number_edges, _sum_edges = Function(_text, "number_edges"), Function(_text, "sum_edges")
_order_edges, _measure_edges = Function(_text, "order_edges"), Function(_text, "measure_edges")


@dataclass(frozen=True)
class Measure:
    """The measures of each edge of a connectome: a sum over its streamlines, which may be divided by another number.

    Attributes
    ----------
    words : what it is.
    column : that of the sum.
    divisor : the column of the sum by which it is divided; VOLUME for the mean number of voxels of both nodes, None
        for nothing.
    total : whether it is a sum over streamlines, not a mean.
    weighable : whether it is that of weighted streamlines where these have weights.
    """

    words: str
    column: int
    divisor: int | None = None
    total: bool = True
    weighable: bool = True

    @property
    def columns(self) -> set[int]:
        """Those of the sums that it is made of."""
        return {self.column} if self.divisor is None or self.divisor == VOLUME else {self.column, self.divisor}


UNWEIGHTED = "unweighted-"  # before the name of a measure
MEASURES: dict[str, Measure] = {
    "count": Measure("number of streamlines", COUNT),
    "length": Measure("summed length, mm", LENGTH),
    "mean-length": Measure("mean length, mm", LENGTH, COUNT, total=False),
    "inverse-length": Measure("sum of 1 / length, 1 / mm", INVERSE_LENGTH),
    "inverse-volume": Measure(
        "number of streamlines divided by the mean number of voxels of the two nodes", COUNT, VOLUME
    ),
}
QSIRECON = "qsirecon"  # stands for the measures of QSIRecon's recipes of MRtrix3, by its names
QSIRECON_MEASURES = {
    "sift_radius2_count": "count", "sift_invnodevol_radius2_count": "inverse-volume",
    "radius2_count": f"{UNWEIGHTED}count", "radius2_meanlength": f"{UNWEIGHTED}mean-length",
}


def mean_sample(name: str, place: int) -> Measure:
    """Return the mean, over the streamlines of an edge, of the mean of a sampled map along each of them.

    Parameters
    ----------
    name : of the map.
    place : of the map among those that are sampled.
    """
    words = f"mean, over the streamlines, of the mean of {name} along each of them"
    return Measure(words, SAMPLED + place, COUNT, total=False)


def measures_of(names: Sequence[str], maps: Iterable[str]) -> dict[str, Measure]:
    """Return measures by name, that of the count by default, and the means of sampled maps."""
    names = [one for name in names or ("count",) for one in (QSIRECON_MEASURES if name == QSIRECON else (name,))]
    here = {name: QSIRECON_MEASURES.get(name, name) for name in names}
    if wrong := [name for name, known in here.items() if known.removeprefix(UNWEIGHTED) not in MEASURES]:
        raise ParameterError(f"--connectome-measure is {wrong[0]!r}: give {listed([*MEASURES, QSIRECON])}, or one of "
                             f"the former with {UNWEIGHTED} before it")
    known = {
        name: replace(MEASURES[word.removeprefix(UNWEIGHTED)], weighable=not word.startswith(UNWEIGHTED))
        for name, word in here.items()
    }
    return known | {f"{name}_mean": mean_sample(name, place) for place, name in enumerate(maps)}


def weight_measure(measure: Measure) -> Measure:
    """Return a measure whose streamlines are weighted, as MRtrix3's tck2connectome has it with ``-tck_weights_in``.

    Its columns are as in the result of :func:`weighted_columns`. One that is not weighable stays as it is.
    """
    if not measure.weighable:
        return measure
    divisor = measure.divisor if measure.divisor in (None, VOLUME) else SAMPLED + measure.divisor
    words = f"{measure.words}, of weighted streamlines"
    return replace(measure, words=words, column=SAMPLED + measure.column, divisor=divisor)


def weighted_columns(lengths: Array, samples: Array | None) -> Array:
    """Return what is summed of weighted streamlines, but for the weight: 1, mm, 1 / mm and samples, (n, 3 + maps).

    Parameters
    ----------
    lengths : (n,) in 2^-16 mm.
    samples : (n, maps) int64, what is sampled along each of them, in units, or None.
    """
    mm = lengths / UNITS
    inverse = np.divide(1.0, mm, out=np.zeros(len(mm)), where=mm > 0)
    return np.column_stack([np.ones(len(mm)), mm, inverse, *(() if samples is None else samples.T)])


class Symmetric(Mapping[str, npt.NDArray[np.float64]]):
    """Symmetric matrices by name; only values that are not 0 take memory until the caller takes a matrix.

    Parameters
    ----------
    nodes : number of rows.
    places : (edges,) rows and columns of the edges.
    edges : the values of the edges, by name.
    """

    def __init__(self, nodes: int, places: tuple[Array, Array], edges: Mapping[str, Array]) -> None:
        self._nodes, self._places, self.edges = nodes, places, edges
        self.whole: dict[str, npt.NDArray[np.float64]] = {}

    def __getitem__(self, name: str) -> npt.NDArray[np.float64]:
        if name not in self.whole:
            self.whole[name] = self.dense(name)
        return self.whole[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.edges)

    def __len__(self) -> int:
        return len(self.edges)

    def lines(self) -> SymmetricLines:
        """Return what writes the matrices as text."""
        return SymmetricLines(self._nodes, *self._places)

    def dense(self, name: str) -> npt.NDArray[np.float64]:
        """Return a matrix that is not kept."""
        rows, columns = self._places
        whole = np.zeros((self._nodes, self._nodes))
        whole[rows, columns] = whole[columns, rows] = self.edges[name]
        return whole

    def zero_diagonal(self) -> None:
        """Set the diagonals to 0, before the caller takes a matrix."""
        rows, columns = self._places
        for values in self.edges.values():
            values[rows == columns] = 0


@dataclass(frozen=True, eq=False)
class Matrix:
    """A connectome.

    Parameters
    ----------
    labels : str
        The image of the parcellation.
    nodes : (n,) int64
        Label of each row.
    names : tuple of str
        Name of each row, or its label.
    values : mapping of str to (n, n) float64
        Symmetric matrix of each measure; an edge without streamlines has 0.
    errors : mapping of str to (n, n) float64
        Standard error of each edge by the jackknife over 32 blocks of seeds (Efron and Stein, Annals of Statistics 9,
        1981); NaN where only one block has streamlines of a mean.
    unassigned : int or float
        Streamlines of which an end has no node; of probabilities, the parts of streamlines that no edge has, together.
    streamlines : int
        All streamlines.
    """

    labels: str
    nodes: npt.NDArray[np.int64]
    names: tuple[str, ...]
    values: Symmetric
    errors: Symmetric
    unassigned: float
    streamlines: int

    def __repr__(self) -> str:
        """Return size and counts in one line."""
        return f"<Matrix of {len(self.nodes):,} nodes, {self.streamlines - self.unassigned:,} streamlines>"


class EdgeSums:
    """Whole numbers that are summed for each edge and block of seeds: streamlines, lengths, inverse lengths, samples.

    Only edges that have streamlines take memory. The last edge is that of streamlines of which an end has no node.

    Parameters
    ----------
    nodes : number of nodes.
    measures : what the matrices are to hold.
    shares : the distributions over nodes that ends have, if they have no single node.

    Attributes
    ----------
    keyed : the sums, which those of other processes are merged with.
    whole : units of a streamline.
    is_direct : whether :meth:`of_blocks` has memory for a sum of each edge.
    """

    def __init__(self, nodes: int, measures: Mapping[str, Measure], shares: Shares | None = None) -> None:
        self.nodes, self._edges = nodes, nodes * (nodes + 1) // 2
        self._shares, self.whole = shares, 1 if shares is None else int(STREAMLINE)
        columns = {column for measure in measures.values() for column in measure.columns}
        self._kept = np.array(sorted({COUNT, *columns}))
        self.keyed = KeyedSums(len(self._kept), (self._edges + 1) * BLOCKS)
        self.is_direct = shares is None and len(self._kept) * self._edges <= MOST_DIRECT

    def amounts(self, lengths: Array, samples: Array | None = None) -> npt.NDArray[np.int64]:
        """Return what is added for streamlines, (n, columns).

        Parameters
        ----------
        lengths : (n,) in 2^-16 mm.
        samples : (n, maps) int64, what is sampled along each of them, in units; needed if maps are sampled.
        """
        inverse = np.divide(INVERSE * UNITS, lengths, where=lengths > 0, out=np.zeros(len(lengths)))
        whole = np.full(len(lengths), self.whole)
        columns = [whole, lengths, np.rint(inverse), *(() if samples is None else samples.T)]
        return np.stack([columns[kept] for kept in self._kept], axis=1, dtype=np.int64, casting="unsafe")

    def add(self, nodes: Array, numbers: Array, amounts: Array) -> None:
        """Add streamlines; several threads may.

        Parameters
        ----------
        nodes : (n, 2) nodes of both ends, from 1 on, or their distributions; 0 for none.
        numbers : (n,) of their seeds.
        amounts : of them, see :meth:`amounts`.
        """
        if self._shares is not None:
            block = numbers & (BLOCKS - 1)
            for edge, streamline, shared in self._shares.of_edges(nodes, amounts, self.nodes):
                self.keyed.add(edge << BLOCK_BITS | block[streamline], shared)
            return
        keys = np.empty(len(nodes), np.int64)
        _number_edges(np.ascontiguousarray(nodes, np.int32), np.ascontiguousarray(numbers, np.int64), self.nodes, keys)
        self.keyed.add(keys, amounts)

    def of_blocks(self, parts: Iterable[tuple[Array, Array, Array]], streamlines: int) -> Keyed:
        """Return the sums of streamlines that come block by block of seeds; neighbours are faster one after another.

        Parameters
        ----------
        parts : nodes, (n, 2) int32, blocks, (n,) uint8, and amounts, (n, columns), of streamlines. A part has all of a
            block.
        streamlines : number of all of them.
        """
        most = min(streamlines, (self._edges + 1) * BLOCKS)  # of which only what is written takes memory
        keys, sums = np.empty(most, np.int64), np.empty((most, len(self._kept)), np.int64)
        table, state = np.zeros((self._edges + 1, len(self._kept)), np.int64), np.zeros(1, np.int64)
        touched = np.empty(min(streamlines, self._edges + 1), np.int64)
        for nodes, blocks, amounts in parts:
            _sum_edges(nodes, blocks, amounts, self.nodes, table, touched, keys, sums, state)
        return keys[: state[0]], sums[: state[0]]

    def _ordered(self, keys: Array) -> tuple[Array, Array, Array]:
        """Return the edges of keys, the places where each begins in their order, and this order."""
        if SPARSE * len(keys) < self._edges:
            order = np.argsort(keys)
            edge = keys[order] >> BLOCK_BITS
            begins = np.flatnonzero(np.diff(edge, prepend=-1))
            return edge[begins], begins, order
        starts, order = np.zeros(self._edges + 3, np.int64), np.empty(len(keys), np.int64)
        _order_edges(keys, starts, order)
        edges = np.flatnonzero(starts[:-2] < starts[1:-1])
        return edges, starts[edges], order

    def matrices(
        self, measures: Mapping[str, Measure], volumes: Array, units: Sequence[float], keyed: Keyed | None = None
    ) -> tuple[Symmetric, Symmetric, float, int]:
        """Return the matrix of each measure, its standard errors, and the counts of unassigned and of all streamlines.

        ``volumes`` has the voxels of each node, ``units`` by how much the samples of each map are multiplied, ``keyed``
        the sums, which are those that were added by default.
        """
        units = [self.whole, UNITS, INVERSE, *units]
        keys, sums = self.keyed.in_any_order() if keyed is None else keyed
        edges, starts, order = self._ordered(keys)
        starts = np.append(starts, len(keys))
        assigned = int(np.searchsorted(edges, self._edges))
        streamlines, unassigned = (int(part.sum()) for part in (sums[:, COUNT], sums[order[starts[assigned] :], COUNT]))
        streamlines //= self.whole
        if self._shares is not None:
            unassigned = round(unassigned / self.whole, DIGITS)
        rows, columns = nodes_of(edges[:assigned], self.nodes)
        place = {column: number for number, column in enumerate(self._kept.tolist())} | {VOLUME: -2, None: -1}
        terms = np.array([[place[one.column], place[one.divisor]] for one in measures.values()], np.int64)
        scales = np.array([BLOCKS / (BLOCKS - 1) if one.total else 1.0 for one in measures.values()])
        values, errors = (np.empty((len(measures), len(rows))) for _ in range(2))
        _measure_edges(
            starts[: assigned + 1], order, keys, np.ascontiguousarray(sums),
            np.array([units[column] for column in self._kept], float), (volumes[rows] + volumes[columns]) / 2, terms,
            scales, np.empty((len(self._kept), BLOCKS + 1)), np.empty((2, BLOCKS)), values, errors,
        )
        both = [Symmetric(self.nodes, (rows, columns), dict(zip(measures, of, strict=True))) for of in (values, errors)]
        return both[0], both[1], unassigned, streamlines


def load_kernels() -> None:
    """Compile, or load, what makes and writes matrices, by making one of a streamline."""
    sums, nodes = EdgeSums(1, MEASURES), np.ones((1, 2), np.int32)
    keyed = sums.of_blocks([(nodes, np.zeros(1, np.uint8), sums.amounts(np.ones(1, np.int32)))], 1)
    values, *_ = sums.matrices(MEASURES, np.ones(1, np.int64), (), keyed)
    values.lines().of(values.edges["count"], ",")


def nodes_of(edge: Array, nodes: int) -> tuple[Array, Array]:
    """Return row and column, which is not lower, of edges: places of the upper triangle of a matrix, row by row."""
    row = np.arange(nodes)
    begins = row * (2 * nodes - row + 1) // 2
    rows = np.searchsorted(begins, edge, "right") - 1
    return rows, edge - begins[rows] + rows


class Edges:
    """A parcellation, and the sums of its edges; workers receive both, but not the measures, whose functions stay here.

    Parameters
    ----------
    parcellation : its nodes.
    path : file of the first matrix.
    measures : what its matrices are to hold.
    """

    def __init__(self, parcellation: Parcellation, path: Path, measures: Mapping[str, Measure]) -> None:
        self.parcellation, self.path = parcellation, path
        self.sums = EdgeSums(len(parcellation.nodes), measures, parcellation.shares)

    def matrix(self, measures: Mapping[str, Measure], units: Sequence[float], keyed: Keyed | None = None) -> Matrix:
        """Return the matrix of all streamlines so far; see :meth:`EdgeSums.matrices`."""
        parcellation, sums = self.parcellation, self.sums.matrices(measures, self.parcellation.volumes, units, keyed)
        return Matrix(str(parcellation.path), parcellation.nodes, parcellation.names, *sums)

    def write(
        self, matrix: Matrix, measures: Mapping[str, Measure], *, force: bool
    ) -> tuple[Json, list[dict[str, str]]]:
        """Write the matrices of all measures, their errors and the nodes; return what the record says of them."""
        details = {
            "labels": matrix.labels, "nodes": len(matrix.nodes), "streamlines": matrix.streamlines,
            "unassigned": matrix.unassigned,
        }
        files, lines = [], matrix.values.lines()
        separator = SEPARATORS.get(self.path.suffix.lower())
        for path, name, kind in written(self.path, measures):
            holds, matrices = "standard error", matrix.errors
            if kind == "values":
                holds, matrices = measures[name].words, matrix.values
            text = None if separator is None else lines.of(matrices.edges[name], separator)
            if text is None:
                write_matrix(path, matrices.dense(name), force=force)
            else:
                with completed(path, force=force) as draft:
                    draft.write_bytes(text)
            files.append(sidecar.file_record(path, text) | {"measure": name, "holds": holds})
        path = path_beside(self.path, "_nodes", ".tsv")
        write_nodes(path, matrix.nodes, matrix.names, self.parcellation.volumes, force=force)
        return details, files

    def write_pairs(self, nodes: Array, *, force: bool) -> None:
        """Write the labels of the two nodes of each streamline, (n, 2), 0 for none."""
        pairs = np.append(0, self.parcellation.nodes)[nodes]
        path = path_beside(self.path, "_pairs", ".tsv")
        write_lines(path, pairs.T, separator="\t", force=force)  # as MRtrix3's connectome2tck reads it

    def doubts(self, matrix: Matrix) -> list[str]:
        """Return why the matrix may be wrong."""
        nameless = self.parcellation.nameless
        missing = [name for name, volume in zip(matrix.names, self.parcellation.volumes, strict=True) if not volume]
        out = [*self.parcellation.doubts]
        if len(nameless):
            out.append(f"{matrix.labels}: {len(nameless)} labels are not in the lookup table "
                       f"({first_of(nameless.tolist())}), and count as no node: check that the table belongs to it")
        if missing:
            out.append(f"{matrix.labels}: {len(missing)} of {len(matrix.nodes)} nodes have no voxel "
                       f"({first_of(missing)}), and their rows are 0")
        if matrix.streamlines and matrix.unassigned > matrix.streamlines / 2:
            lack = "have an end without a node" if self.parcellation.shares is None else "belong to no nodes"
            out.append(f"{matrix.labels}: {matrix.unassigned:,.0f} of {matrix.streamlines:,} streamlines {lack}: check "
                       "that the parcellation lies in the space of the tracked image")
        return out


def amounts_of(
    connectomes: Iterable[Edges], lengths: Array, samples: Array | None = None
) -> dict[int, npt.NDArray[np.int64]]:
    """Return what is added to connectomes of the same measures, by the units of a streamline in them."""
    different = {edges.sums.whole: edges.sums for edges in connectomes}
    return {whole: sums.amounts(lengths, samples) for whole, sums in different.items()}


def written(path: Path, measures: Iterable[str]) -> list[tuple[Path, str, str]]:
    """Return the files of a matrix: each with its measure, and whether it holds 'values' or 'errors'."""
    out = []
    for number, measure in enumerate(measures):
        file = path if number == 0 else path_beside(path, f"_{measure}")
        out += [(file, measure, "values"), (path_beside(file, "_error"), measure, "errors")]
    return out
