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
from ..devices import choose
from ..errors import TrackingError
from ..space.batch import Batch
from ..tracking.engine.directions import initial_directions
from ..tracking.engine.engine import Block, Engine
from ..tracking.products.points.points import Points
from . import messages
from .messages import nameless, packed, receive, send
from .session import Session

GRAIN = 2**22  # bytes; memory is as large as a multiple, so that most of it can be used again
POINT_BYTES, STREAMLINE_BYTES, MARGIN = 12, 40, 1024  # of a batch in memory; arrays begin at certain multiples


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

    def finish(self, turn: int, batch: Batch) -> messages.SharedBatch:
        """Put the other arrays behind the points; return the message for the run."""
        whole, (_, *others) = packed(batch)
        with self._lock:
            number = next(n for n, memory in enumerate(self._memory) if memory is batch.points.base)
            descriptor = self._new.pop(number, None)
        for place, array in zip(whole.places[1:], others, strict=True):
            self._memory[number][place] = array
        return messages.SharedBatch(turn, number, whole, descriptor)


class Worker:
    """Serves a run.

    Parameters
    ----------
    channel : to the run.
    arch : where to track; the environment shows one device of it.
    """

    def __init__(self, channel: socket.socket, arch: str) -> None:
        self._channel, self._arch = channel, arch
        self._jobs: queue.Queue[messages.Job] = queue.Queue()
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
                job = self._jobs.get()
                if isinstance(job, messages.CompileKernels):
                    with suppress(Exception):  # it occurs again with the tables
                        session.compile(job.parts)
                    continue
                if isinstance(job, messages.LoadKernels):
                    engine = None  # gives its memory back
                    memory = mmap.mmap(job.descriptor, 0, access=mmap.ACCESS_COPY)  # others do not see what it changes
                    os.close(job.descriptor)
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

    def _send(self, message: messages.Message) -> None:
        with self._sending:
            send(self._channel, message)

    def _listen(self) -> None:
        """Receive what the run sends, and end the process with it."""
        try:
            while True:
                message = receive(self._channel)
                if isinstance(message, messages.Turn):
                    self._turn = message.turn
                elif isinstance(message, messages.Free):
                    self._written.give_back(message.numbers)
                elif isinstance(message, messages.Job):
                    self._jobs.put(message)
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
                message = self._written.finish(turn, batch)
                self._send(message)
                if message.descriptor is not None:
                    os.close(message.descriptor)
            else:
                self._send(messages.BatchMessage(turn, batch))
            if engine.points.ended and engine.statistics.seeds - before[0] == sizes[0]:
                tell()
        if sizes:  # there are more than enough seeds
            tell()

    def _blocks(self, first: messages.TrackSeeds, sizes: deque[int]) -> Iterator[Block]:
        """Hand out the blocks of a job and of those that come meanwhile, and note how many seeds each has."""
        job = first
        while True:
            sizes.append(len(job.block[0]))
            yield job.block
            if first.most is not None or self._jobs.empty():
                return
            job = self._jobs.queue[0]  # nobody else takes it away
            if not isinstance(job, messages.TrackSeeds) or job.turn != first.turn or job.most is not None:
                return
            self._jobs.get()


def main(descriptor: str, arch: str) -> None:
    """Serve the run at the other end of a socket."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends with the run
    Worker(socket.socket(fileno=int(descriptor)), arch).serve()
    os._exit(0)
