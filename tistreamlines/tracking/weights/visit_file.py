"""A file without a name for the visits that memory has no room for: nothing of it is left, however a process ends."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from threading import Lock

import numpy as np

from ...aliases import Array
from ...errors import OutputError

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
        with self._explained(), self._lock:
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
        with self._explained():
            while left:
                if not (count := self._read_some(left, place)):
                    raise OSError("the file has become shorter")
                left, place = left[count:], place + count

    def _read_some(self, out: memoryview, place: int) -> int:
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
    def _explained(self) -> Generator[None, None, None]:
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


def in_memory(words: Array | StoredWords, room: Array | None = None) -> Array:
    """Return words, (n,) int32: those of a file in the front of ``room``, or else in an array of their own."""
    if isinstance(words, StoredWords):
        out = np.empty(len(words), np.int32) if room is None else room[: len(words)]
        words.file.read(words.first, out)
        return out
    return words


def adjoin(first: Array | StoredWords, second: Array | StoredWords) -> bool:
    """Whether :func:`joined` can join them: both are in memory, or the second one follows the first one in a file."""
    if isinstance(first, StoredWords) and isinstance(second, StoredWords):
        return first.first + first.count == second.first
    return not isinstance(first, StoredWords) and not isinstance(second, StoredWords)


def joined(words: list[Array | StoredWords]) -> Array | StoredWords:
    """Return words one after another, of which each two neighbours :func:`adjoin`."""
    if isinstance(words[0], StoredWords):
        return StoredWords(words[0].file, words[0].first, sum(map(len, words)))
    return np.concatenate([in_memory(part) for part in words])
