"""Connectomes of a run: how many streamlines join two nodes of a parcellation, for any number of parcellations."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...devices import usable_cores
from ...devices.threads import thread_pool
from ...errors import ParameterError
from ...io import sidecar
from ...io.matrices import beside, write_matrix, write_nodes, write_pairs
from ...kernels.products.lengths import measure_points
from ...option import OUTPUT, listed, option
from ...space.batch import Batch, Space
from ..growth.settings import Settings
from .density import program_of
from .device_connectome import DeviceConnectomes
from .matrix import MEASURES, EdgeSums, Matrix
from .parcellation import END_VOXEL, RADIAL, RADIUS, REVERSE, Parcellation

if TYPE_CHECKING:
    from ...option import ImageLike, OneOrMore, PathLike

Array = npt.NDArray[Any]
MOST_THREADS = 4
WAITING = 8  # batches that may wait to be added


@dataclass(frozen=True)
class ConnectomeOptions:
    """Options of connectomes, a part of :class:`tistreamlines.Parameters`."""

    connectome: OneOrMore[tuple[ImageLike, PathLike]] | None = option(
        None, OUTPUT, "Write the matrix of how many streamlines join two nodes of the parcellation LABELS to FILE, "
        ".csv, .tsv or .npy, with its standard errors and its nodes in files beside it. Without --output, no "
        "streamline is kept.", unit="LABELS FILE", absent="not written", affects="run",
    )  # fmt: skip
    connectome_assignment: str = option(
        RADIAL, OUTPUT, "To which node of --connectome an end belongs: that of the nearest voxel within a radius, that "
        "of its own voxel, or the first one on the way back to the middle.",
        choices=(RADIAL, END_VOXEL, REVERSE), requires=("connectome",), affects="run",
    )  # fmt: skip
    connectome_radius: float | None = option(
        None, OUTPUT, "How far a node of --connectome is looked for.", unit="mm", low=0, above=True,
        absent="4 with --connectome-assignment radial, any distance with reverse", requires=("connectome",),
        affects="run",
    )  # fmt: skip
    connectome_measure: OneOrMore[str] | None = option(
        None, OUTPUT, f"What --connectome says of two nodes: {', '.join(MEASURES)}. The first one is written to its "
        "FILE, each other one to a file beside it.", unit="MEASURE", absent="count", requires=("connectome",),
        affects="run",
    )  # fmt: skip
    connectome_nodes: OneOrMore[PathLike] | None = option(
        None, OUTPUT, "Lookup table whose nodes are the rows of --connectome, in its order: of FreeSurfer, MRtrix3, "
        "FSL (.xml) or BIDS (.tsv). One for all parcellations, or one for each.", unit="FILE",
        absent="the labels from 1 to the greatest one", requires=("connectome",), affects="run",
    )  # fmt: skip
    connectome_pairs: bool = option(
        False, OUTPUT, "Also write the two nodes of each streamline, 0 for none, to a file beside each matrix of "
        "--connectome (_pairs.tsv): a line for each streamline, in the order of the tractogram.",
        requires=("connectome",), affects="run",
    )  # fmt: skip
    connectome_zero_diagonal: bool = option(
        False, OUTPUT, "Set the diagonal of --connectome to 0: streamlines with both ends in the same node do not "
        "count.", requires=("connectome",), affects="run",
    )  # fmt: skip


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
    ) -> None:  # fmt: skip
        pairs: Any = options.connectome
        radius = options.connectome_radius
        if radius is None:
            radius = RADIUS if options.connectome_assignment == RADIAL else 0.0
        self.paths = files(options)
        self._made = [
            _One(Parcellation(labels, table, options.connectome_assignment, radius), Path(path))
            for (labels, path), table in zip(pairs, tables_of(options), strict=True)
        ]
        self._measures = measures_of(options)
        self._pairs, self._zero_diagonal = options.connectome_pairs, options.connectome_zero_diagonal
        self._threads = max(1, min(threads or usable_cores(), MOST_THREADS))
        self._waiting: deque[Future[list[Array]]] = deque()
        self.value: tuple[Matrix, ...] = ()
        self.told: dict[str, Any] = {}
        self.doubts: tuple[str, ...] = ()

    def add(self, batch: Batch) -> None:
        """Add the streamlines of a batch, in another thread; wait if many batches are not added yet."""
        while len(self._waiting) > WAITING:
            self._finish_first()
        self._waiting.append(thread_pool("connectome", self._threads).submit(self._add, batch))

    def _add(self, batch: Batch) -> list[Array]:
        lengths, found = lengths_of(batch), [one.parcellation.of_batch(batch) for one in self._made]
        for one, nodes in zip(self._made, found, strict=True):
            one.add(nodes, lengths, batch.seed_number)
        return found

    def _finish_first(self) -> None:
        """Wait for the first of the waiting batches, so that nodes are kept in the order of the streamlines."""
        for one, nodes in zip(self._made, self._waiting.popleft().result(), strict=True):
            if self._pairs:
                one.pairs.append(nodes)

    def collector(self, space: Space, settings: Settings) -> DeviceConnectomes | None:
        """Have only ends and lengths come back; return None if other points, or the order of all, are needed."""
        if self._pairs or any(one.parcellation.needs_points for one in self._made):
            return None
        return DeviceConnectomes(space, self._made)

    def write(self, *, force: bool) -> None:
        """Wait until all streamlines are added, and write the matrices."""
        while self._waiting:
            self._finish_first()
        chosen = {name: MEASURES[name] for name in self._measures}
        self.value = tuple(one.matrix(chosen) for one in self._made)
        if self._zero_diagonal:
            for made in self.value:
                for matrix in (*made.values.values(), *made.errors.values()):
                    np.fill_diagonal(matrix, 0)
        if self._pairs:
            for one in self._made:
                one.write_pairs(force)
        written = [one.write(made, force) for one, made in zip(self._made, self.value, strict=True)]
        self.told = {"matrices": [told for told, _ in written], "files": [file for _, some in written for file in some]}
        self.doubts = tuple(text for one, made in zip(self._made, self.value, strict=True) for text in one.doubts(made))


class _One:
    """A parcellation, and the sums of its edges."""

    def __init__(self, parcellation: Parcellation, path: Path) -> None:
        self.parcellation, self.path = parcellation, path
        self.sums, self._adding = EdgeSums(len(parcellation.nodes)), Lock()
        self.pairs: list[Array] = []  # the nodes of both ends of the streamlines of each batch, if they are written

    def __getstate__(self) -> dict[str, Any]:
        """Leave the lock out, since other processes have their own."""
        return {name: value for name, value in vars(self).items() if name != "_adding"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Make a lock."""
        vars(self).update(state, _adding=Lock())

    def add(self, found: Array, lengths: Array, numbers: Array) -> None:
        """Add streamlines; several threads may."""
        with self._adding:
            self.sums.add(found, lengths, numbers)

    def matrix(self, measures: Any) -> Matrix:
        """Return what was made so far."""
        one = self.parcellation
        return Matrix(
            str(one.path), one.nodes, one.names, *self.sums.matrices(measures, one.volumes),
            self.sums.unassigned, self.sums.streamlines,
        )  # fmt: skip

    def write(self, made: Matrix, force: bool) -> tuple[dict[str, Any], list[dict[str, str]]]:
        """Write the matrices of all measures, their errors and the nodes; return what the record says of them."""
        told = {
            "labels": made.labels, "nodes": len(made.nodes), "streamlines": made.streamlines,
            "unassigned": made.unassigned,
        }  # fmt: skip
        some = []
        for path, measure, what in written(self.path, made.values):
            write_matrix(path, getattr(made, what)[measure], force=force)
            about = {"measure": measure, "holds": MEASURES[measure].words if what == "values" else "standard error"}
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
        missing = [name for name, volume in zip(made.names, self.parcellation.volumes, strict=True) if not volume]
        out = []
        if missing:
            named = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
            out.append(f"{made.labels}: {len(missing)} of {len(made.nodes)} nodes have no voxel ({named}), and their "
                       "rows are 0")  # fmt: skip
        if made.streamlines and made.unassigned > made.streamlines / 2:
            out.append(f"{made.labels}: {made.unassigned:,} of {made.streamlines:,} streamlines have an end without a "
                       "node: check that the parcellation lies in the space of the tracked image")  # fmt: skip
        return out


def lengths_of(batch: Batch) -> Array:
    """Return the length of each streamline of a batch, (n,) int32, in 2^-16 mm."""
    lengths = np.zeros(len(batch), np.int32)
    values = {"points": batch.points.ravel(), "offsets": batch.offsets.astype(np.int32), "lengths": lengths}
    program_of(measure_points).run("measure_points", len(batch), values)
    return lengths


def tables_of(options: ConnectomeOptions) -> Sequence[Any]:
    """Return the lookup table of each parcellation, or None."""
    pairs: Any = options.connectome
    given: Any = options.connectome_nodes
    if given is None or len(given) == 1:
        return (given or (None,)) * len(pairs)
    if len(given) != len(pairs):
        raise ParameterError(f"--connectome-nodes is there {len(given)} times, --connectome {len(pairs)} times: give "
                             "one table for all parcellations, or one for each")  # fmt: skip
    return given


def measures_of(options: ConnectomeOptions) -> tuple[str, ...]:
    """Return the measures that are asked for."""
    given: Any = options.connectome_measure or ("count",)
    if wrong := [name for name in given if name not in MEASURES]:
        raise ParameterError(f"--connectome-measure is {wrong[0]!r}: give {listed(MEASURES)}")
    return tuple(dict.fromkeys(given))


def written(path: Path, measures: Any) -> list[tuple[Path, str, str]]:
    """Return the files of a matrix: each with its measure, and whether it holds 'values' or 'errors'."""
    out = []
    for number, measure in enumerate(measures):
        own = path if number == 0 else beside(path, f"_{measure}")
        out += [(own, measure, "values"), (beside(own, "_error"), measure, "errors")]
    return out


def files(options: ConnectomeOptions) -> tuple[Path, ...]:
    """Return all files that are written."""
    pairs: Any = options.connectome or ()
    out = []
    for _, path in pairs:
        out += [own for own, *_ in written(Path(path), measures_of(options))] + [beside(Path(path), "_nodes", ".tsv")]
        out += [beside(Path(path), "_pairs", ".tsv")] * options.connectome_pairs
    return tuple(out)


def blank(options: ConnectomeOptions, space: Space, settings: Settings) -> DeviceConnectomes | None:
    """Return what brings ends back, whatever becomes of them; None if other points are needed."""
    needs_points = options.connectome_pairs or options.connectome_assignment == REVERSE
    return None if needs_points else DeviceConnectomes(space, ())


def check(options: ConnectomeOptions) -> None:
    """Read the parcellations: an error of a small file comes before the work."""
    measures_of(options)
    if options.connectome_assignment == END_VOXEL and options.connectome_radius is not None:
        raise ParameterError("--connectome-radius has no effect with --connectome-assignment end-voxel: leave it out")
    pairs: Any = options.connectome
    for (labels, _), table in zip(pairs, tables_of(options), strict=True):
        Parcellation(labels, table, END_VOXEL, 0.0)
