"""Several devices: a worker process for each (:mod:`.worker`), since Taichi is global to a process.

Ranges of seeds are handed out as workers ask for them, and batches are merged in the order of seeds. Streamlines do not
depend on who grows them, since random numbers are counted by the numbers of seeds. So the range of a worker that is
lost is tracked again by another one from the last whole chunk on. Near the end ranges are smaller, so that the devices
end together. With ``--select``, the last range is tracked once more up to the last streamline, to count its seeds, stop
reasons and dropped streamlines.
"""

from __future__ import annotations

import os
import socket
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import wait

import numpy as np

from ..aliases import Array
from ..devices import Device, usable_cores
from ..errors import DeviceError, LostDeviceError
from ..space.batch import Batch
from ..tracking.engine.engine import check_numbers
from ..tracking.engine.kernels import KernelParts
from ..tracking.growth.memory import FEWEST_SEEDS, SOFTWARE_SEEDS, USUAL_SEEDS
from ..tracking.growth.settings import Settings
from ..tracking.growth.statistics import Statistics
from . import messages
from .messages import shared
from .remote import Piece, Remote

EACH = 2  # ranges that a worker has at a time: one in work, and the next
AHEAD = 4  # ranges for each worker, from the first unfinished one on, that may be handed out: bounds the memory
GPU_SEEDS = 65536  # fewest of a range on a GPU in hardware, near the end: with half of it, Vulkan takes 25 % longer
MAPS = 256  # parts of shared memory of all workers together, each of which takes a descriptor; there may be only 1024
PATIENCE = 0.5  # seconds after which the time limit is looked at again, and whether workers answer


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


class Several:
    """Grows streamlines on several devices, with the methods that a run needs of
    :class:`..tracking.engine.engine.Engine`.

    Parameters
    ----------
    devices : where to run; the processes are started at once.
    note : receives messages about the devices.

    Attributes
    ----------
    statistics : counts of the streamlines that were handed out.
    """

    def __init__(self, devices: Sequence[Device], note: Callable[[str], object] = lambda _: None) -> None:
        if not hasattr(socket, "send_fds"):
            raise DeviceError("--devices needs Linux or macOS: run a part of the seeds on each GPU instead")
        self.note, self.statistics = note, Statistics()
        self._remotes = [Remote(device, MAPS // len(devices)) for device in devices]
        fast = all(device.on_gpu for device in devices)
        self._sizes = (GPU_SEEDS, USUAL_SEEDS) if fast else (FEWEST_SEEDS, SOFTWARE_SEEDS)
        self._count, self._turn = len(devices), 0
        self._tables: tuple[messages.Packed, int] | None = None
        self._directions_found: tuple[Array, Array] | None = None  # the initial directions of seeds
        self._open: deque[Piece] = deque()  # in the order of seeds
        self._again: list[Piece] = []  # of workers that were lost
        self.close = weakref.finalize(self, _end, self._remotes, os.getpid())

    def compile(self, parts: KernelParts) -> None:
        """Have all workers compile kernels before their tables are known."""
        for remote in self._remotes:
            remote.send(messages.CompileKernels(replace(parts, settings=self._of_each(parts.settings))))

    def _of_each(self, settings: Settings) -> Settings:
        """Return the settings of a worker, which has its share of the threads."""
        return replace(settings, threads=settings.threads or max(1, usable_cores() // self._count))

    def load(self, opening: messages.Opening) -> Several:
        """Hand the tables to all workers, and wait until they have compiled."""
        if not self._remotes:
            raise LostDeviceError("no device is left, since all were lost before: check them, and start the run again")
        begun = time.perf_counter()
        if self._tables is not None:
            os.close(self._tables[1])
        self._tables = shared(opening._replace(settings=self._of_each(opening.settings)))
        self._products = opening.products
        self._new_turn()
        for remote in self._remotes:
            if remote.process.poll() is not None:  # it met an error
                remote.end()
                remote.start()
            self._load(remote)
        while not all(remote.ready for remote in self._remotes):
            self._listen(PATIENCE)
        self.statistics = Statistics()
        self.statistics.seconds["compile"] = time.perf_counter() - begun
        return self

    def _load(self, remote: Remote) -> None:
        assert self._tables is not None
        remote.ready = False
        remote.send(messages.Turn(self._turn))
        remote.send(messages.LoadKernels(self._turn, *self._tables))

    def track(
        self, seeds: Array | Sliced, first_seed: int = 0, directions: Array | Sliced | None = None, *,
        most: int | None = None, enough: Callable[[], bool] = lambda: False,
    ) -> Iterator[Batch]:
        """Grow streamlines from seeds: see :meth:`..tracking.engine.engine.Engine.track`; ``enough`` ends it after one.

        ``seeds`` and ``directions`` may be a :class:`Sliced`, so that devices need not wait for all seeds.
        """
        check_numbers(first_seed, len(seeds))
        begun = time.perf_counter()
        self._seeds, self._first, self._directions = seeds, first_seed, directions
        self._handed = 0
        try:
            for batch in self._merged(2**62 if most is None else most, enough):
                self.statistics.seconds["track"] = time.perf_counter() - begun
                yield batch
            self.statistics.seconds["track"] = time.perf_counter() - begun
        finally:
            self._new_turn()

    def track_all(
        self, blocks: Iterator[tuple[Array | Sliced, int, Array | Sliced | None] | None], *, most: int | None = None,
        enough: Callable[[], bool] = lambda: False, more: bool = True,
    ) -> Iterator[Batch]:
        """Grow streamlines from blocks of seeds, one after the other; see :meth:`..engine.engine.Engine.track_all`."""
        del more
        left = 2**62 if most is None else most
        while left and not enough():
            if (block := next(blocks, None)) is None:
                return
            for batch in self.track(*block, most=left, enough=enough):
                left -= len(batch)
                yield batch

    @property
    def seeds_done(self) -> int:
        """How many seeds have had all their streamlines handed out."""
        return self.statistics.seeds

    def initial_directions(self, points: Array) -> tuple[Array, Array]:
        """Have a worker find the initial directions at points, see :mod:`..tracking.engine.directions`."""
        self._directions_found, asked = None, None
        while self._directions_found is None:
            ready = [remote for remote in self._remotes if remote.ready]
            if ready and asked not in ready:  # that worker is lost
                asked = ready[0]
                asked.send(messages.FindDirections(self._turn, points))
            self._listen(PATIENCE)
        return self._directions_found

    def _new_turn(self) -> None:
        """Have the workers forget what they have been given."""
        self._turn += 1
        self._open, self._again = deque(), []
        for remote in self._remotes:
            remote.pieces.clear()
            remote.send(messages.Turn(self._turn))

    def _merged(self, left: int, enough: Callable[[], bool]) -> Iterator[Batch]:
        """Hand ranges out and batches on, until there are ``left`` streamlines."""
        self._new_turn()
        ended, passed = False, 0  # streamlines of the first open range that were handed on
        while self._open or (left and self._handed < len(self._seeds)):
            if ended := ended or enough():
                self._handed = len(self._seeds)
                if not passed:
                    return
            self._hand_out()
            piece = self._open[0] if self._open else None
            self._listen(0 if piece and (piece.batches or piece.counts is not None) else PATIENCE)
            if piece is None:
                continue
            if piece.batches:
                batch = piece.batches.popleft()
                if len(batch) >= left and piece.most is None:  # what comes after the last one does not count
                    self._new_turn()
                    self._handed = len(self._seeds)
                    self._open.append(Piece(piece.places, passed + left, passed))
                    self._again.append(self._open[0])
                    continue
                left, passed = left - len(batch), passed + len(batch)
                self.statistics.streamlines += len(batch)
                self.statistics.points += int(batch.whole_lengths.sum())
                yield batch
            elif piece.counts is not None:
                self._open.popleft()
                passed = 0
                self.statistics.counts += piece.counts
                for product, delta in zip(self._products, piece.deltas, strict=False):
                    product.merge(delta)

    def _hand_out(self) -> None:
        """Give ranges to the workers that have few, the lost ones first."""
        for has in range(EACH):
            for remote in self._remotes:
                if remote.ready and len(remote.pieces) == has and (piece := self._next()) is not None:
                    remote.pieces.append(piece)
                    begin, end = piece.places.start, piece.places.stop
                    seeds = np.asarray(self._seeds[begin:end], np.float32)
                    directions = None if self._directions is None else self._directions[begin:end]
                    remote.send(messages.TrackSeeds(self._turn, (seeds, self._first + begin, directions), piece.most))

    def _next(self) -> Piece | None:
        """Return the next range, None if it has to wait; near the end ranges are smaller, so that all end together."""
        if self._again:
            return self._again.pop(0)
        left, (fewest, most) = len(self._seeds) - self._handed, self._sizes
        if not left or len(self._open) >= AHEAD * len(self._remotes):
            return None
        begin = self._handed
        self._handed += min(left, most, max(fewest, left // len(self._remotes)))
        self._open.append(Piece(range(begin, self._handed)))
        return self._open[-1]

    def _listen(self, seconds: float) -> None:
        """Receive what workers send, and wait so long for the first message."""
        begun = time.perf_counter()
        heard = wait([remote.channel for remote in self._remotes], seconds)
        waited = time.perf_counter() - begun
        for remote in tuple(self._remotes):
            try:
                if remote.channel in heard:
                    answer = remote.receive()
                else:
                    remote.missed(waited)
                    continue
            except (EOFError, OSError):
                self._lose(remote, remote.end())
                continue
            self._heed(remote, answer)

    def _heed(self, remote: Remote, answer: messages.Message) -> None:
        """Do what a message asks for."""
        if isinstance(answer, messages.Ready):
            remote.ready = answer.turn == self._turn
        elif isinstance(answer, messages.InitialDirections):
            self._directions_found = answer.directions
        elif isinstance(answer, messages.Note):
            self.note(f"{remote}: {answer.text}")
        elif isinstance(answer, messages.Failed):
            if not isinstance(answer.error, LostDeviceError):
                raise answer.error
            remote.end()
            self._lose(remote, answer.error.on_command_line)
        elif isinstance(answer, messages.BatchMessage) and answer.turn == self._turn:
            remote.pieces[0].take(answer.batch)
        elif isinstance(answer, messages.Tracked) and answer.turn == self._turn:
            piece = remote.pieces.popleft()
            piece.counts, piece.deltas = answer.counts, answer.deltas

    def _lose(self, remote: Remote, reason: str) -> None:
        """Start a lost worker anew, once, and hand its ranges to whoever asks first."""
        for piece in remote.pieces:
            piece.begin()
        self._again = sorted([*self._again, *remote.pieces], key=lambda piece: piece.places.start)
        remote.losses += 1
        if remote.losses == 1:
            self.note(f"{remote} was lost ({reason}): its worker is started anew, and its seeds are tracked again")
            remote.start()
            self._load(remote)
            return
        self._remotes.remove(remote)
        if not self._remotes:
            raise LostDeviceError(
                f"no device is left: {remote} was lost again ({reason}): check it, and start the run again; --resume "
                "keeps what it has tracked"
            )
        self.note(f"{remote} was lost again ({reason}): the run goes on without it")


def _end(remotes: Sequence[Remote], process: int) -> None:
    """End all workers, unless this is a fork."""
    if os.getpid() == process:
        for remote in remotes:
            remote.process.kill()
            remote.end()
