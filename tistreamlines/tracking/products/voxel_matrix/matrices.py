"""Matrices of voxels, as probtrackx2 writes them: from each seed voxel to others, and between those of a mask."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from ....aliases import Array, Json
from ....devices import usable_cores
from ....errors import OutputError
from ....io import sidecar
from ....io.images import AnyPath
from ....io.maps import write_map
from ....io.sparse import SUFFIXES, write_coordinates, write_sparse
from ....kernels.products.lengths import UNITS
from ....option import OUTPUT, file_of, of_each, option, pairs_of, values_of
from ....space.batch import Batch, Space
from ..backlog import MOST_THREADS, Backlog
from ..files import Checked, ProductFile
from ..point_kernels import lengths_of
from .counts import PairSums, TargetCounts, VoxelCounts, pairs_within
from .mask import VoxelMask

if TYPE_CHECKING:
    from ....option import ImageLike, OneOrMore, PathLike

Counts = TypeVar("Counts", VoxelCounts, TargetCounts)


@dataclass(frozen=True)
class Finished(Generic[Counts]):
    """A matrix that is written.

    Parameters
    ----------
    counts : its counts.
    details : what the record says of it.
    files : of it.
    doubts : why it may be wrong.
    """

    counts: Counts
    details: Json
    files: Sequence[Path]
    doubts: Sequence[str]


class PairMatrix(Generic[Counts]):
    """A matrix of counts that grows with the streamlines.

    Parameters
    ----------
    path : its file.
    rows : mask of its rows.
    columns : number of its columns.
    shortest : streamlines below this length are left out, mm.
    """

    def __init__(self, path: Path, rows: VoxelMask, columns: int, shortest: float) -> None:
        self.path, self.rows, self._shortest = path, rows, round(shortest * UNITS)
        self._sums, self._counting = PairSums((len(rows), columns)), Lock()
        self._streamlines = self._counted = 0

    def add(self, batch: Batch) -> None:
        """Add streamlines; several threads may."""
        if self._shortest:
            batch = batch[np.flatnonzero(lengths_of(batch) >= self._shortest)]
        counted = np.zeros(len(batch), bool)
        for streamlines, pairs in self._pairs(batch):
            counted[streamlines] = True
            for rows, columns in pairs:
                self._sums.add(rows, columns)
        with self._counting:
            self._streamlines += len(batch)
            self._counted += int(counted.sum())

    def _pairs(self, batch: Batch) -> Iterator[tuple[Array, Iterator[tuple[Array, Array]]]]:
        """Yield, for some streamlines at a time, those that belong to a pair, and rows and columns of all pairs."""
        raise NotImplementedError

    def finish(self, *, force: bool) -> Finished[Counts]:
        """Write the counts of all streamlines."""
        raise NotImplementedError


class VoxelMatrix(PairMatrix[VoxelCounts]):
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
        super().__init__(path, rows, len(columns), shortest)
        self.columns, self._targets = columns, targets

    def finish(self, *, force: bool) -> Finished[VoxelCounts]:
        """Write the matrix and the coordinates of its voxels."""
        rows, columns = self.rows.voxels, self.columns.voxels
        counts = VoxelCounts(self._sums.take(), rows, columns, self._streamlines, self._counted)
        write_sparse(self.path, counts.counts, force=force)
        files = beside(self.path, targets=self._targets)
        write_coordinates(files[0], rows, numbered=True, force=force)
        if self._targets:
            write_coordinates(files[1], columns, numbered=False, force=force)
            column = np.zeros(self.columns.space.shape, np.int32)
            column[tuple(columns.T)] = np.arange(1, len(columns) + 1)
            write_map(files[2], column, self.columns.space, force=force)
        details = {
            "rows": self.rows.path, "columns": self.columns.path, "shape": [len(rows), len(columns)],
            "pairs": int(counts.counts.nnz), "streamlines": counts.streamlines, "counted": counts.counted,
        }
        doubts = [*self.rows.doubts, *self.columns.doubts]
        if counts.streamlines and not counts.counted:
            doubts.append(f"{self.path}: none of {counts.streamlines:,} streamlines {self.holds}: check that "
                          f"{self.rows.path} lies in the space of the tracked image")
        return Finished(counts, details, [self.path, *files], doubts)


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


WAITING = 2  # batches for each thread, besides the one that it adds


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

    def __init__(
        self, matrices: Sequence[PairMatrix[VoxelCounts] | PairMatrix[TargetCounts]], paths: tuple[Path, ...],
        threads: int | None,
    ) -> None:
        super().__init__(*paths)
        self._matrices, threads = matrices, max(1, min(threads or usable_cores(), MOST_THREADS))
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
        finished = [matrix.finish(force=force) for matrix in self._matrices]
        self.value = tuple(matrix.counts for matrix in finished)
        files = [sidecar.described(path) for matrix in finished for path in matrix.files]
        self.details = {"matrices": [matrix.details for matrix in finished], "files": files}
        self.doubts = tuple(dict.fromkeys(text for matrix in finished for text in matrix.doubts))


def seed_matrices(options: SeedMatrixOptions, space: Space, step_mm: float, threads: int | None) -> VoxelMatrices:
    """Make the matrices of --seed-matrix."""
    del space, step_mm
    matrices = []
    for (_, path), (rows, target) in zip(pairs_of(options.seed_matrix), SEEDS.take(options), strict=True):
        columns = rows if target is None or target.same(rows) else target
        matrices.append(FromSeeds(path, rows, columns, options.seed_matrix_min_length, target is not None))
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
        if path.suffix.lower() not in SUFFIXES:
            raise OutputError(f"{path}: unknown suffix {path.suffix!r}; end the name with {', '.join(SUFFIXES)}")
        out += [path, *beside(path, targets=more)]
    return tuple(out)


def _seed_masks(options: SeedMatrixOptions) -> list[tuple[VoxelMask, VoxelMask | None]]:
    """Read the masks of rows and columns."""
    seeds = [VoxelMask(image) for image, _ in pairs_of(options.seed_matrix)]
    return [
        (rows, None if target is None else VoxelMask(target))
        for rows, target in zip(seeds, _targets(options), strict=True)
    ]


def _voxel_masks(options: VoxelMatrixOptions) -> list[VoxelMask]:
    """Read the masks of --voxel-matrix."""
    return [VoxelMask(image) for image, _ in pairs_of(options.voxel_matrix)]


SEEDS, MASKS = Checked(_seed_masks), Checked(_voxel_masks)
