"""What a run and its workers exchange: messages through a socket, and memory that both map.

Memory has no name and no place in a file system: its descriptor goes along with a message, and the system frees it when
both processes have let go of it, however they end.
"""

from __future__ import annotations

import mmap
import os
import pickle
import socket
import struct
import tempfile
import threading
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..aliases import Array
from ..space.batch import PER_STREAMLINE, Batch

if TYPE_CHECKING:
    from .messages import Message

HEADER = struct.Struct("<Q")
GRAIN = 2**22  # bytes; memory is as large as a multiple, so that most of it can be used again


def send(channel: socket.socket, message: Message, *descriptors: int) -> None:
    """Send a message that can be pickled, and descriptors."""
    content = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    frame = memoryview(HEADER.pack(len(content)) + content)
    channel.sendall(frame[socket.send_fds(channel, [frame], descriptors) if descriptors else 0 :])


def receive(channel: socket.socket) -> tuple[Message, list[int]]:
    """Wait for a message; return it and the descriptors that came along.

    Raises
    ------
    EOFError, OSError
        If the other side has ended.
    """
    header, descriptors, *_ = socket.recv_fds(channel, HEADER.size, 1)
    header += _exactly(channel, HEADER.size - len(header))
    return pickle.loads(_exactly(channel, *HEADER.unpack(header))), list(descriptors)


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


def packed(thing: object) -> tuple[int, bytes, list[int]]:
    """Put the arrays of something in shared memory; return its descriptor, and what :func:`unpacked` needs besides."""
    buffers: list[pickle.PickleBuffer] = []
    content = pickle.dumps(thing, pickle.HIGHEST_PROTOCOL, buffer_callback=buffers.append)
    views = [buffer.raw() for buffer in buffers]
    descriptor = nameless(max(sum(map(_rounded, map(len, views))), 1))
    place = 0
    for view in views:
        written = 0
        while written < len(view):  # the system writes at most 2 GiB at once
            written += os.pwrite(descriptor, view[written:], place + written)
        place += _rounded(len(view))
    return descriptor, content, [len(view) for view in views]


def unpacked(descriptor: int, content: bytes, sizes: Sequence[int]) -> object:
    """Undo :func:`packed`; the arrays stay in the shared memory, and the other processes do not see changes of them."""
    memory = memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY))
    os.close(descriptor)
    starts = np.cumsum([0, *map(_rounded, sizes)]).tolist()
    return pickle.loads(content, buffers=[memory[a : a + size] for a, size in zip(starts, sizes, strict=False)])


def _rounded(size: int, grain: int = 64) -> int:
    return -(-size // grain) * grain


def places(points: int, streamlines: int) -> tuple[dict[str, tuple[int, str, tuple[int, ...]]], int]:
    """Return where the arrays of a batch lie, with their types and shapes, and the bytes of all together."""
    n = streamlines
    forms = {"points": ("f4", (points, 3)), "offsets": ("i8", (n + 1,))}
    forms |= dict(zip(PER_STREAMLINE, (("f4", (n, 3)), ("u4", (n,)), ("u2", (n,)), ("u1", (n, 2))), strict=True))
    table, place = {}, 0
    for name, (kind, shape) in forms.items():
        table[name] = place, kind, shape
        place += _rounded(int(np.prod(shape)) * np.dtype(kind).itemsize)
    return table, place


def arrays_in(memory: Array, points: int, streamlines: int) -> dict[str, Any]:
    """Return the arrays of a batch as views of shared memory."""
    return {
        name: np.ndarray(shape, kind, memory, place)
        for name, (place, kind, shape) in places(points, streamlines)[0].items()
    }


class Written:
    """Shared memory in which a worker lays out points, used again when nobody looks at the batch any more."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._memory: list[Array] = []
        self._free: set[int] = set()
        self._new: dict[int, int] = {}

    def take(self, points: int, streamlines: int) -> Array:
        """Return memory for the points of a batch, and behind them for its other arrays."""
        size = places(points, streamlines)[1]
        with self._lock:
            number = next((number for number in self._free if len(self._memory[number]) >= size), None)
            if number is None:
                size, number = _rounded(size, GRAIN), len(self._memory)
                self._new[number] = nameless(size)
                self._memory.append(np.frombuffer(mmap.mmap(self._new[number], size), np.uint8))
            self._free.discard(number)
        return self._memory[number][: 12 * points].view(np.float32)

    def give_back(self, numbers: Sequence[int]) -> None:
        """Use memory again."""
        with self._lock:
            self._free.update(numbers)

    def finish(self, batch: Batch) -> tuple[int, list[int]]:
        """Put the other arrays behind the points; return the memory's number, and its descriptor if it is new."""
        with self._lock:
            number = next(n for n, memory in enumerate(self._memory) if memory is batch.points.base)
            new = [self._new.pop(number)] if number in self._new else []
        for name, array in arrays_in(self._memory[number], len(batch.points), len(batch)).items():
            if name != "points":
                array[...] = getattr(batch, name)
        return number, new


class Seen:
    """A worker's shared memory as the run maps it.

    Parameters
    ----------
    most : maps so many; of further batches it makes copies, since each takes one of the process's few descriptors.
    """

    def __init__(self, most: int) -> None:
        self._most, self._maps, self._held = most, {}, 0
        self._spent: list[int] = []

    def batch(self, descriptors: Sequence[int], number: int, points: int, streamlines: int) -> Batch:
        """Return a batch whose arrays are views; their memory is free when the last of them is collected."""
        for descriptor in descriptors:
            self._maps[number] = mmap.mmap(descriptor, 0)
            os.close(descriptor)
        memory = np.frombuffer(self._maps[number], np.uint8)
        batch = Batch(**arrays_in(memory, points, streamlines))
        if len(self._maps) - len(self._spent) > self._most:
            self._spent.append(number)
            return Batch.concatenate([batch])
        weakref.finalize(memory, self._spent.append, number).atexit = False
        return batch

    def spent(self) -> list[int]:
        """Return the numbers of memory that nobody looks at any more."""
        return [self._spent.pop() for _ in range(len(self._spent))]
