"""Pairs of voxels that streamlines pass, and the matrices of counts that a result holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ....aliases import Array, csr_matrix
from ...growth.chunk import exclusive_sum
from ..grid import in_parts

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


@dataclass(frozen=True, eq=False)
class TargetCounts:
    """How many streamlines that begin in each voxel of a mask reach each of several targets.

    Parameters
    ----------
    counts : scipy.sparse.csr_matrix, (n, t) int32 or int64
        Number of streamlines of each voxel and target that has any.
    rows : (n, 3) int32
        Voxel coordinates of the rows, on the grid of the mask.
    targets : tuple of str
        Names of the columns.
    shape : tuple of int
        Shape of the mask.
    streamlines : int
        All streamlines.
    seeded : int
        Those of them that begin in a voxel of the mask.
    counted : int
        Those of these that reach a target.
    """

    counts: csr_matrix
    rows: npt.NDArray[np.int32]
    targets: tuple[str, ...]
    shape: tuple[int, int, int]
    streamlines: int
    seeded: int
    counted: int

    def map_of(self, target: str) -> Array:
        """Return the map of a target, (x, y, z): its counts in the voxels of the mask, 0 elsewhere.

        Raises
        ------
        ValueError
            If there is no target of this name.
        """
        column = self.counts[:, self.targets.index(target)].toarray().ravel()
        values = np.zeros(self.shape, column.dtype)
        values[tuple(self.rows.T)] = column
        return values

    def __repr__(self) -> str:
        """Return size and counts in one line."""
        size = f"{len(self.rows):,} voxels, {len(self.targets):,} targets"
        return f"<TargetCounts of {size}, {self.counted:,} of {self.seeded:,} streamlines reach one>"


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
