"""Tables: of what is known of each streamline, and names in them that no spreadsheet takes for formulas.

A spreadsheet computes a cell that begins with one of a few characters, and such a formula can start programs. An
apostrophe before it makes the cell text.

References
----------
https://owasp.org/www-community/attacks/CSV_Injection
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TextIO

import numpy as np

from ..aliases import Array

SUFFIXES = (".csv", ".tsv")
FORMULA = frozenset("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")  # first characters; the last four are full-width ones
LINES_AT_ONCE = 1 << 16
TEXT = "'"  # before the first character of a cell, says that it is text


def cell_of_name(name: str) -> str:
    """Return the cell of a name, which spreadsheets show and do not compute."""
    return TEXT + name if name.lstrip(TEXT)[:1] in FORMULA else name


def name_of_cell(cell: str) -> str:
    """Return the name that :func:`cell_of_name` has made a cell of."""
    return cell[1:] if cell[:1] == TEXT and cell.lstrip(TEXT)[:1] in FORMULA else cell


def write_rows(
    file: TextIO, values: Mapping[str, Array], separator: str = ",", *, heading: bool = True
) -> None:
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


def write_lines(path: Path, columns: Iterable[Array], *last: tuple[int, ...], separator: str = "  ") -> None:
    """Write lines of whole numbers, which are two spaces apart in FSL's files."""
    columns = tuple(columns)
    with path.open("w", newline="", encoding="ascii") as file:
        for first in range(0, len(columns[0]), LINES_AT_ONCE):
            block = (column[first : first + LINES_AT_ONCE].tolist() for column in columns)
            file.writelines(separator.join(map(str, line)) + "\n" for line in zip(*block, strict=True))
        file.writelines(separator.join(map(str, line)) + "\n" for line in last)
