"""A worker: a process that grows streamlines on one device for the run that started it (:mod:`.several`).

:mod:`.messages` lists what it receives and what it answers.
"""

from __future__ import annotations

import os
import queue
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

from ..backends import warm_up
from ..backends.faults import pass_on
from ..devices import choose
from ..errors import TrackingError
from ..tracking.engine.directions import initial_directions
from ..tracking.engine.engine import Block, Engine
from ..tracking.products.points.points import Points
from . import messages
from .session import Session
from .shared import Written, receive, send, unpacked


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
                    tables = unpacked(descriptors[0], job.content, job.sizes)
                    assert isinstance(tables, messages.Opening)
                    engine = session.open(**tables._asdict())
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
        statistics, (turn, block, most) = engine.statistics, job
        before = statistics.counts.copy()
        blocks = self._blocks(turn, block) if most is None else iter([block])
        for batch in engine.track_blocks(blocks, most=most, enough=lambda: self._turn != turn):
            counts, deltas = None, ()
            if engine.points.ended:  # the last batch of a chunk
                counts, before = statistics.counts - before, statistics.counts.copy()
                deltas = engine.take()
            if not batch.has_points:
                self._send(messages.BatchMessage(turn, counts, deltas, batch))
                continue
            number, new = self._written.finish(batch)
            self._send(messages.SharedBatch(turn, counts, deltas, (number, len(batch.points), len(batch))), *new)
        if most is not None:
            self._send(messages.Done(turn))

    def _blocks(self, turn: int, block: Block) -> Iterator[Block]:
        while True:
            yield block
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
