"""Rows of seeds that are computed when a range of them is handed out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..aliases import Array


@dataclass(frozen=True, eq=False, repr=False)
class Sliced:
    """Rows that are computed when a slice is taken.

    Parameters
    ----------
    rows : returns the rows from one number on, so many.
    first, count : number of the first row, and how many there are.
    """

    rows: Callable[[int, int], Array | None]
    first: int
    count: int

    def __len__(self) -> int:
        """Return how many rows there are."""
        return self.count

    def __getitem__(self, rows: slice) -> Array | None:
        """Compute rows."""
        return self.rows(self.first + rows.start, rows.stop - rows.start)
