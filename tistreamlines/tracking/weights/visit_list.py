"""Visits of streamlines, whose words are in memory, on a device, or in a file.

The file has no name, so nothing of it is left, however a process ends.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import FileIO
from pathlib import Path
from threading import Lock

import numpy as np

from ...aliases import Array
from ...errors import OutputError
from ...linker.lang import LANES

WORD = 4  # bytes


class VisitFile:
    """Holds words of 32 bits; it is made when the first ones come.

    Parameters
    ----------
    beside : Path
        The file in whose folder it is, since its user has chosen that disk for results.
    """

    def __init__(self, beside: Path) -> None:
        self._beside, self._count, self._lock = beside, 0, Lock()
        self._file: FileIO | None = None

    def put(self, words: Array) -> StoredWords:
        """Append words, (n,) int32; return where they are.

        Raises
        ------
        OutputError
            If they cannot be written, such as on a full disk.
        """
        with self._explain(), self._lock:
            if self._file is None:
                beside = self._beside
                self._file = tempfile.TemporaryFile(  # noqa: SIM115  (open until the weights are known)
                    buffering=0, dir=beside.parent, prefix=f".{beside.name}.", suffix=".part"
                )
                weakref.finalize(self, self._file.close)
            self._file.seek(WORD * self._count)
            left = np.ascontiguousarray(words, np.int32).view(np.uint8).data
            while left:
                left = left[self._file.write(left) :]
            self._count += len(words)
            return StoredWords(self, self._count - len(words), len(words))

    def read(self, first: int, out: Array) -> None:
        """Read as many words as ``out`` has, from number ``first`` on; several threads may do so at once."""
        left, place = out.view(np.uint8).data, WORD * first
        with self._explain():
            while left:
                if not (count := self._read_part(left, place)):
                    raise OSError("the file has become shorter")
                left, place = left[count:], place + count

    def _read_part(self, out: memoryview, place: int) -> int:
        assert self._file is not None
        if hasattr(os, "preadv"):
            return os.preadv(self._file.fileno(), [out], place)
        with self._lock:  # Windows, where reading moves the place in the file
            self._file.seek(place)
            return self._file.readinto(out) or 0

    def close(self) -> None:
        """Remove the file; nothing can be read any more."""
        if self._file is not None:
            self._file.close()

    @contextmanager
    def _explain(self) -> Generator[None, None, None]:
        try:
            yield
        except OSError as error:
            raise OutputError(
                f"{self._beside}: visits of streamlines that --memory-limit has no room for cannot be kept in its "
                f"folder ({error.strerror or error}); free some space there, or give a greater --memory-limit"
            ) from error


@dataclass(frozen=True)
class StoredWords:
    """So many words of a file, from number ``first`` on."""

    file: VisitFile
    first: int
    count: int

    def __len__(self) -> int:
        """Return the number of words."""
        return self.count

    def __getitem__(self, words: slice) -> StoredWords:
        """Return some of them, which follow each other."""
        first, last, _ = words.indices(self.count)
        return StoredWords(self.file, self.first + first, last - first)


@dataclass(frozen=True, eq=False)
class DeviceWords:
    """So many words in an array of a device, from number ``first`` on."""

    array: object
    first: int
    count: int

    def __len__(self) -> int:
        """Return the number of words."""
        return self.count


Words = Array | StoredWords | DeviceWords


def in_memory(words: Words, buffer: Array | None = None) -> Array:
    """Return words, (n,) int32: those of a file in the front of ``buffer``, or else in an array of their own."""
    assert not isinstance(words, DeviceWords)
    if isinstance(words, StoredWords):
        out = np.empty(len(words), np.int32) if buffer is None else buffer[: len(words)]
        words.file.read(words.first, out)
        return out
    return words


def adjoin(first: Words, second: Words) -> bool:
    """Whether they can be joined: both are in memory or in an array of a device, or follow each other in a file."""
    if isinstance(first, StoredWords) and isinstance(second, StoredWords):
        return first.first + first.count == second.first
    if isinstance(first, DeviceWords) and isinstance(second, DeviceWords):
        return first.array is second.array
    return isinstance(first, np.ndarray) and isinstance(second, np.ndarray)


@dataclass(frozen=True, eq=False)
class VisitList:
    """Visits of some streamlines.

    Parameters
    ----------
    order : (32 * teams,) int32
        Number of the streamline of each lane, -1 for none.
    begin, depth : (teams,) int32
        First word of each team, on a device counted from that of the array, and the greatest number of visits of its
        lanes.
    words : (n,) int32, or others
        Visits: the fixel in the low 24 bits, the length in the others. They are in memory, in a file or on a device.
    """

    order: Array
    begin: Array
    depth: Array
    words: Words

    def renumber(self, first: int) -> VisitList:
        """Return it with the first of the streamlines numbered ``first``."""
        return replace(self, order=np.where(self.order < 0, -1, self.order + first))

    def teams(self, first: int, last: int) -> VisitList:
        """Return the visits of some teams, without a copy."""
        if (first, last) == (0, len(self.depth)):
            return self
        assert not isinstance(self.words, DeviceWords)
        begin, depth = self.begin[first:last], self.depth[first:last]
        words = self.words[int(begin[0]) : int(begin[-1]) + LANES * int(depth[-1])]
        return VisitList(self.order[LANES * first : LANES * last], begin - begin[0], depth, words)

    def divide(self, most: int) -> Generator[VisitList, None, None]:
        """Return parts with at most so many words each, or of a team that has more."""
        if len(self.words) <= most or isinstance(self.words, DeviceWords):
            yield self
            return
        first, ends = 0, self.begin + LANES * self.depth
        while first < len(ends):
            last = max(int(np.searchsorted(ends, int(self.begin[first]) + most, "right")), first + 1)
            yield self.teams(first, last)
            first = last


def join_last(parts: list[VisitList], most: int) -> VisitList:
    """Take the last ones of some parts, with at most so many words, that can be joined; return them as one part."""
    last = [parts.pop()]
    words = len(last[0].words)
    while parts and words + len(parts[-1].words) <= most and adjoin(parts[-1].words, last[-1].words):
        words += len(parts[-1].words)
        last.append(parts.pop())
    last.reverse()
    if len(last) == 1:
        return last[0]
    names = ("order", "begin", "depth")
    order, begin, depth = (np.concatenate([getattr(part, name) for part in last]) for name in names)
    first = last[0].words
    if isinstance(first, DeviceWords):
        return VisitList(order, begin, depth, replace(first, count=words))
    starts = np.cumsum([0, *(len(part.words) for part in last[:-1])])
    begin = begin + np.repeat(starts, [len(part.depth) for part in last])
    if isinstance(first, StoredWords):
        words = StoredWords(first.file, first.first, words)
    else:
        words = np.concatenate([in_memory(part.words) for part in last])
    return VisitList(order, begin.astype(np.int32), depth, words)
