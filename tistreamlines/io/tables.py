"""Tables and matrices, and weights of streamlines in text; a file that is written appears only when it is complete.

A spreadsheet computes a cell that begins with one of a few characters, and such a formula can start programs. An
apostrophe before a name makes the cell text.

References
----------
https://owasp.org/www-community/attacks/CSV_Injection
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TextIO

import numpy as np
import numpy.typing as npt

from ..aliases import Array, Vector, csr_matrix
from ..devices.threads import in_threads
from ..errors import InputError
from .drafts import completed
from .images import existing_path
from .number_lines import lines_of

SEPARATORS = {".csv": ",", ".tsv": "\t"}
TABLE_SUFFIXES = tuple(SEPARATORS)
MATRIX_SUFFIXES = (*SEPARATORS, ".npy")
SPARSE_SUFFIXES = (".npz", ".dot")
FORMULA = frozenset("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")  # first characters; the last four are full-width ones
LINES_AT_ONCE = 1 << 16
TEXT = "'"  # before the first character of a cell, says that it is text
WHOLE = 2.0**53  # below which a double is a whole number exactly
NUMBERS_AT_ONCE = 100_000
TEN_DIGITS = 1e10  # below which these are enough for a whole number
MANY = 40_000  # numbers, of which compiled code writes the text
LEAST, GREATEST = 1e-30, 1e30  # maps have float32
FAINT = 1e-12  # part of the sum of all weights; sums round by less


def cell_of_name(name: str) -> str:
    """Return the cell of a name, which spreadsheets show and do not compute."""
    return TEXT + name if name.lstrip(TEXT)[:1] in FORMULA else name


def name_of_cell(cell: str) -> str:
    """Return the name that :func:`cell_of_name` has made a cell of."""
    return cell[1:] if cell[:1] == TEXT and cell.lstrip(TEXT)[:1] in FORMULA else cell


def path_beside(path: Path, ending: str, suffix: str | None = None) -> Path:
    """Return the name of a file that belongs to another: out.csv -> out_error.csv."""
    return path.with_name(path.stem + ending + (path.suffix if suffix is None else suffix))


def write_rows(file: TextIO, values: Mapping[str, Array], separator: str = ",", *, heading: bool = True) -> None:
    """Write a column for each name, with float32 values that are read back as they were.

    Parameters
    ----------
    file : takes the text.
    values : the numbers of each column.
    separator : stands between two values.
    heading : whether the names stand before the first row.
    """
    if heading:
        csv.writer(file, delimiter=separator, lineterminator="\n").writerow(map(cell_of_name, values))
    np.savetxt(file, np.column_stack([*values.values()]), "%.9g", separator)


def write_lines(
    path: Path, columns: Iterable[Array], *last: tuple[int, ...], separator: str = "  ", force: bool
) -> None:
    """Write lines of whole numbers, which are two spaces apart in FSL's files and a tab in MRtrix3's."""
    columns = tuple(columns)
    with completed(path, force=force) as draft, draft.open("w", newline="", encoding="ascii") as file:
        for first in range(0, len(columns[0]), LINES_AT_ONCE):
            block = (column[first : first + LINES_AT_ONCE].tolist() for column in columns)
            file.writelines(separator.join(map(str, line)) + "\n" for line in zip(*block, strict=True))
        file.writelines(separator.join(map(str, line)) + "\n" for line in last)


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
    separator = SEPARATORS.get(path.suffix.lower())
    with completed(path, force=force) as draft, draft.open("wb") as file:
        if separator is None:
            np.save(file, values)
        elif values.size > MANY and (text := lines_of(values, separator)) is not None:
            file.write(text)
        else:
            file.writelines((separator.join(_texts(row)) + "\n").encode() for row in values)


def _texts(row: npt.NDArray[np.float64]) -> list[str]:
    """Return the numbers of a row as text; most are 0, which costs nothing."""
    texts, columns = ["0"] * len(row), np.flatnonzero(row)
    values: Vector[np.float64] = row[columns]
    if (np.abs(values) < WHOLE).all() and (values == np.rint(values)).all():
        written = [str(value) for value in values.astype(np.int64).tolist()]
    else:
        written = str("%.9g " * len(values) % tuple(values.tolist())).split()
    if len(written) == len(row):
        return written
    for column, text in zip(columns.tolist(), written, strict=True):
        texts[column] = text
    return texts


def write_nodes(path: Path, labels: Array, names: Sequence[str], voxels: Array, *, force: bool) -> None:
    """Write the nodes of a matrix as BIDS writes lookup tables: label, name and number of voxels, tab-separated.

    The number need not be whole.
    """
    with completed(path, force=force) as draft, draft.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, delimiter="\t", lineterminator="\n")
        rows.writerow(["index", "name", "voxels"])
        numbers = map("{:.9g}".format, voxels.tolist())
        rows.writerows(zip(labels.tolist(), map(cell_of_name, names), numbers, strict=True))


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

    if path.suffix.lower() == ".npz":
        with completed(path, force=force) as draft, draft.open("wb") as file:
            sparse.save_npz(file, counts)
        return
    columns = counts.tocsc()
    columns.sort_indices()
    shape = len(counts.indptr) - 1, len(columns.indptr) - 1
    column = np.repeat(np.arange(1, shape[1] + 1, dtype=np.int32), np.diff(columns.indptr))
    write_lines(path, (columns.indices + 1, column, columns.data), (*shape, 0), force=force)


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
    write_lines(path, (*voxels.T, *numbers), force=force)


def write_voxel_table(path: Path, counts: csr_matrix, voxels: Array, names: Sequence[str], *, force: bool) -> None:
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
    separator, at_once = SEPARATORS.get(path.suffix.lower()), max(LINES_AT_ONCE // max(len(names), 1), 1)
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


def load_weights(path: str | Path) -> npt.NDArray[np.float64]:
    """Read weights: numbers in the order of the streamlines, apart by spaces, commas or lines; ``#`` begins a comment.

    Returns
    -------
    (n,) float64

    Raises
    ------
    InputError
        If the file is missing, or has something that is no number from 0 to GREATEST; if all numbers are below LEAST,
        but not 0; or if one of them is so great that most others would not count beside it.
    """
    path = existing_path(path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as text; give weights of streamlines, as of tcksift2") from error
    words = [word for line in lines for word in _words(line)]
    try:
        values = np.array(words, float)
    except ValueError as error:
        numbers: list[float] = []
        with suppress(ValueError):
            numbers.extend(map(float, words))  # those before the first word that is no number stay
        wrong = len(numbers)
        text = f"{_place(path, lines, wrong)} is {words[wrong]!r}; give weights of streamlines, numbers in text"
        raise InputError(text) from error
    outside = np.flatnonzero(~((values >= 0) & (values <= GREATEST)))
    if len(outside):
        wrong = int(outside[0])
        raise InputError(f"{_place(path, lines, wrong)} is {words[wrong]}; give numbers from 0 to {GREATEST:g}")
    positive = values[values > 0]
    if len(positive):
        greatest = int(values.argmax())
        if values[greatest] < LEAST:
            raise InputError(f"{_place(path, lines, greatest)} is the greatest one, and only {words[greatest]}; give "
                             f"weights above {LEAST:g}")
        if np.median(positive) < FAINT * values.sum():
            raise InputError(f"{_place(path, lines, greatest)} is {words[greatest]}, beside which most others would "
                             "not count: correct or leave out what is so great")
    return values


def faint(path: str | Path, values: npt.NDArray[np.float64]) -> list[str]:
    """Say how many weights are so small beside the sum of all that they hardly count."""
    count = int(np.count_nonzero((values > 0) & (values < FAINT * values.sum())))
    if not count:
        return []
    return [f"{path}: {count:,} of {len(values):,} weights are below {FAINT:g} of the sum of all, and hardly count"]


def _words(line: str) -> list[str]:
    return line.partition("#")[0].replace(",", " ").split()


def _place(path: Path, lines: list[str], number: int) -> str:
    """Say where a weight stands."""
    ends = np.cumsum([len(_words(line)) for line in lines])
    return f"{path}, line {int(np.searchsorted(ends, number, 'right')) + 1}: weight {number + 1:,}"


def write_numbers(path: Path, values: Iterable[float], *, force: bool, threads: int | None = None) -> None:
    """Write numbers, a line each, as precisely as float32 needs."""
    numbers = np.asarray(values, float) + 0.0  # no -0
    blocks = [numbers[first : first + NUMBERS_AT_ONCE] for first in range(0, len(numbers), NUMBERS_AT_ONCE)]
    with completed(path, force=force) as draft, draft.open("wb") as file:
        file.writelines(in_threads(_text_of, blocks, threads))


def _text_of(numbers: npt.NDArray[np.float64]) -> bytes | memoryview:
    """Return a line for each of some numbers, as ``%.10g`` has them."""
    if len(numbers) > MANY and np.abs(numbers).max() < TEN_DIGITS and (lines := lines_of(numbers[:, None], " ", 10)):
        return lines
    return (("%.10g\n" * len(numbers)) % tuple(map(float, numbers))).encode("ascii")
