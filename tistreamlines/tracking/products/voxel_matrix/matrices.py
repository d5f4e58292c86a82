"""Matrices of voxels, as probtrackx2 writes them: from each seed voxel to others, and between those of a mask."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from pathlib import Path
from threading import Lock

import numpy as np
import numpy.typing as npt

from ....aliases import Array, csr_matrix
from ....errors import OutputError
from ....io import sidecar
from ....io.maps import write_map
from ....io.tables import SPARSE_SUFFIXES, write_coordinates, write_sparse
from ....kernels.products.lengths import UNITS
from ....option import OUTPUT, ImageLike, OneOrMore, PathLike, file_of, of_each, option, pairs_of, values_of
from ....space.batch import Batch, Space
from ...growth.chunk import exclusive_sum
from ..batch_work import Backlog, lengths_of, thread_count
from ..files import Maker, ProductFile
from ..grid import in_parts, narrowest
from ..keyed_sums import KeyedSums
from .mask import VoxelMask

WAITING = 2  # batches for each thread, besides the one that it adds
PAIRS_AT_ONCE = 1 << 20


@dataclass(frozen=True, eq=False)
class VoxelCounts:
    """A matrix of how many streamlines join voxels of masks.

    Parameters
    ----------
    counts : scipy.sparse.csr_matrix, (n, m) int32 or int64
        Number of streamlines of each pair that has any.
    rows, columns : (n, 3) and (m, 3) int32
        Voxel coordinates of the rows and the columns, each on the grid of its mask.
    streamlines : int
        Streamlines that are long enough.
    counted : int
        Those of them that belong to a pair.
    """

    counts: csr_matrix
    rows: npt.NDArray[np.int32]
    columns: npt.NDArray[np.int32]
    streamlines: int
    counted: int

    def __repr__(self) -> str:
        """Return size and counts in one line."""
        size = f"{len(self.rows):,} x {len(self.columns):,} voxels"
        return f"<VoxelCounts of {size}, {self.counts.nnz:,} pairs, {self.counted:,} streamlines>"


class PairMatrix(ProductFile):
    """A matrix of counts that grows with the streamlines.

    Parameters
    ----------
    paths : its files, the matrix first.
    rows : mask of its rows.
    columns : number of its columns.
    shortest : streamlines below this length are left out, mm.
    """

    def __init__(self, paths: Iterable[Path], rows: VoxelMask, columns: int, shortest: float) -> None:
        super().__init__(*paths)
        self.rows, self._shortest = rows, round(shortest * UNITS)
        self._shape, self._counting = (len(rows), columns), Lock()
        self._sums = KeyedSums(1, len(rows) * columns)
        self._streamlines = self._counted = 0

    def add(self, batch: Batch) -> None:
        """Add streamlines; several threads may."""
        if self._shortest:
            batch = batch[np.flatnonzero(lengths_of(batch) >= self._shortest)]
        counted = np.zeros(len(batch), bool)
        for streamlines, pairs in self._pairs(batch):
            counted[streamlines] = True
            for rows, columns in pairs:
                keys = rows.astype(np.int64) * self._shape[1] + columns
                self._sums.add(keys, np.ones((len(keys), 1), np.int64))
        with self._counting:
            self._streamlines += len(batch)
            self._counted += int(counted.sum())

    def _pairs(self, batch: Batch) -> Iterator[tuple[Array, Iterator[tuple[Array, Array]]]]:
        """Yield, for some streamlines at a time, those that belong to a pair, and rows and columns of all pairs."""
        raise NotImplementedError

    def _matrix(self) -> csr_matrix:
        """Return the counts of all pairs, int32, or int64 beyond that; they do not depend on the order of additions."""
        from scipy.sparse import csr_matrix

        rows, columns = self._shape
        keys, sums = self._sums.take().sorted()
        starts = np.searchsorted(keys, np.arange(rows + 1) * columns)
        return csr_matrix((narrowest(sums[:, 0]), (keys % columns).astype(np.int32), starts), shape=self._shape)


class VoxelMatrix(PairMatrix):
    """A matrix of voxels that grows with the streamlines.

    Parameters
    ----------
    path : its file.
    rows, columns : masks of its rows and columns.
    shortest : streamlines below this length are left out, mm.
    targets : whether the columns are those of a mask of their own, and have separate files.
    """

    holds: str  # what an entry says

    def __init__(self, path: Path, rows: VoxelMask, columns: VoxelMask, shortest: float, targets: bool = False) -> None:
        super().__init__([path, *files_beside(path, targets=targets)], rows, len(columns), shortest)
        self.columns = columns

    def write(self, *, force: bool) -> None:
        """Write the matrix and the coordinates of its voxels."""
        path, of_rows, *of_targets = self.paths
        rows, columns = self.rows.voxels, self.columns.voxels
        counts = VoxelCounts(self._matrix(), rows, columns, self._streamlines, self._counted)
        write_sparse(path, counts.counts, force=force)
        write_coordinates(of_rows, rows, numbered=True, force=force)
        if of_targets:
            write_coordinates(of_targets[0], columns, numbered=False, force=force)
            column = np.zeros(self.columns.space.shape, np.int32)
            column[tuple(columns.T)] = np.arange(1, len(columns) + 1)
            write_map(of_targets[1], column, self.columns.space, force=force)
        self.value, self.details = counts, {
            "rows": self.rows.path, "columns": self.columns.path, "shape": [len(rows), len(columns)],
            "pairs": int(counts.counts.nnz), "streamlines": counts.streamlines, "counted": counts.counted,
        }
        self.doubts = (*self.rows.doubts, *self.columns.doubts)
        if counts.streamlines and not counts.counted:
            self.doubts += (f"{path}: none of {counts.streamlines:,} streamlines {self.holds}: check that "
                            f"{self.rows.path} lies in the space of the tracked image",)


class FromSeeds(VoxelMatrix):
    """From the voxel of a streamline's seed to the others that it passes."""

    holds = "begins in a voxel of a row and passes one of a column"

    def _pairs(self, batch: Batch) -> Iterator[tuple[Array, Iterator[tuple[Array, Array]]]]:
        seeds = self.rows.of_seeds(batch)
        for streamline, column in self.columns.passages(batch):
            row = seeds[streamline]
            kept = np.flatnonzero((row >= 0) & ((row != column) | (self.rows is not self.columns)))
            yield streamline[kept], iter([(row[kept], column[kept])])


class WithinMask(VoxelMatrix):
    """Between all voxels of a mask that a streamline passes; the row has the lower number."""

    holds = "passes two voxels of the mask"

    def _pairs(self, batch: Batch) -> Iterator[tuple[Array, Iterator[tuple[Array, Array]]]]:
        for streamline, number in self.rows.passages(batch):
            several = streamline[1:][streamline[1:] == streamline[:-1]]
            yield several, pairs_within(streamline, number)


def pairs_within(streamline: Array, number: Array) -> Iterator[tuple[Array, Array]]:
    """Yield the pairs of voxels that one streamline passes both, some pairs at a time; the first has the lower number.

    Parameters
    ----------
    streamline : (v,) ascending.
    number : (v,) of the voxel, ascending for each streamline, each once.
    """
    ends = np.searchsorted(streamline, streamline, side="right")
    later = ends - np.arange(1, len(streamline) + 1)  # voxels of the same streamline after each one
    begins = exclusive_sum(later)
    for part in in_parts(begins, PAIRS_AT_ONCE):
        many = later[part]
        first = np.repeat(np.arange(part.start, part.stop), many)
        beyond = np.arange(len(first)) - np.repeat(begins[part] - begins[part.start], many)
        yield number[first], number[first + 1 + beyond]


def files_beside(path: Path, *, targets: bool) -> list[Path]:
    """Return the files beside a matrix, with FSL's names if it has one: voxels of its rows, and those of targets."""
    names = [f"coords_for_{path.stem}"]
    if targets:
        names += [f"tract_space_coords_for_{path.stem}", f"lookup_tractspace_{path.stem}.nii.gz"]
    return [path.with_name(name) for name in names]


@dataclass(frozen=True, repr=False, eq=False)
class SeedMatrixOptions:
    """Options of matrices from seed voxels, a part of :class:`tistreamlines.Parameters`."""

    seed_matrix: OneOrMore[tuple[ImageLike, PathLike]] | None = option(
        None, OUTPUT, "Write how many streamlines from each voxel of the mask SEEDS pass each other voxel of it to "
        "FILE, .npz or .dot, as probtrackx2's matrix1. Without --output, no streamline is written.", unit="SEEDS FILE",
        absent="not written", affects="run",
    )
    seed_matrix_targets: OneOrMore[ImageLike] | None = option(
        None, OUTPUT, "Mask for --seed-matrix, whose voxels are the columns, as in probtrackx2's matrix2. One for all "
        "matrices, or one for each.", unit="FILE", absent="the voxels of SEEDS", requires=("seed_matrix",),
        affects="run",
    )
    seed_matrix_min_length: float = option(
        0.0, OUTPUT, "Length below which --seed-matrix leaves streamlines out, as probtrackx2's --distthresh1.",
        unit="mm", low=0, requires=("seed_matrix",), affects="run",
    )


@dataclass(frozen=True, repr=False, eq=False)
class VoxelMatrixOptions:
    """Options of matrices between voxels, a part of :class:`tistreamlines.Parameters`."""

    voxel_matrix: OneOrMore[tuple[ImageLike, PathLike]] | None = option(
        None, OUTPUT, "Write how many streamlines pass both of two voxels of MASK, for each pair of them, to FILE, "
        ".npz or .dot, as probtrackx2's matrix3. Without --output, no streamline is written.", unit="MASK FILE",
        absent="not written", affects="run",
    )
    voxel_matrix_min_length: float = option(
        0.0, OUTPUT, "Length below which --voxel-matrix leaves streamlines out, as probtrackx2's --distthresh3.",
        unit="mm", low=0, requires=("voxel_matrix",), affects="run",
    )


class VoxelMatrices(ProductFile):
    """Makes matrices of voxels of a run, and writes them.

    Parameters
    ----------
    matrices : what is made.
    space, step_mm : of the image that is tracked, and the step size; not needed.
    threads : how many threads add streamlines; None for as many as help.
    """

    def __init__(self, matrices: Sequence[PairMatrix], space: Space, step_mm: float, threads: int | None) -> None:
        super().__init__(*(path for matrix in matrices for path in matrix.paths))
        self._matrices, threads = matrices, thread_count(threads)
        self._backlog = Backlog[None]("voxels", threads, WAITING * threads)

    def add(self, batch: Batch) -> None:
        """Add the streamlines of a batch, in another thread; wait if several batches are not added yet."""
        self._backlog.submit(self._add, batch)

    def _add(self, batch: Batch) -> None:
        for matrix in self._matrices:
            matrix.add(batch)

    def write(self, *, force: bool) -> None:
        """Wait until all streamlines are added, and write the matrices."""
        self._backlog.wait()
        for matrix in self._matrices:
            matrix.write(force=force)
        self.value = tuple(matrix.value for matrix in self._matrices)
        files = [sidecar.file_record(path) for path in self.paths]
        self.details = {"matrices": [matrix.details for matrix in self._matrices], "files": files}
        self.doubts = tuple(dict.fromkeys(text for matrix in self._matrices for text in matrix.doubts))


def _targets(options: SeedMatrixOptions) -> Sequence[ImageLike | None]:
    """Return the mask of the columns of each seed matrix, or None."""
    return of_each(
        "seed_matrix", len(values_of(options.seed_matrix)), "seed_matrix_targets",
        values_of(options.seed_matrix_targets), "one mask for all matrices",
    )


def seed_matrices(options: SeedMatrixOptions) -> Maker:
    """Read the masks of --seed-matrix; those of rows and columns are one object where they are the same."""
    matrices = []
    for (image, path), target in zip(pairs_of(options.seed_matrix), _targets(options), strict=True):
        rows = VoxelMask(image)
        columns = rows if target is None else VoxelMask(file_of(target))
        masks = rows, rows if rows.same(columns) else columns
        matrices.append(FromSeeds(path, *masks, options.seed_matrix_min_length, target is not None))
    return partial(VoxelMatrices, matrices)


def voxel_matrices(options: VoxelMatrixOptions) -> Maker:
    """Read the masks of --voxel-matrix."""
    masks = [(path, VoxelMask(image)) for image, path in pairs_of(options.voxel_matrix)]
    return partial(
        VoxelMatrices, [WithinMask(path, mask, mask, options.voxel_matrix_min_length) for path, mask in masks]
    )


def seed_files(options: SeedMatrixOptions) -> tuple[Path, ...]:
    """Return all files of --seed-matrix."""
    return _files(options.seed_matrix, _targets(options))


def voxel_files(options: VoxelMatrixOptions) -> tuple[Path, ...]:
    """Return all files of --voxel-matrix."""
    return _files(options.voxel_matrix, repeat(None))


def _files(pairs: OneOrMore[tuple[ImageLike, PathLike]] | None, targets: Iterable[object]) -> tuple[Path, ...]:
    """Return each matrix and what lies beside it; raise OutputError if a matrix has an unknown suffix."""
    out: list[Path] = []
    for (_, path), target in zip(pairs_of(pairs), targets, strict=False):
        if path.suffix.lower() not in SPARSE_SUFFIXES:
            raise OutputError(f"{path}: unknown suffix {path.suffix!r}; end the name with {', '.join(SPARSE_SUFFIXES)}")
        out += [path, *files_beside(path, targets=target is not None)]
    return tuple(out)
