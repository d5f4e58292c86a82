"""A CUDA device of this process: its memory, its kernels, and the stream of what it is to do, in order."""

from __future__ import annotations

import ctypes as c
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ...devices import Device
from ..driven.memory import Arguments, Buffer, Compiled, Memory
from .api import NOT_READY, Driver

BESIDE, UNTIMED = 1, 2  # flags: a stream that does not wait for the default one; an event that takes no time


class Mark:
    """An event of the device, which is used again when nobody asks for it any more."""

    def __init__(self, event: int, idle: list[int]) -> None:
        self.event, self._idle = event, idle

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self._idle.append(self.event)


class Gpu(Memory[Mark]):
    """A device. Threads call the methods one at a time, in a :meth:`turn`; only :meth:`wait` needs none.

    Kernels and copies to the device follow each other in a stream. Copies to the host have a stream of their own, and wait
    only for what was handed over before them.

    Attributes
    ----------
    cuda : the driver's functions.
    stream : of kernels and copies to the device.
    """

    def __init__(self, device: Device) -> None:
        super().__init__(device)
        self.cuda, number = Driver(), c.c_int()
        self.cuda("cuDeviceGet", c.byref(number), device.index)
        self._context = self.cuda.make("cuDevicePrimaryCtxRetain", number.value)  # that of other libraries, too
        self._events: list[int] = []
        with self.turn():
            self.stream, self._back = (self.cuda.make("cuStreamCreate", BESIDE) for _ in range(2))

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the device's lock, in its context."""
        with super().turn(), self._entered():
            yield

    @contextmanager
    def _entered(self) -> Iterator[None]:
        self.cuda("cuCtxPushCurrent_v2", self._context)
        try:
            yield
        finally:
            self.cuda("cuCtxPopCurrent_v2", c.byref(c.c_void_p()))

    def kernel(self, compiled: Compiled) -> Kernel:
        """See :meth:`..driven.memory.Memory.kernel`."""
        with self._entered():
            return Kernel(self, compiled)

    # -------------------------------------------------------------------------------------------------------------- memory
    def _allocated(self, size: int, host: bool) -> Buffer:
        size = max(16, size + -size % 4)
        if host:
            return Buffer(0, 0, size, mapped=self.cuda.make("cuMemHostAlloc", size, 0))
        return Buffer(0, 0, size, address=self.cuda.make("cuMemAlloc_v2", size))

    def _destroy(self, buffer: Buffer) -> None:
        if buffer.mapped:
            self.cuda("cuMemFreeHost", buffer.mapped)
        else:
            self.cuda("cuMemFree_v2", buffer.address)  # which waits for the device

    def clear(self, buffer: Buffer) -> None:
        """Let the device fill a buffer with zeros."""
        self.cuda("cuMemsetD32Async", buffer.address, 0, buffer.size // 4, self.stream)

    def put(self, target: Buffer, address: int, size: int) -> None:
        """Let the device copy bytes of the host to the start of a buffer; their memory may then be used again."""
        copy = self.copy_buffer(size)
        c.memmove(copy.mapped, address, size)
        self.cuda("cuMemcpyHtoDAsync_v2", target.address, copy.mapped, size, self.stream)
        self.give_back(copy, self._marked(self.stream))

    def fetch(self, source: Buffer, target: Buffer, size: int) -> Mark:
        """Let the device copy bytes from the start of a buffer, after all that was handed over; return the mark of that."""
        launched = self._marked(self.stream)
        self.cuda("cuStreamWaitEvent", self._back, launched.event, 0)
        self.cuda("cuMemcpyDtoHAsync_v2", target.mapped, source.address, size, self._back)
        target.used = mark = self._marked(self._back)
        return mark

    # --------------------------------------------------------------------------------------------------------------- marks
    def _marked(self, stream: int) -> Mark:
        mark = Mark(self._events.pop() if self._events else self.cuda.make("cuEventCreate", UNTIMED), self._events)
        self.cuda("cuEventRecord", mark.event, stream)
        return mark

    def is_done(self, mark: Mark | None) -> bool:
        """Whether the device has come as far as a mark, or is lost."""
        return mark is None or self.cuda.functions["cuEventQuery"](mark.event) != NOT_READY

    def wait(self, mark: Mark | None) -> None:
        """Wait until the device has come as far as a mark."""
        if mark is not None:
            with self._entered():
                self.cuda("cuEventSynchronize", mark.event)

    def sync(self) -> None:
        """Wait until all is done that was handed to the device."""
        with self._entered():
            for stream in (self.stream, self._back):
                self.cuda("cuStreamSynchronize", stream)


class Kernel:
    """A kernel whose code the device has.

    Parameters
    ----------
    gpu : the device; the caller is in its context, and in :meth:`launch` holds its lock.
    compiled : its code.
    """

    def __init__(self, gpu: Gpu, compiled: Compiled) -> None:
        self._gpu, self._places, self._bytes = gpu, compiled["places"], compiled["bytes"]
        (task,) = compiled["tasks"]
        self._threads, code = task["threads"], task["code"].encode()
        self._module = gpu.cuda.make("cuModuleLoadData", code)
        self._function = gpu.cuda.make("cuModuleGetFunction", self._module, task["name"].encode())

    def launch(self, queue: Buffer, teams: int, arguments: Arguments) -> None:
        """Let the device run the kernel."""
        record = c.create_string_buffer(self._bytes)
        for place, (kind, value) in zip(self._places, arguments, strict=True):
            struct.pack_into(kind, record, place, value)
        struct.pack_into("i", record, self._bytes - 4, 32 * teams)
        packed = (c.c_void_p * 1)(c.addressof(record))
        blocks, cuda = -(-32 * teams // self._threads), self._gpu.cuda
        cuda("cuMemsetD32Async", queue.address, 0, 1, self._gpu.stream)
        cuda("cuLaunchKernel", self._function, blocks, 1, 1, self._threads, 1, 1, 0, self._gpu.stream, packed, None)
