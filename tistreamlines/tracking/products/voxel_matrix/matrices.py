"""Matrices of voxels, as probtrackx2 writes them: from each seed voxel to others, and between those of a mask."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from ....aliases import Array
from ....errors import OutputError
from ....io import sidecar
from ....io.images import AnyPath
from ....io.maps import write_map
from ....io.tables import SPARSE_SUFFIXES, write_coordinates, write_sparse
from ....kernels.products.lengths import UNITS
from ....option import OUTPUT, file_of, of_each, option, pairs_of, values_of
from ....space.batch import Batch, Space
from ..backlog import Backlog, thread_count
from ..files import Checked, ProductFile
from ..grid import narrowest
from ..keyed_sums import KeyedSums
from ..point_kernels import lengths_of
from .counts import VoxelCounts, pairs_within
from .mask import VoxelMask

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from ....option import ImageLike, OneOrMore, PathLike

WAITING = 2  # batches for each thread, besides the one that it adds


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
    targets : whether the columns are those of a mask of their own, and have files of their own.
    """

    holds: str  # what an entry says

    def __init__(self, path: Path, rows: VoxelMask, columns: VoxelMask, shortest: float, targets: bool = False) -> None:
        super().__init__([path, *beside(path, targets=targets)], rows, len(columns), shortest)
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
        for streamline, column in self.columns.passed(batch):
            row = seeds[streamline]
            kept = np.flatnonzero((row >= 0) & ((row != column) | (self.rows is not self.columns)))
            yield streamline[kept], iter([(row[kept], column[kept])])


class Between(VoxelMatrix):
    """Between all voxels of a mask that a streamline passes; the row has the lower number."""

    holds = "passes two voxels of the mask"

    def _pairs(self, batch: Batch) -> Iterator[tuple[Array, Iterator[tuple[Array, Array]]]]:
        for streamline, number in self.rows.passed(batch):
            several = streamline[1:][streamline[1:] == streamline[:-1]]
            yield several, pairs_within(streamline, number)


def beside(path: Path, *, targets: bool) -> list[Path]:
    """Return the files beside a matrix, with FSL's names if it has one: voxels of its rows, and those of targets."""
    names = [f"coords_for_{path.stem}"]
    if targets:
        names += [f"tract_space_coords_for_{path.stem}", f"lookup_tractspace_{path.stem}.nii.gz"]
    return [path.with_name(name) for name in names]


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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
    paths : all files.
    threads : how many threads add streamlines; None for as many as help.
    """

    def __init__(self, matrices: Sequence[PairMatrix], paths: tuple[Path, ...], threads: int | None) -> None:
        super().__init__(*paths)
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
        files = [sidecar.described(path) for path in self.paths]
        self.details = {"matrices": [matrix.details for matrix in self._matrices], "files": files}
        self.doubts = tuple(dict.fromkeys(text for matrix in self._matrices for text in matrix.doubts))


def seed_matrices(options: SeedMatrixOptions, space: Space, step_mm: float, threads: int | None) -> VoxelMatrices:
    """Make the matrices of --seed-matrix."""
    del space, step_mm
    shortest, masks = options.seed_matrix_min_length, SEEDS.take(options)
    matrices = [
        FromSeeds(path, *pair, shortest, target is not None)
        for (_, path), pair, target in zip(pairs_of(options.seed_matrix), masks, _targets(options), strict=True)
    ]
    return VoxelMatrices(matrices, seed_files(options), threads)


def voxel_matrices(options: VoxelMatrixOptions, space: Space, step_mm: float, threads: int | None) -> VoxelMatrices:
    """Make the matrices of --voxel-matrix."""
    del space, step_mm
    matrices = [
        Between(path, mask, mask, options.voxel_matrix_min_length)
        for (_, path), mask in zip(pairs_of(options.voxel_matrix), MASKS.take(options), strict=True)
    ]
    return VoxelMatrices(matrices, voxel_files(options), threads)


def _targets(options: SeedMatrixOptions) -> list[AnyPath | None]:
    """Return the mask of the columns of each seed matrix, or None."""
    masks = of_each(
        "seed_matrix", len(values_of(options.seed_matrix)), "seed_matrix_targets",
        values_of(options.seed_matrix_targets), "one mask for all matrices",
    )
    return [None if mask is None else file_of(mask) for mask in masks]


def seed_files(options: SeedMatrixOptions) -> tuple[Path, ...]:
    """Return all files of --seed-matrix."""
    return _files([path for _, path in pairs_of(options.seed_matrix)], [mask is not None for mask in _targets(options)])


def voxel_files(options: VoxelMatrixOptions) -> tuple[Path, ...]:
    """Return all files of --voxel-matrix."""
    paths = [path for _, path in pairs_of(options.voxel_matrix)]
    return _files(paths, [False] * len(paths))


def _files(paths: Sequence[Path], targets: Sequence[bool]) -> tuple[Path, ...]:
    """Return each matrix and what lies beside it; raise OutputError if a matrix has an unknown suffix."""
    out: list[Path] = []
    for path, more in zip(paths, targets, strict=True):
        if path.suffix.lower() not in SPARSE_SUFFIXES:
            raise OutputError(f"{path}: unknown suffix {path.suffix!r}; end the name with {', '.join(SPARSE_SUFFIXES)}")
        out += [path, *beside(path, targets=more)]
    return tuple(out)


def _seed_masks(options: SeedMatrixOptions) -> list[tuple[VoxelMask, VoxelMask]]:
    """Read the masks of rows and columns, which are one object where they are the same."""
    out = []
    for (image, _), target in zip(pairs_of(options.seed_matrix), _targets(options), strict=True):
        rows = VoxelMask(image)
        columns = rows if target is None else VoxelMask(target)
        out.append((rows, rows if rows.same(columns) else columns))
    return out


def _voxel_masks(options: VoxelMatrixOptions) -> list[VoxelMask]:
    """Read the masks of --voxel-matrix."""
    return [VoxelMask(image) for image, _ in pairs_of(options.voxel_matrix)]


SEEDS, MASKS = Checked(_seed_masks), Checked(_voxel_masks)
