"""Where the visits of streamlines are: in memory and on a device as far as a limit allows, the others in a file.

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
from ...backends.program import Program
from ...devices import Device, usable_cores
from ...errors import OutputError, ParameterError
from ...kernels.weights.sift2 import NUMBERS, SUMS
from ...linker.lang import LANES
from ...linker.records import INTS

WORD = 4  # bytes
MOST_WORDS = 2**27  # visits that a launch reads on a GPU: 512 MB
MOST_READ = 2**22  # visits that a thread of the host reads from a file at once: 16 MB; more would not be faster
ENDLESS = 2**62
WHILE_THEY_COME = 2  # part of the limit that visits take while streamlines come: the half
BUFFERS = 16  # part of the limit that buffers take, for visits that are not kept
A_LANE = 6  # words of a streamline: its number, share, coefficients, step, roughness and factor
A_TEAM = 2  # words of a team besides: where its visits begin, and how many there are
COPIES = 2  # of the sums of each thread: while one is made, and then while those of all threads are put together


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
    taken = [parts.pop()]
    words = len(taken[0].words)
    while parts and words + len(parts[-1].words) <= most and adjoin(parts[-1].words, taken[-1].words):
        words += len(parts[-1].words)
        taken.append(parts.pop())
    taken.reverse()
    if len(taken) == 1:
        return taken[0]
    names = ("order", "begin", "depth")
    order, begin, depth = (np.concatenate([getattr(part, name) for part in taken]) for name in names)
    first = taken[0].words
    if isinstance(first, DeviceWords):
        return VisitList(order, begin, depth, replace(first, count=words))
    starts = np.cumsum([0, *(len(part.words) for part in taken[:-1])])
    begin = begin + np.repeat(starts, [len(part.depth) for part in taken])
    if isinstance(first, StoredWords):
        words = StoredWords(first.file, first.first, words)
    else:
        words = np.concatenate([in_memory(part.words) for part in taken])
    return VisitList(order, begin.astype(np.int32), depth, words)


class VisitMemory:
    """Room for the visits of streamlines.

    Parameters
    ----------
    fixels : int
        Number of fixels.
    device : Device
        Where streamlines are weighed.
    threads : int, optional
        CPU threads; by default all cores.
    limit : int, optional
        Bytes that the visits, and what else kernels take of streamlines and fixels, may have on the device; visits in
        the host's memory take at most half of it while streamlines come. Without a limit, all are kept.
    beside : Path
        The file in whose folder visits wait for which there is no room.

    Attributes
    ----------
    threads : int
        How many have sums of their own: threads of the host do, since additions that others see take longer.

    Raises
    ------
    ParameterError
        If the limit is too small for so many fixels.
    """

    def __init__(
        self, fixels: int, device: Device, threads: int | None = None, *, limit: int | None = None,
        beside: Path = Path(),
    ) -> None:
        self.fixels, self.device, self._limit = fixels, device, limit
        self.threads = (threads or usable_cores()) if device.on_host else 1
        self._file = VisitFile(beside)
        self._lanes = self._words = self._held = 0  # bytes are held, in the host's memory
        self._deepest = 0  # words of the team with most visits
        self._keeping = Lock()
        self.shares()

    def keep(self, part: VisitList) -> VisitList:
        """Take visits into account as they come; return them, in the file if memory has no room for them.

        Several threads may do so at once.

        Raises
        ------
        ParameterError
            If the limit is too small for the streamlines that have come.
        OutputError
            If the file cannot be written.
        """
        if self._limit is None:
            return part
        with self._keeping:
            return self._hold(part, self._limit)

    def _hold(self, part: VisitList, limit: int) -> VisitList:
        """Take visits into account under a limit, one thread at a time."""
        words = in_memory(part.words)
        self._lanes += len(part.order)
        self._words += len(words)
        self._deepest = max(self._deepest, LANES * int(part.depth.max(initial=0)))
        self.shares()
        self._held += part.order.nbytes + part.begin.nbytes + part.depth.nbytes
        if self._held + words.nbytes > limit // WHILE_THEY_COME:
            return replace(part, words=self._file.put(words))
        self._held += words.nbytes
        return part

    def shares(self) -> tuple[int, int]:
        """Return how many words of visits may stay on the device, and how many a piece of some streamlines may have."""
        on_host = self.device.on_host
        most = ENDLESS if on_host else MOST_WORDS
        if self._limit is None:
            return ENDLESS, most
        needed = self._lanes * A_LANE + self._lanes // LANES * A_TEAM
        needed += self.fixels * (1 + NUMBERS + COPIES * SUMS * self.threads)
        left = self._limit // WORD - needed
        if self._words + (0 if on_host else min(self._words, most)) <= left:
            return self._words, most
        buffers = self.threads if on_host else 2  # Taichi needs memory for both copies
        if left < buffers * self._deepest:
            raise ParameterError(self._too_small(WORD * needed, WORD * buffers * self._deepest))
        piece = min(self._limit // WORD // BUFFERS // buffers, MOST_READ if on_host else MOST_WORDS, left // buffers)
        piece = max(piece, self._deepest)
        return left - buffers * piece, piece

    def waiting(self, words: Array | StoredWords) -> Array | StoredWords:
        """Return visits that do not stay on the device: in the file if the device is the host."""
        return self._file.put(in_memory(words)) if self.device.on_host and not isinstance(words, StoredWords) else words

    def close(self) -> None:
        """Remove the file."""
        self._file.close()

    def _too_small(self, needed: int, pieces: int) -> str:
        """Say what needs more bytes than there are."""
        assert self._limit is not None
        fewer = "; fewer --threads need less" if self.threads > 1 else ""
        return (
            f"--memory-limit is {self._limit / 1e9:.4g} GB, but the coefficients of {self._lanes:,} streamlines and "
            f"the sums of {self.fixels:,} fixels take {needed / 1e9:.4g} and the smallest pieces of visits "
            f"{pieces / 1e9:.4g}: give {(needed + pieces) / 1e9 + 0.0005:.3f} or more, and "
            f"{1e6 * WORD * (A_LANE + A_TEAM / LANES) / 1e9:.3f} more for each further million of streamlines{fewer}"
        )


class VisitBuffer:
    """An array to which the visits of a piece go that are not kept on a device, before a kernel reads them.

    Parameters
    ----------
    program : Program
        Whose kernel reads them.
    device : Device
        The device that does so.
    most : int
        Words of the largest piece.
    """

    def __init__(self, program: Program, device: Device, most: int) -> None:
        self._program, self._on_host, self._most = program, device.on_host, most
        self._read: Array | None = None
        self._array: object = None

    def fill(self, words: Array | StoredWords) -> object:
        """Return an array on the device that begins with these words, until the next ones come."""
        if self._read is None:
            self._read = np.empty(self._most, np.int32)
            self._array = None if self._on_host else self._program.empty(self._most, INTS)
        visits = in_memory(words, self._read)
        if self._on_host:
            return visits
        self._program.sync()  # it may still read the words before these
        return self._program.upload(self._array, visits)
