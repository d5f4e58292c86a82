"""A memory for the runs of one process: results, and the last object of each kind."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from ..aliases import Array
from ..io.cache import Unpack
from ..io.images import FileState
from .log import Log

T = TypeVar("T")
# of results: tables for fifty values of a slider at 2 mm, or for twelve at 1.25 mm. A computer of 8 GB then has room
# for the series, its fit, the engine and a browser; and tables that were left out are made again within a second
MOST_BYTES = 2 << 30


class _Result(NamedTuple):
    kind: str
    arrays: dict[str, Array]
    values: str

    @property
    def bytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())


class Memory:
    """Results in memory, and the last object of each kind, with the notes and warnings of the run that has made it.

    Results that were used last stay, as many as :data:`MOST_BYTES` allow, and the last one of each kind in any case.

    Attributes
    ----------
    hashes : dict
        SHA-256 of input files, by their states.
    """

    def __init__(self) -> None:
        self.hashes: dict[FileState, str] = {}
        self._results: dict[str, _Result] = {}  # those that were used last are the last ones
        self._last: dict[str, tuple[object, Any, list[str], list[str]]] = {}

    @property
    def bytes(self) -> int:
        """Of all results."""
        return sum(result.bytes for result in self._results.values())

    def once(self, kind: str, causes: object, log: Log, make: Callable[[], T]) -> T:
        """Return what ``make`` returns, or has returned the last time for this kind if the causes were equal.

        Its notes and warnings are said again. The last object is forgotten before another one is made.
        """
        if (kept := self._last.get(kind)) is not None and kept[0] == causes:
            log.tell(*kept[2:])
            return kept[1]
        self.forget(kind)
        mark = log.mark()
        value = make()
        self._last[kind] = causes, value, *log.since(mark)
        return value

    def knows(self, kind: str) -> bool:
        """Return whether there is an object of a kind."""
        return kind in self._last

    def forget(self, kind: str) -> None:
        """Forget the last object of a kind."""
        self._last.pop(kind, None)

    def load(self, kind: str, causes: Mapping[str, object], unpack: Unpack[T]) -> T | None:
        """Return ``unpack(arrays, values)`` of a result, the same object while it is the last one of its kind.

        None is returned if the result is not known.
        """
        key, slot = json.dumps([kind, causes], sort_keys=True), f"unpacked {kind}"
        if key not in self._results:
            self.forget(slot)
            return None
        self._results[key] = result = self._results.pop(key)
        if (kept := self._last.get(slot)) is not None and kept[0] == causes:
            return kept[1]
        self.forget(slot)
        value = unpack(dict(result.arrays), json.loads(result.values))
        self._last[slot] = causes, value, [], []
        return value

    def store(
        self, kind: str, causes: Mapping[str, object], arrays: Mapping[str, Array], values: Mapping[str, object]
    ) -> None:
        """Keep arrays, and values that JSON can represent, and leave out what was not used for the longest time."""
        key = json.dumps([kind, causes], sort_keys=True)
        self._results.pop(key, None)
        self._results[key] = _Result(kind, dict(arrays), json.dumps(values))
        above = self.bytes - MOST_BYTES
        latest = {result.kind: key for key, result in self._results.items()}
        for key, result in [*self._results.items()]:
            if above > 0 and latest[result.kind] != key:
                above -= result.bytes
                del self._results[key]


def once(memory: Memory | None, kind: str, causes: object, log: Log, make: Callable[[], T]) -> T:
    """Return what ``make`` returns, or :meth:`Memory.once` if there is a memory."""
    return make() if memory is None else memory.once(kind, causes, log, make)
