"""The matrix of a parcellation: sums over the streamlines of each edge, standard errors, and the files of both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ....aliases import Array, Json
from ....errors import ParameterError
from ....io import sidecar
from ....io.tables import path_beside, write_lines, write_matrix, write_nodes
from ....kernels.products.lengths import UNITS
from ....option import listed
from ..files import first_of
from ..keyed_sums import KeyedSums
from .parcellation import Parcellation
from .shares import UNITS as STREAMLINE
from .shares import Shares

BLOCK_BITS = 5
BLOCKS = 1 << BLOCK_BITS  # of seeds, by their number modulo this, of which the jackknife leaves one out at a time
INVERSE = 2.0**32  # units of 1 / mm
EDGES_AT_ONCE = 1 << 14
DIGITS = 3  # of parts of streamlines
COUNT, LENGTH, INVERSE_LENGTH, SAMPLED = range(4)  # columns of the sums; those of sampled maps are the last ones


@dataclass(frozen=True)
class Measure:
    """The measures of each edge of a connectome.

    Attributes
    ----------
    words : what it is.
    of : returns it from the sums over streamlines, (..., columns), and the mean number of voxels of both nodes, (...).
    columns : those of the sums that it is made of.
    total : whether it is a sum over streamlines, not a mean.
    weighable : whether it is that of weighted streamlines where these have weights.
    """

    words: str
    of: Callable[[Array, Array], Array]
    columns: tuple[int, ...]
    total: bool = True
    weighable: bool = True


UNWEIGHTED = "unweighted-"  # before the name of a measure
MEASURES: dict[str, Measure] = {
    "count": Measure("number of streamlines", lambda sums, volume: sums[..., COUNT], (COUNT,)),
    "length": Measure("summed length, mm", lambda sums, volume: sums[..., LENGTH], (LENGTH,)),
    "mean-length": Measure(
        "mean length, mm", lambda sums, volume: _ratio(sums[..., LENGTH], sums[..., COUNT]), (COUNT, LENGTH),
        total=False,
    ),
    "inverse-length": Measure(
        "sum of 1 / length, 1 / mm", lambda sums, volume: sums[..., INVERSE_LENGTH], (INVERSE_LENGTH,),
    ),
    "inverse-volume": Measure(
        "number of streamlines divided by the mean number of voxels of the two nodes",
        lambda sums, volume: _ratio(sums[..., COUNT], volume), (COUNT,),
    ),
}


def mean_sample(name: str, place: int) -> Measure:
    """Return the mean, over the streamlines of an edge, of the mean of a sampled map along each of them.

    Parameters
    ----------
    name : of the map.
    place : of the map among those that are sampled.
    """
    return Measure(
        f"mean, over the streamlines, of the mean of {name} along each of them",
        lambda sums, volume: _ratio(sums[..., SAMPLED + place], sums[..., COUNT]), (COUNT, SAMPLED + place),
        total=False,
    )


def measures_of(names: Sequence[str], maps: Iterable[str]) -> dict[str, Measure]:
    """Return measures by name, that of the count by default, and the means of sampled maps."""
    if wrong := [name for name in names if name.removeprefix(UNWEIGHTED) not in MEASURES]:
        raise ParameterError(f"--connectome-measure is {wrong[0]!r}: give {listed(MEASURES)}, or one of these with "
                             f"{UNWEIGHTED} before it")
    known = {name: MEASURES[name.removeprefix(UNWEIGHTED)] for name in names or ("count",)}
    known |= {name: replace(known[name], weighable=False) for name in known if name.startswith(UNWEIGHTED)}
    return known | {f"{name}_mean": mean_sample(name, place) for place, name in enumerate(maps)}


def weight_measure(measure: Measure) -> Measure:
    """Return a measure whose streamlines are weighted, as MRtrix3's tck2connectome has it with ``-tck_weights_in``.

    Its columns are as in the result of :func:`weighted_columns`. One that is not weighable stays as it is.
    """
    if not measure.weighable:
        return measure
    return Measure(
        f"{measure.words}, of weighted streamlines", lambda sums, volume: measure.of(sums[..., SAMPLED:], volume),
        tuple(SAMPLED + column for column in measure.columns), measure.total,
    )


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


def _ratio(a: Array, b: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        return a / b


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
    values : dict of str to (n, n) float64
        Symmetric matrix of each measure; an edge without streamlines has 0.
    errors : dict of str to (n, n) float64
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
    values: dict[str, npt.NDArray[np.float64]]
    errors: dict[str, npt.NDArray[np.float64]]
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
    """

    def __init__(self, nodes: int, measures: Mapping[str, Measure], shares: Shares | None = None) -> None:
        self.nodes, self._edges = nodes, nodes * (nodes + 1) // 2
        self._shares, self._whole = shares, 1 if shares is None else int(STREAMLINE)  # units of a streamline
        columns = {column for measure in measures.values() for column in measure.columns}
        self._kept = np.array(sorted({COUNT, *columns}))
        self.keyed = KeyedSums(len(self._kept), (self._edges + 1) * BLOCKS)

    def add(self, nodes: Array, lengths: Array, numbers: Array, samples: Array | None = None) -> None:
        """Add streamlines; several threads may.

        Parameters
        ----------
        nodes : (n, 2) nodes of both ends, from 1 on, or their distributions; 0 for none.
        lengths : (n,) in 2^-16 mm.
        numbers : (n,) of their seeds.
        samples : (n, maps) int64, what is sampled along each of them, in units; needed if maps are sampled.
        """
        inverse = np.divide(INVERSE * UNITS, lengths, where=lengths > 0, out=np.zeros(len(lengths)))
        whole = np.full(len(lengths), self._whole)
        columns = [whole, lengths, np.rint(inverse), *(() if samples is None else samples.T)]
        sums = np.stack([columns[kept] for kept in self._kept], axis=1, dtype=np.int64, casting="unsafe")
        block = numbers & (BLOCKS - 1)
        if self._shares is not None:
            for edge, streamline, shared in self._shares.of_edges(nodes, sums, self.nodes):
                self.keyed.add(edge << BLOCK_BITS | block[streamline], shared)
            return
        row, column = (choose(*nodes.T).astype(np.int64) - 1 for choose in (np.minimum, np.maximum))
        edge = np.where(row < 0, self._edges, row * (2 * self.nodes - row - 1) // 2 + column)  # see nodes_of
        self.keyed.add(edge << BLOCK_BITS | block, sums)

    def matrices(
        self, measures: Mapping[str, Measure], volumes: Array, units: Sequence[float]
    ) -> tuple[dict[str, Array], dict[str, Array], float, int]:
        """Return the matrix of each measure, its standard errors, and the counts of unassigned and of all streamlines.

        ``volumes`` has the voxels of each node, ``units`` by how much the samples of each map are multiplied.
        """
        units = [self._whole, UNITS, INVERSE, *units]
        keys, sums = self.keyed.sorted()
        assigned = int(np.searchsorted(keys, self._edges << BLOCK_BITS))
        streamlines, unassigned = (int(part[:, COUNT].sum()) for part in (sums, sums[assigned:]))
        streamlines //= self._whole
        if self._shares is not None:
            unassigned = round(unassigned / self._whole, DIGITS)
        keys, sums = keys[:assigned], sums[:assigned]
        values = {name: np.zeros((self.nodes, self.nodes)) for name in measures}
        errors = {name: np.zeros((self.nodes, self.nodes)) for name in measures}
        edge, block = keys >> BLOCK_BITS, keys & (BLOCKS - 1)
        borders = np.flatnonzero(edge[1:] != edge[:-1]) + 1
        starts = np.concatenate([[0], borders, [len(edge)]])[: len(edge) + 1]  # of each edge
        for first in range(0, len(starts) - 1, EDGES_AT_ONCE):
            begins = starts[first : first + EDGES_AT_ONCE + 1]
            rows, columns = nodes_of(edge[begins[:-1]], self.nodes)
            inside = slice(begins[0], begins[-1])
            blocks, total = (np.zeros((len(rows), *more, self._kept[-1] + 1)) for more in ((BLOCKS,), ()))
            place = np.repeat(np.arange(len(rows)), np.diff(begins))
            for amounts, column in zip(sums.T, self._kept, strict=True):
                blocks[place, block[inside], column] = amounts[inside] / units[column]
                # of whole numbers, so that it depends on no order
                total[:, column] = np.add.reduceat(amounts[inside], begins[:-1] - begins[0]) / units[column]
            volume = (volumes[rows] + volumes[columns]) / 2
            for name, measure in measures.items():
                value, error = _jackknife(measure, total, blocks, volume)
                values[name][rows, columns] = values[name][columns, rows] = value
                errors[name][rows, columns] = errors[name][columns, rows] = error
        return values, errors, unassigned, streamlines


def nodes_of(edge: Array, nodes: int) -> tuple[Array, Array]:
    """Return row and column, which is not lower, of edges: places of the upper triangle of a matrix, row by row."""
    row = np.arange(nodes)
    begins = row * (2 * nodes - row + 1) // 2
    rows = np.searchsorted(begins, edge, "right") - 1
    return rows, edge - begins[rows] + rows


def _jackknife(measure: Measure, total: Array, blocks: Array, volume: Array) -> tuple[Array, Array]:
    """Return the measure of some edges, and its standard error by leaving out a block at a time.

    ``total`` has their sums, (edges, columns), ``blocks`` those of each block, (edges, BLOCKS, columns), and ``volume``
    the mean number of voxels of their nodes.
    """
    value = measure.of(total, volume)
    left = (total[:, None] - blocks) * (BLOCKS / (BLOCKS - 1) if measure.total else 1)
    without = measure.of(left, volume[:, None])
    spread = without - without.mean(axis=1, keepdims=True)
    return value, np.sqrt((BLOCKS - 1) / BLOCKS * (spread**2).sum(axis=1))


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

    def matrix(self, measures: Mapping[str, Measure], units: Sequence[float]) -> Matrix:
        """Return the matrix of all streamlines so far; see :meth:`EdgeSums.matrices`."""
        parcellation, sums = self.parcellation, self.sums.matrices(measures, self.parcellation.volumes, units)
        return Matrix(str(parcellation.path), parcellation.nodes, parcellation.names, *sums)

    def write(
        self, matrix: Matrix, measures: Mapping[str, Measure], *, force: bool
    ) -> tuple[Json, list[dict[str, str]]]:
        """Write the matrices of all measures, their errors and the nodes; return what the record says of them."""
        details = {
            "labels": matrix.labels, "nodes": len(matrix.nodes), "streamlines": matrix.streamlines,
            "unassigned": matrix.unassigned,
        }
        files = []
        for path, name, kind in written(self.path, measures):
            holds, values = "standard error", matrix.errors[name]
            if kind == "values":
                holds, values = measures[name].words, matrix.values[name]
            write_matrix(path, values, force=force)
            files.append(sidecar.file_record(path) | {"measure": name, "holds": holds})
        path = path_beside(self.path, "_nodes", ".tsv")
        write_nodes(path, matrix.nodes, matrix.names, self.parcellation.volumes, force=force)
        return details, files

    def write_pairs(self, nodes: Iterable[Array], *, force: bool) -> None:
        """Write the labels of the two nodes of each streamline, 0 for none; ``nodes``: those of each batch, (n, 2)."""
        pairs = np.append(0, self.parcellation.nodes)[np.concatenate([np.zeros((0, 2), int), *nodes])]
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


def written(path: Path, measures: Iterable[str]) -> list[tuple[Path, str, str]]:
    """Return the files of a matrix: each with its measure, and whether it holds 'values' or 'errors'."""
    out = []
    for number, measure in enumerate(measures):
        file = path if number == 0 else path_beside(path, f"_{measure}")
        out += [(file, measure, "values"), (path_beside(file, "_error"), measure, "errors")]
    return out
