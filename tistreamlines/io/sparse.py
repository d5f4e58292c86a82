"""Writing of sparse matrices of counts, for SciPy and as FSL does; a file appears only when it is complete."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..aliases import Array
from .drafts import completed
from .tabular import LINES_AT_ONCE, write_lines

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

SUFFIXES = (".npz", ".dot")
TABLES = {".csv": ",", ".tsv": "\t"}


def write_sparse(path: Path, counts: csr_matrix, *, force: bool) -> None:
    """Write a sparse matrix; the same counts have the same bytes at any time.

    Parameters
    ----------
    path : Path
        Name ending in .npz (``scipy.sparse.load_npz``), or in .dot, FSL's text: row, column and count of each entry,
        from 1 on, ordered by columns, and the numbers of rows and columns with a 0 in the last line.
    counts : scipy.sparse.csr_matrix
        Whole numbers, without entries of 0.
    force : bool
        Replace an existing file.

    Raises
    ------
    OutputError
        If the file exists and ``force`` is false, or if it cannot be written.
    """
    from scipy import sparse

    with completed(path, force=force) as draft:
        if path.suffix.lower() == ".npz":
            with draft.open("wb") as file:
                sparse.save_npz(file, counts)
            return
        columns = counts.tocsc()
        columns.sort_indices()
        shape = len(counts.indptr) - 1, len(columns.indptr) - 1
        column = np.repeat(np.arange(1, shape[1] + 1, dtype=np.int32), np.diff(columns.indptr))
        write_lines(draft, (columns.indices + 1, column, columns.data), (*shape, 0))


def write_coordinates(path: Path, voxels: Array, *, numbered: bool, force: bool) -> None:
    """Write the voxel coordinates of the rows of a matrix as FSL does, a line for each, from 0 on.

    Parameters
    ----------
    path : Path
        File of text.
    voxels : (n, 3) int
        Voxel coordinates.
    numbered : bool
        Add two columns: the number of the mask, which is 0, and that of the voxel.
    force : bool
        Replace an existing file.
    """
    numbers = (np.zeros(len(voxels), np.int32), np.arange(len(voxels))) if numbered else ()
    with completed(path, force=force) as draft:
        write_lines(draft, (*voxels.T, *numbers))


def write_voxel_table(
    path: Path, counts: csr_matrix, voxels: Array, names: Sequence[str], *, force: bool
) -> None:
    """Write a matrix of few columns whose rows are voxels as text, a line for each row, with its zeros.

    Parameters
    ----------
    path : Path
        Name ending in .csv or .tsv, for a table with a heading and three columns of voxel coordinates before the
        others; with any other name, FSL's text: the counts alone.
    counts : scipy.sparse.csr_matrix, (n, m)
        Whole numbers.
    voxels : (n, 3) int
        Voxel coordinates of the rows.
    names : sequence of str
        Headings of the m columns.
    force : bool
        Replace an existing file.

    Raises
    ------
    OutputError
        If the file exists and ``force`` is false, or if it cannot be written.
    """
    import csv

    separator, at_once = TABLES.get(path.suffix.lower()), max(LINES_AT_ONCE // max(len(names), 1), 1)
    with (
        completed(path, force=force) as draft,
        draft.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file,
    ):
        if separator is not None:
            csv.writer(file, delimiter=separator, lineterminator="\n").writerow(["x", "y", "z", *names])
        for first in range(0, len(voxels), at_once):
            block = slice(first, first + at_once)
            rows = counts[block].toarray()
            rows = rows if separator is None else np.hstack([voxels[block], rows])
            file.writelines((separator or "  ").join(map(str, row)) + "\n" for row in rows.tolist())
