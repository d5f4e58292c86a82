"""A worker: a process that grows streamlines on one device for the run that started it (:mod:`.several`).

It receives ``load`` with the tables, then ``track`` with ranges of seeds, and sends ``ready``, a ``batch`` for each
batch, ``done`` at the end of a range that was tracked only to be counted, ``note``, ``error``, and ``alive`` if asked.
Asked for ``directions``, it sends the initial ones at some points.
"""

from __future__ import annotations

import os
import queue
import signal
import socket
import threading
from collections.abc import Iterator
from typing import Any

from ..backends import warm_up
from ..backends.faults import pass_on
from ..devices import choose
from ..errors import TrackingError
from ..tracking.engine.directions import initial_directions
from ..tracking.engine.engine import Block, Engine
from ..tracking.products.products import Points
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
        self._jobs: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        self._held: list[tuple[Any, ...]] = []
        self._written, self._sending = Written(), threading.Lock()
        self._turn = 0  # jobs of an earlier turn are no longer wanted

    def serve(self) -> None:
        """Do jobs until the run ends, or until there is an error."""
        threading.Thread(target=self._listen, daemon=True).start()
        try:
            device = choose(self._arch)
            session = Session([device], lambda text: self._send("note", text))
            warm_up(device)
            engine: Any = None
            while True:
                kind, turn, *content = self._held.pop() if self._held else self._jobs.get()
                if kind == "load":
                    engine = None  # gives its memory back
                    packing, descriptor = content
                    *given, points = unpacked(descriptor, *packing)
                    engine = session.open(*given, points=points)
                    if isinstance(engine.points, Points):
                        engine.points.unpacker.memory = self._written.take
                    self._send("ready", turn)
                elif kind == "directions":
                    self._send("directions", turn, *initial_directions(engine, *content))
                else:
                    self._track(engine, turn, *content)
        except TrackingError as error:
            self._send("error", error)
        except Exception as error:  # perhaps of a type that cannot be sent
            self._send("error", RuntimeError(f"{type(error).__name__}: {error}"))

    def _send(self, *message: Any, descriptors: Any = ()) -> None:
        with self._sending:
            send(self._channel, message, *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)

    def _listen(self) -> None:
        """Receive what the run sends, and end the process with it."""
        try:
            while True:
                (kind, *content), descriptors = receive(self._channel)
                if kind == "turn":
                    (self._turn,) = content
                elif kind == "free":
                    self._written.give_back(*content)
                elif kind == "ask":
                    if not self._sending.locked():  # else another message is on its way
                        self._send("alive")
                else:
                    self._jobs.put((kind, *content, *descriptors))
        except (EOFError, OSError):
            os._exit(1)

    def _track(self, engine: Engine, turn: int, block: Block, most: int | None) -> None:
        """Track a range, and those that have come by its end, without a pause; send the batches."""
        statistics = engine.statistics
        before = statistics.counts.copy()
        blocks = self._blocks(turn, block) if most is None else iter([block])
        for batch in engine.track_blocks(blocks, most=most, enough=lambda: self._turn != turn):
            counts, made = None, ()
            if engine.points.ended:  # the last batch of a chunk
                counts, before = statistics.counts - before, statistics.counts.copy()
                made = engine.take()
            if not batch.has_points:
                self._send("batch", turn, counts, made, batch)
                continue
            number, new = self._written.finish(batch)
            self._send("batch", turn, counts, made, number, len(batch.points), len(batch), descriptors=new)
        if most is not None:
            self._send("done", turn)

    def _blocks(self, turn: int, block: Block) -> Iterator[Block]:
        while True:
            yield block
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return
            if job[:2] != ("track", turn) or job[3] is not None:
                self._held.append(job)
                return
            block = job[2]


def main(descriptor: int, arch: str, number: int, anew: bool) -> None:
    """Serve the run at the other end of a socket."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends with the run
    pass_on(number, anew)
    Worker(socket.socket(fileno=descriptor), arch).serve()
    os._exit(0)
