"""A worker as its run sees it: its process, the ranges of seeds that it has, and whether it answers."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field

from ..devices import Device, alone
from ..helpers import calling, tell_event
from .messages import Ask, BatchMessage, Free, Message, SharedBatch
from .shared import Seen, receive, send

ASKED = 10.0  # seconds without a message after which a worker is asked whether it is alive
SILENT = 300.0  # after which it is lost; while a kernel is compiled, which may take a minute, it cannot answer


@dataclass(eq=False, repr=False)
class Range:
    """Neighbouring seeds that are handed out together.

    Parameters
    ----------
    first, count : place of the first seed among those of the call, and their number.
    """

    first: int
    count: int
    pieces: deque[BatchMessage] = field(default_factory=deque)
    finished: int = 0  # seeds of whole chunks that have come
    kept: int = 0  # streamlines behind them that have come
    passed: int = 0  # those of them that the present worker has sent

    def take(self, piece: BatchMessage) -> None:
        """Receive a batch; what has come before, from a worker that was lost, is left out."""
        batch = piece.batch
        double = min(max(self.kept - self.passed, 0), len(batch))
        self.passed += len(batch)
        self.kept += len(batch) - double
        self.pieces.append(piece._replace(batch=batch[double:]) if double else piece)
        if piece.counts is not None:  # the last batch of a chunk
            self.finished += int(piece.counts[0])
            self.kept, self.passed = self.kept - self.passed, 0


class Remote:
    """A worker as the run sees it.

    Parameters
    ----------
    device : where it tracks.
    number : of the worker.
    """

    def __init__(self, device: Device, number: int, maps: int) -> None:
        self.device, self._number, self._maps = device, number, maps
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
        numbers = [str(theirs.fileno()), self.device.arch, str(self._number), str(self.losses)]
        with theirs:
            self.process = subprocess.Popen(
                calling("tistreamlines.workers.worker", *numbers), env=alone(self.device), pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            )
        tell_event(f"starts process {self.process.pid}, which tracks on {self}")
        self.ready, self.ranges, self._seen, self._stuck = False, deque[Range](), Seen(self._maps), False

    def send(self, message: Message, *descriptors: int) -> None:
        """Send a message; if the worker has ended, that is noticed when it is listened to."""
        try:
            if spent := self._seen.spent():
                send(self.channel, Free(spent))
            send(self.channel, message, *descriptors)
        except OSError as error:
            self._stuck = isinstance(error, TimeoutError)

    def receive(self) -> Message:
        """Wait for a message; the arrays of a batch are in it."""
        message, descriptors = receive(self.channel)
        self._silent = 0.0
        if not isinstance(message, SharedBatch):  # which is small
            return message
        return BatchMessage(message.turn, message.counts, message.deltas, self._seen.batch(descriptors, *message.place))

    def missed(self, seconds: float) -> None:
        """Note that it was waited for in vain so long, and ask it for a sign; raise TimeoutError if none comes."""
        before, self._silent = self._silent, self._silent + seconds
        if before < ASKED <= self._silent:
            self.send(Ask())
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
