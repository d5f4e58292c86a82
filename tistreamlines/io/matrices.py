"""Writing of matrices and of the nodes that their rows stand for; a file appears only when it is complete."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..aliases import Array
from .drafts import completed
from .tabular import cell_of_name, write_lines

SUFFIXES = (".csv", ".tsv", ".npy")
WHOLE = 2.0**53  # below which a double is a whole number exactly


def beside(path: Path, ending: str, suffix: str | None = None) -> Path:
    """Return the name of a file that belongs to another: out.csv -> out_error.csv."""
    return path.with_name(path.stem + ending + (path.suffix if suffix is None else suffix))


def write_matrix(path: Path, values: npt.NDArray[np.float64], *, force: bool) -> None:
    """Write a matrix: .csv and .tsv have a line for each row and no heading, as tck2connectome's files.

    Parameters
    ----------
    path : Path
        Name ending in .csv, .tsv or .npy.
    values : (n, n) float64
        The matrix. Whole numbers are written without a point, all others with nine digits.
    force : bool
        Replace an existing file.

    Raises
    ------
    OutputError
        If the file exists and ``force`` is false, or if it cannot be written.
    """
    with completed(path, force=force) as draft:
        if path.suffix.lower() == ".npy":
            with draft.open("wb") as file:
                np.save(file, values)
        else:
            separator = "," if path.suffix.lower() == ".csv" else "\t"
            with draft.open("w", newline="", encoding="ascii") as file:
                file.writelines(separator.join(_texts(row)) + "\n" for row in values)


def _texts(row: npt.NDArray[np.float64]) -> list[str]:
    """Return the numbers of a row as text; most are 0, which costs nothing."""
    texts, columns = ["0"] * len(row), np.flatnonzero(row)
    values = row[columns]
    if (np.abs(values) < WHOLE).all() and (values == np.rint(values)).all():
        written = [str(value) for value in values.astype(np.int64).tolist()]
    else:
        written = str("%.9g " * len(values) % tuple(values.tolist())).split()
    if len(written) == len(row):
        return written
    for column, text in zip(columns.tolist(), written, strict=True):
        texts[column] = text
    return texts


def write_nodes(
    path: Path, labels: Array, names: Sequence[str], voxels: Array, *, force: bool
) -> None:
    """Write the nodes of a matrix as BIDS writes lookup tables: label, name and number of voxels, tab-separated.

    An apostrophe stands before a name that a spreadsheet would take for a formula.
    """
    with completed(path, force=force) as draft, draft.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, delimiter="\t", lineterminator="\n")
        rows.writerow(["index", "name", "voxels"])
        rows.writerows(zip(labels.tolist(), map(cell_of_name, names), voxels.tolist(), strict=True))


def write_pairs(path: Path, pairs: Array, *, force: bool) -> None:
    """Write two nodes a line, tab-separated, without a heading: the file that MRtrix3's connectome2tck reads."""
    with completed(path, force=force) as draft:
        write_lines(draft, pairs.T, separator="\t")
