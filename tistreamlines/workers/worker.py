"""A worker: a process that grows streamlines on one device for the run that started it (:mod:`.several`).

:mod:`.messages` lists what it receives and what it answers.
"""

from __future__ import annotations

import mmap
import os
import queue
import signal
import socket
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress

import numpy as np

from ..aliases import Array
from ..backends import warm_up
from ..backends.faults import pass_on
from ..devices import choose
from ..errors import TrackingError
from ..space.batch import Batch
from ..tracking.engine.directions import initial_directions
from ..tracking.engine.engine import Block, Engine
from ..tracking.products.points.points import Points
from . import messages
from .messages import Packed, nameless, packed, receive, send
from .session import Session

GRAIN = 2**22  # bytes; memory is as large as a multiple, so that most of it can be used again
POINT_BYTES, STREAMLINE_BYTES, MARGIN = 12, 28, 1024  # of a batch in memory; arrays begin at certain multiples


class Written:
    """Shared memory in which a worker lays out points, used again when nobody looks at the batch any more."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._memory: list[Array] = []
        self._free: set[int] = set()
        self._new: dict[int, int] = {}

    def take(self, points: int, streamlines: int) -> Array:
        """Return memory for the points of a batch, and behind them for its other arrays."""
        size = POINT_BYTES * points + STREAMLINE_BYTES * streamlines + MARGIN
        with self._lock:
            number = next((number for number in self._free if len(self._memory[number]) >= size), None)
            if number is None:
                size, number = -(-size // GRAIN) * GRAIN, len(self._memory)
                self._new[number] = nameless(size)
                self._memory.append(np.frombuffer(mmap.mmap(self._new[number], size), np.uint8))
            self._free.discard(number)
        return self._memory[number][: POINT_BYTES * points].view(np.float32)

    def give_back(self, numbers: Sequence[int]) -> None:
        """Use memory again."""
        with self._lock:
            self._free.update(numbers)

    def finish(self, batch: Batch) -> tuple[int, Packed, list[int]]:
        """Put the other arrays behind the points; return the memory's number, and its descriptor if it is new."""
        whole, (_, *others) = packed(batch)
        with self._lock:
            number = next(n for n, memory in enumerate(self._memory) if memory is batch.points.base)
            new = [self._new.pop(number)] if number in self._new else []
        for place, array in zip(whole.places[1:], others, strict=True):
            self._memory[number][place] = array
        return number, whole, new


class Worker:
    """Serves a run.

    Parameters
    ----------
    channel : to the run.
    arch : where to track; the environment shows one device of it.
    """

    def __init__(self, channel: socket.socket, arch: str) -> None:
        self._channel, self._arch = channel, arch
        self._jobs: queue.SimpleQueue[tuple[messages.Job, list[int]]] = queue.SimpleQueue()  # with descriptors
        self._held: list[tuple[messages.Job, list[int]]] = []
        self._written, self._sending = Written(), threading.Lock()
        self._turn = 0  # jobs of an earlier turn are no longer wanted

    def serve(self) -> None:
        """Do jobs until the run ends, or until there is an error."""
        threading.Thread(target=self._listen, daemon=True).start()
        try:
            device = choose(self._arch)
            session = Session([device], lambda text: self._send(messages.Note(text)))
            warm_up(device)
            engine: object = None
            while True:
                job, descriptors = self._held.pop() if self._held else self._jobs.get()
                if isinstance(job, messages.CompileKernels):
                    with suppress(Exception):  # it occurs again with the tables
                        session.compile(job.parts)
                    continue
                if isinstance(job, messages.LoadKernels):
                    engine = None  # gives its memory back
                    memory = mmap.mmap(descriptors[0], 0, access=mmap.ACCESS_COPY)  # others do not see what it changes
                    os.close(descriptors[0])
                    opening = job.opening.unpacked(memoryview(memory))
                    assert isinstance(opening, messages.Opening)
                    engine = session.open(**opening._asdict())
                    assert isinstance(engine, Engine)
                    if isinstance(engine.points, Points):
                        engine.points.unpacker.memory = self._written.take
                    self._send(messages.Ready(job.turn))
                    continue
                assert isinstance(engine, Engine)
                if isinstance(job, messages.FindDirections):
                    self._send(messages.InitialDirections(job.turn, initial_directions(engine, job.points)))
                else:
                    self._track(engine, job)
        except TrackingError as error:
            self._send(messages.Failed(error))
        except Exception as error:  # perhaps of a type that cannot be sent
            self._send(messages.Failed(RuntimeError(f"{type(error).__name__}: {error}")))

    def _send(self, message: messages.Message, *descriptors: int) -> None:
        with self._sending:
            send(self._channel, message, *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)

    def _listen(self) -> None:
        """Receive what the run sends, and end the process with it."""
        try:
            while True:
                message, descriptors = receive(self._channel)
                if isinstance(message, messages.Turn):
                    self._turn = message.turn
                elif isinstance(message, messages.Free):
                    self._written.give_back(message.numbers)
                elif isinstance(message, messages.Job):
                    self._jobs.put((message, descriptors))
                elif not self._sending.locked():  # else another message is on its way
                    self._send(messages.Alive())
        except (EOFError, OSError):
            os._exit(1)

    def _track(self, engine: Engine, job: messages.TrackSeeds) -> None:
        """Track a range, and those that have come by its end, without a pause; send the batches."""
        turn, most, sizes = job.turn, job.most, deque[int]()
        before = engine.statistics.counts.copy()

        def tell() -> None:
            """Send the counts of the first range, and what products have collected in it."""
            nonlocal before
            sizes.popleft()
            counts = engine.statistics.counts.copy()
            self._send(messages.Tracked(turn, counts - before, engine.take()))
            before = counts

        for batch in engine.track_blocks(self._blocks(job, sizes), most=most, enough=lambda: self._turn != turn):
            if batch.has_points:
                number, whole, new = self._written.finish(batch)
                self._send(messages.SharedBatch(turn, number, whole), *new)
            else:
                self._send(messages.BatchMessage(turn, batch))
            if engine.points.ended and engine.statistics.seeds - before[0] == sizes[0]:
                tell()
        if sizes:  # there are more than enough seeds
            tell()

    def _blocks(self, first: messages.TrackSeeds, sizes: deque[int]) -> Iterator[Block]:
        """Hand out the blocks of a job and of those that come meanwhile, and note how many seeds each has."""
        turn, most, block = first.turn, first.most, first.block
        while True:
            sizes.append(len(block[0]))
            yield block
            if most is not None:
                return
            try:
                job, descriptors = self._jobs.get_nowait()
            except queue.Empty:
                return
            if not isinstance(job, messages.TrackSeeds) or job.turn != turn or job.most is not None:
                self._held.append((job, descriptors))
                return
            block = job.block


def main(descriptor: str, arch: str, number: str, losses: str) -> None:
    """Serve the run at the other end of a socket; it has lost earlier workers of this number so often."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends with the run
    pass_on(int(number), losses != "0")
    Worker(socket.socket(fileno=int(descriptor)), arch).serve()
    os._exit(0)
