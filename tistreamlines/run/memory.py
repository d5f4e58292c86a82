"""A memory for the runs of one process: results, and the last object of each kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ..io.cache import MemoryResults, Unpack
from .log import Log

T = TypeVar("T")


class Memory(MemoryResults):
    """Results in memory, and the last object of each kind, with the notes and warnings of the run that has made it."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, tuple[object, Any, list[str], list[str]]] = {}

    def once(self, kind: str, causes: object, log: Log, make: Callable[[], T]) -> T:
        """Return what ``make`` returns, or has returned the last time for this kind if the causes were equal.

        Its notes and warnings are said again. The last object is forgotten before another one is made.
        """
        if (kept := self._last.get(kind)) is not None and kept[0] == causes:
            log.tell(*kept[2:])
            return kept[1]
        self.forget(kind)
        notes, warnings = len(log.notes), len(log.warnings)
        value = make()
        self._last[kind] = causes, value, log.notes[notes:], log.warnings[warnings:]
        return value

    def knows(self, kind: str) -> bool:
        """Return whether there is an object of a kind."""
        return kind in self._last

    def forget(self, kind: str) -> None:
        """Forget the last object of a kind."""
        self._last.pop(kind, None)

    def load(self, kind: str, causes: Mapping[str, object], unpack: Unpack[T]) -> T | None:
        """Return ``unpack(arrays, values)`` of a result, the same object while it is the last one of its kind."""
        slot = f"unpacked {kind}"
        if (kept := self._last.get(slot)) is not None and kept[0] == causes:
            return kept[1]
        self.forget(slot)
        if (value := super().load(kind, causes, unpack)) is not None:
            self._last[slot] = causes, value, [], []
        return value


def once(memory: Memory | None, kind: str, causes: object, log: Log, make: Callable[[], T]) -> T:
    """Return what ``make`` returns, or :meth:`Memory.once` if there is a memory."""
    return make() if memory is None else memory.once(kind, causes, log, make)
