"""Ranges of seeds, and what becomes of them: a piece is the same whoever tracks it, and however often it was begun."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..aliases import Array
from ..space.batch import Batch


@dataclass(eq=False, repr=False)
class Piece:
    """A range of seeds that one worker tracks, and what has become of it.

    Parameters
    ----------
    places : of the seeds among those of the call.
    most : end after so many streamlines; without it, the piece has all of them.
    streamlines : how many have come; a worker that begins the range sends the same ones, in the same order.

    Attributes
    ----------
    batches : streamlines that have come, and that were not handed on yet.
    counts : of the seeds and their streamlines, as those of a Statistics; None until all have come.
    deltas : what each product has collected of them.
    """

    places: range
    most: int | None = None
    streamlines: int = 0
    batches: deque[Batch] = field(init=False, default_factory=deque)
    counts: Array | None = field(init=False, default=None)
    deltas: Sequence[object] = field(init=False, default=())

    def __post_init__(self) -> None:
        self.begin()

    @property
    def is_ready(self) -> bool:
        """Whether a batch can be handed on, or all of them have been."""
        return bool(self.batches) or self.counts is not None

    def begin(self) -> None:
        """Note that a worker begins the range, perhaps after another one was lost."""
        self._double = self.streamlines

    def take(self, batch: Batch) -> None:
        """Receive a batch, and leave out what has come before."""
        double = min(self._double, len(batch))
        self._double -= double
        self.streamlines += len(batch) - double
        self.batches.append(batch[double:] if double else batch)


@dataclass(frozen=True, eq=False, repr=False)
class Sliced:
    """Rows of seeds that are computed when a slice is taken.

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
