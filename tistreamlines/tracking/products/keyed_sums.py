"""Whole numbers that are summed by a key, such as an edge of a connectome; only keys that are there take memory."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from threading import RLock

import numpy as np

from ...aliases import Array
from ...backends.numba.cache import Function, text_of

MOST_DIRECT = 1 << 25  # sums, a quarter of a gigabyte, of which only pages that are added to take memory
SPARSE = 16  # places for each key that is there, at most
FEWEST = 1 << 14  # keys that a table has room for
GROWTH = 1.5
FULL = 0.75  # part of the slots that may be taken
_insert = Function(text_of(Path(__file__).with_name("keyed_sums_kernels.py")), "insert")


class KeyedSums:
    """Sums by key, in several columns; several threads may add to them, and the sums do not depend on the order.

    Parameters
    ----------
    columns : how many sums each key has.
    keys : how many keys there may be. A table holds those that are there, until most may be: then each has its place.
    """

    def __init__(self, columns: int, keys: int) -> None:
        self._columns, self._keys, self._lock = columns, keys, RLock()
        self._clear()

    def __getstate__(self) -> tuple[int, int, Array, Array]:
        """Send what there is to another process, which has a separate lock."""
        return self._columns, self._keys, *self.sorted()

    def __setstate__(self, state: tuple[int, int, Array, Array]) -> None:
        """Receive what another process has sent."""
        columns, keys, present, totals = state
        self.__init__(columns, keys)
        self.add(present, totals)

    def _clear(self) -> None:
        """Give the memory back."""
        self._slots, self._totals = np.empty(0, np.int64), np.empty((0, self._columns), np.int64)
        self._state = np.zeros(2, np.int64)  # room for new keys, and how many items of an addition are added

    def _allocate(self, keys: int) -> None:
        """Begin anew, with memory for so many keys."""
        self._clear()
        direct = self._columns * self._keys <= MOST_DIRECT and SPARSE * keys >= self._keys
        slots = self._keys if direct else int(keys / FULL) + 1
        self._slots, self._state[0] = np.full(0 if direct else slots, -1, np.int64), keys
        self._totals = np.zeros((slots, self._columns), np.int64)

    def add(self, keys: Array, sums: Array) -> None:
        """Add sums, (n, columns) int64, of keys, (n,) int64 from 0 on; one may be there several times."""
        with self._lock:
            if not len(self._totals):
                self._allocate(FEWEST)
            self._state[1] = 0
            _insert(self._slots, self._totals, self._state, keys, sums)
            if (done := int(self._state[1])) < len(keys):
                taken = self._all_sums()
                self._allocate(int(len(taken[0]) * GROWTH) + FEWEST)
                self.add(*taken)
                self.add(keys[done:], sums[done:])

    def in_any_order(self) -> tuple[Array, Array]:
        """Return all keys, and their sums, (n, columns)."""
        with self._lock:
            return self._all_sums()

    def _all_sums(self) -> tuple[Array, Array]:
        if not len(self._slots):
            columns: list[Array] = [*self._totals.T]
            keys = np.flatnonzero(reduce(np.logical_or, columns))
            return keys, self._totals[keys]
        taken = np.flatnonzero(self._slots >= 0)
        return self._slots[taken], self._totals[taken]

    def sorted(self) -> tuple[Array, Array]:
        """Return all keys in ascending order, and their sums, (n, columns)."""
        keys, sums = self.in_any_order()
        order = np.argsort(keys) if len(self._slots) else slice(None)
        return keys[order], sums[order]

    def merge(self, other: KeyedSums) -> None:
        """Add the sums of another one, which is not used any more."""
        with self._lock:
            if not len(self._totals):
                self._adopt(other)
                return
        self.add(*other.sorted())

    def take(self) -> KeyedSums:
        """Return the sums so far, and begin anew."""
        taken = KeyedSums(self._columns, self._keys)
        with self._lock:
            taken._adopt(self)
            self._clear()
        return taken

    def _adopt(self, other: KeyedSums) -> None:
        self._slots, self._totals, self._state = other._slots, other._totals, other._state
