"""A table of what is known of each streamline: a line of names, then a row for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt

SUFFIXES = (".csv", ".tsv")


class Table:
    """Writes rows to a file; float32 values are read back as they were.

    Parameters
    ----------
    file : takes the text.
    separator : stands between two values.
    """

    def __init__(self, file: TextIO, separator: str = ",") -> None:
        self._file, self._separator = file, separator
        self._begun = False

    def append(self, values: Mapping[str, npt.NDArray[Any]]) -> None:
        """Append the rows of some streamlines: a column for each name, which are the same each time."""
        if not self._begun:
            self._file.write(self._separator.join(values) + "\n")
            self._begun = True
        np.savetxt(self._file, np.column_stack([*values.values()]), "%.9g", self._separator)
