"""Whole numbers that are summed by a key, such as an edge of a connectome; only keys that are there take memory."""

from __future__ import annotations

from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
FEWEST = 1 << 18  # keys that wait to be merged


class KeyedSums:
    """Sums by key, in several columns; several threads may add to them, and the sums do not depend on the order.

    Parameters
    ----------
    columns : how many sums each key has; it takes 8 bytes, and 8 for each of them.
    """

    def __init__(self, columns: int) -> None:
        self._keys, self._sums = np.empty(0, np.int64), np.empty((columns, 0), np.int64)
        self._parts: list[tuple[Array, Array]] = []
        self._adding = Lock()

    def __getstate__(self) -> dict[str, Any]:
        """Leave the lock out, since other processes have their own."""
        return {name: value for name, value in vars(self).items() if name != "_adding"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Make a lock."""
        vars(self).update(state, _adding=Lock())

    def add(self, keys: Array, sums: Array) -> None:
        """Add sums, (columns, n), of keys, (n,), from 0 on: in ascending order, each once (:func:`summed`)."""
        with self._adding:
            self._parts.append((keys, sums))
            if sum(len(keys) for keys, _ in self._parts) > max(len(self._keys) // 4, FEWEST):
                self._gather()

    def _gather(self) -> None:
        """Merge what was added; the keys that are there already, most of them in the end, are not sorted again."""
        if not self._parts:
            return
        keys, sums = (np.concatenate(some, axis=-1) for some in zip(*self._parts, strict=True))
        if len(self._parts) > 1:
            keys, sums = summed(keys, sums)
        self._parts.clear()
        place = np.searchsorted(self._keys, keys)
        known = np.append(self._keys, -1)[place] == keys
        self._sums[:, place[known]] += sums[:, known]
        if not known.all():
            self._keys = np.insert(self._keys, place[~known], keys[~known])
            self._sums = np.insert(self._sums, place[~known], sums[:, ~known], axis=1)

    def gathered(self) -> tuple[Array, Array]:
        """Return all keys, sorted, and their sums."""
        with self._adding:
            self._gather()
            return self._keys, self._sums

    def take(self) -> tuple[Array, Array]:
        """Return all keys, sorted, and their sums, and begin anew."""
        taken = self.gathered()
        self._keys, self._sums = self._keys[:0], self._sums[:, :0]
        return taken


def summed(keys: Array, sums: Array) -> tuple[Array, Array]:
    """Sum what has the same key, (columns, n); keys are in ascending order then, each once."""
    if not len(keys):
        return keys, sums
    order = np.argsort(keys)  # of equal ones, any may be the first: whole numbers are summed
    keys = keys[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    return keys[starts], np.add.reduceat(sums[:, order], starts, axis=1)
