"""A worker as its run sees it: its process, the ranges of seeds that it has, and whether it answers."""

from __future__ import annotations

import mmap
import os
import signal
import socket
import subprocess
import weakref
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from ..aliases import Array
from ..devices import Device, alone
from ..helpers import module_command, tell_event
from ..space.batch import Batch
from .messages import Alive, BatchMessage, Free, Message, SharedBatch, receive, send

ASKED = 10.0  # seconds without a message after which a worker is asked whether it is alive
SILENT = 300.0  # after which it is lost; while a kernel is compiled, which may take a minute, it cannot answer


@dataclass(eq=False, repr=False)
class Piece:
    """A range of seeds that one worker tracks, and what has become of it.

    Parameters
    ----------
    places : of the seeds among those of the call.
    most : end after so many streamlines; without it, the piece has all of them.
    streamlines : how many have come; a worker that begins the range sends the same ones, in the same order.

    Attributes
    ----------
    batches : streamlines that have come, and that were not handed on yet.
    counts : of the seeds and their streamlines, as those of a Statistics; None until all have come.
    deltas : what each product has collected of them.
    """

    places: range
    most: int | None = None
    streamlines: int = 0
    batches: deque[Batch] = field(init=False, default_factory=deque)
    counts: Array | None = field(init=False, default=None)
    deltas: Sequence[object] = field(init=False, default=())

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Note that a worker begins the range, perhaps after another one was lost."""
        self._double = self.streamlines

    def take(self, batch: Batch) -> None:
        """Receive a batch, and leave out what has come before."""
        double = min(self._double, len(batch))
        self._double -= double
        self.streamlines += len(batch) - double
        self.batches.append(batch[double:] if double else batch)


class Seen:
    """A worker's shared memory as the run maps it.

    Parameters
    ----------
    most : maps so many; of further batches it makes copies, since each takes one of the process's few descriptors.
    """

    def __init__(self, most: int) -> None:
        self._most, self._maps, self._held = most, {}, 0
        self._spent: list[int] = []

    def batch(self, message: SharedBatch) -> Batch:
        """Return a batch whose arrays are views; their memory is free when the last of them is collected."""
        number = message.number
        if message.descriptor is not None:
            self._maps[number] = mmap.mmap(message.descriptor, 0)
            os.close(message.descriptor)
        memory = np.frombuffer(self._maps[number], np.uint8)
        batch = message.batch.unpacked(memory)
        assert isinstance(batch, Batch)
        if len(self._maps) - len(self._spent) > self._most:
            self._spent.append(number)
            return Batch.concatenate([batch])
        weakref.finalize(memory, self._spent.append, number).atexit = False
        return batch

    def spent(self) -> list[int]:
        """Return the numbers of memory that nobody looks at any more."""
        return [self._spent.pop() for _ in range(len(self._spent))]


class Remote:
    """A worker as the run sees it.

    Parameters
    ----------
    device : where it tracks.
    maps : how many of its batches the run may map (:class:`Seen`).
    """

    def __init__(self, device: Device, maps: int) -> None:
        self.device, self._maps = device, maps
        self.losses = 0
        self.start()

    def __str__(self) -> str:
        """Return how messages name the device."""
        return f"{self.device.arch} device {self.device.index} ({self.device.name})"

    def start(self) -> None:
        """Start the process."""
        self.channel, theirs = socket.socketpair()
        self.channel.settimeout(SILENT)
        self._silent = 0.0  # seconds that were waited for it since its last message
        with theirs:
            self.process = subprocess.Popen(
                module_command("tistreamlines.workers.worker", str(theirs.fileno()), self.device.arch),
                env=alone(self.device), pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            )
        tell_event(f"starts process {self.process.pid}, which tracks on {self}")
        self.ready, self.pieces, self._seen, self._stuck = False, deque[Piece](), Seen(self._maps), False

    def send(self, message: Message) -> None:
        """Send a message; if the worker has ended, that is noticed when it is listened to."""
        try:
            if spent := self._seen.spent():
                send(self.channel, Free(spent))
            send(self.channel, message)
        except OSError as error:
            self._stuck = isinstance(error, TimeoutError)

    def receive(self) -> Message:
        """Wait for a message; the arrays of a batch are in it."""
        message = receive(self.channel)
        self._silent = 0.0
        if not isinstance(message, SharedBatch):  # which is small
            return message
        return BatchMessage(message.turn, self._seen.batch(message))

    def missed(self, seconds: float) -> None:
        """Note that it was waited for in vain so long, and ask it for a sign; raise TimeoutError if none comes."""
        before, self._silent = self._silent, self._silent + seconds
        if before < ASKED <= self._silent:
            self.send(Alive())
        if self._silent >= SILENT or self._stuck:
            raise TimeoutError

    def end(self) -> str:
        """End the process; return how it ended, if it had done so before."""
        self.channel.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(0.5)
        code = self.process.poll()
        self.process.kill()
        self.process.wait()
        tell_event(f"process {self.process.pid}, which tracked on {self}, has ended")
        if code is None:
            return "it does not answer"
        return f"its process ended with {f'exit code {code}' if code >= 0 else signal.Signals(-code).name}"
