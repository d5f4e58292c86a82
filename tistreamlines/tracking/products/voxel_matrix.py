"""A matrix of voxels that grows with the streamlines: from seed voxels to others, or between those of a mask."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Generic, TypeVar

import numpy as np

from ...aliases import Array, Json
from ...io.maps import write_map
from ...io.sparse import write_coordinates, write_sparse
from ...kernels.products.lengths import UNITS
from ...space.batch import Batch
from .connectome import lengths_of
from .voxel_counts import PairSums, TargetCounts, VoxelCounts, pairs_of
from .voxel_mask import VoxelMask

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
            yield several, pairs_of(streamline, number)


def beside(path: Path, *, targets: bool) -> list[Path]:
    """Return the files beside a matrix, with FSL's names if it has one: voxels of its rows, and those of targets."""
    names = [f"coords_for_{path.stem}"]
    if targets:
        names += [f"tract_space_coords_for_{path.stem}", f"lookup_tractspace_{path.stem}.nii.gz"]
    return [path.with_name(name) for name in names]
