"""Room for the visits of streamlines: in memory and on a device as far as a limit allows, for the others in a file."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Lock

import numpy as np

from ...aliases import Array
from ...backends.program import Program
from ...devices import Device, usable_cores
from ...errors import DeviceMemoryError, ParameterError
from ...kernels.weights.sift2 import NUMBERS, SUMS
from ...linker.lang import LANES
from ...linker.records import INTS
from .visit_list import WORD, DeviceWords, StoredWords, VisitFile, VisitList, in_memory

MOST_WORDS = 2**27  # visits that a launch reads on a GPU: 512 MB
MOST_READ = 2**22  # visits that a thread of the host reads from a file at once: 16 MB; more would not be faster
ENDLESS = 2**62
WHILE_THEY_COME = 2  # part of the limit that visits take while streamlines come: the half
BUFFERS = 16  # part of the limit that buffers take, for visits that are not kept
A_LANE = 6  # words of a streamline: its number, share, coefficients, step, roughness and factor
A_TEAM = 2  # words of a team besides: where its visits begin, and how many there are
COPIES = 2  # of the sums of each thread: while one is made, and then while those of all threads are put together
FEWEST_CLAIMED = 2**20  # words of the first array of a device in which visits stay; the next ones have twice as many


class DeviceRoom:
    """Room for visits on a device, in arrays of which each has the visits of several launches.

    Attributes
    ----------
    words : how many further arrays may have; none at first.
    """

    def __init__(self, program: Program) -> None:
        self._program, self.words, self._claiming = program, 0, Lock()
        self._array = DeviceWords(None, FEWEST_CLAIMED // 2, FEWEST_CLAIMED // 2)  # from the first that is free

    def claim(self, size: int) -> DeviceWords | None:
        """Return so many words, or None if there is no room for them; several threads may do so at once."""
        with self._claiming:
            array = self._array
            if array.count - array.first < size:
                array = self._further(size, min(2 * array.count, MOST_WORDS))
            if not size or array is None:
                return None
            self._array = replace(array, first=array.first + size)
            return replace(array, count=size)

    def _further(self, size: int, usual: int) -> DeviceWords | None:
        """Return an array of the usual number of words, if there is room, or of ``size``."""
        if size > self.words:
            return None
        for count in (max(size, min(usual, self.words)), size):
            with suppress(DeviceMemoryError):  # which other programs have taken
                array = self._program.empty(count, INTS)
                self.words -= count
                return DeviceWords(array, 0, count)
        self.words = 0
        return None


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
