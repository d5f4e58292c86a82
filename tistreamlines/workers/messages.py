"""Exchange between a run and its workers: messages through a socket, and memory that both map.

A turn is a call of ``load`` or ``track``: the run no longer wants the answers to an earlier one. Memory has no name
and no place in a file system: its descriptor goes along with a message, and the system frees it when both processes
have closed it, however they end.
"""

from __future__ import annotations

import os
import pickle
import socket
import struct
import tempfile
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from ..aliases import Array
from ..space.batch import Batch, Space
from ..tracking.engine.engine import Block
from ..tracking.engine.kernels import KernelParts
from ..tracking.growth.settings import Settings
from ..tracking.products.collector import Collector
from ..tracking.selection.filters import Filter
from ..tracking.tables.inputs import KernelTables

HEADER = struct.Struct("<Q")
GRAIN = 64  # bytes, at multiples of which arrays lie


class Packed(NamedTuple):
    """Something whose arrays lie in shared memory: what is pickled of it, and the bytes of each array."""

    content: bytes
    sizes: Sequence[int]

    @property
    def places(self) -> list[slice]:
        """Where each array lies."""
        starts = accumulate((-(-size // GRAIN) * GRAIN for size in self.sizes), initial=0)
        return [slice(start, start + size) for start, size in zip(starts, self.sizes, strict=False)]

    def unpacked(self, memory: memoryview | Array) -> object:
        """Return it; its arrays are views of the memory."""
        return pickle.loads(self.content, buffers=[memory[place] for place in self.places])


class Opening(NamedTuple):
    """The arguments of :meth:`.session.Session.open`."""

    prepared: KernelTables
    space: Space
    settings: Settings
    filters: Sequence[Filter] = ()
    products: Sequence[Collector] = ()
    points: bool = True


class Turn(NamedTuple):
    """Forget the requests before this turn."""

    turn: int


class Free(NamedTuple):
    """Nobody looks at these parts of shared memory any more."""

    numbers: list[int]


class LoadKernels(NamedTuple):
    """Compile the kernels for an :class:`Opening`, in shared memory; answer Ready."""

    turn: int
    opening: Packed
    descriptor: int  # of the memory


class CompileKernels(NamedTuple):
    """Compile kernels whose tables come later; nothing is answered."""

    parts: KernelParts


class FindDirections(NamedTuple):
    """Find the initial directions at points; answer with Directions."""

    turn: int
    points: Array


class TrackSeeds(NamedTuple):
    """Track a range of seeds, up to ``most`` streamlines; answer with each batch, and with Tracked at the end."""

    turn: int
    block: Block
    most: int | None


class Ready(NamedTuple):
    """The kernels are compiled."""

    turn: int


class InitialDirections(NamedTuple):
    """Initial directions, see :mod:`..tracking.engine.directions`."""

    turn: int
    directions: tuple[Array, Array]


class Note(NamedTuple):
    """A note for the user."""

    text: str


class Failed(NamedTuple):
    """The worker has met an error, and has ended."""

    error: Exception


class Alive(NamedTuple):
    """Say that you are alive; the answer is the same message."""


class BatchMessage(NamedTuple):
    """A batch of the first range that is not tracked to its end."""

    turn: int
    batch: Batch


class SharedBatch(NamedTuple):
    """A batch as in :class:`BatchMessage`, with the number of its shared memory, and the descriptor if that is new."""

    turn: int
    number: int
    batch: Packed
    descriptor: int | None


class Tracked(NamedTuple):
    """All batches of a range have been sent: their counts, as those of a Statistics, and what products collected."""

    turn: int
    counts: Array
    deltas: Sequence[object]


Job = CompileKernels | LoadKernels | FindDirections | TrackSeeds
Message = (
    Turn | Free | Alive | Job | Ready | InitialDirections | Note | Failed | BatchMessage | SharedBatch | Tracked
)


def send(channel: socket.socket, message: Message) -> None:
    """Send a message that can be pickled, and its descriptor."""
    content = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    frame = memoryview(HEADER.pack(len(content)) + content)
    descriptor = message.descriptor if isinstance(message, LoadKernels | SharedBatch) else None
    channel.sendall(frame[0 if descriptor is None else socket.send_fds(channel, [frame], [descriptor]) :])


def receive(channel: socket.socket) -> Message:
    """Wait for a message, in which a descriptor has the number that it has in this process.

    Raises
    ------
    EOFError, OSError
        If the other side has ended.
    """
    header, descriptors, *_ = socket.recv_fds(channel, HEADER.size, 1)
    header += _exactly(channel, HEADER.size - len(header))
    message = pickle.loads(_exactly(channel, *HEADER.unpack(header)))
    return message._replace(descriptor=descriptors[0]) if descriptors else message


def _exactly(channel: socket.socket, count: int) -> bytearray:
    content = bytearray(count)
    left = memoryview(content)
    while len(left):
        if not (received := channel.recv_into(left)):
            raise EOFError
        left = left[received:]
    return content


def nameless(size: int) -> int:
    """Return the descriptor of new memory, not of a file in /dev/shm, which is small in containers."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("tistreamlines")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, size)
    return descriptor


def packed(thing: object) -> tuple[Packed, list[memoryview]]:
    """Return something without its arrays, and these."""
    buffers: list[pickle.PickleBuffer] = []
    content = pickle.dumps(thing, pickle.HIGHEST_PROTOCOL, buffer_callback=buffers.append)
    views = [buffer.raw() for buffer in buffers]
    return Packed(content, list(map(len, views))), views


def shared(thing: object) -> tuple[Packed, int]:
    """Put the arrays of something in new shared memory; return it without them, and the memory's descriptor."""
    whole, views = packed(thing)
    descriptor = nameless(max([1, *(place.stop for place in whole.places)]))
    with os.fdopen(descriptor, "wb", closefd=False) as file:  # takes half as long as writing to a map
        for place, view in zip(whole.places, views, strict=True):
            file.seek(place.start)
            file.write(view)
    return whole, descriptor
