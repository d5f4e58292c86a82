"""A CUDA device of this process: its memory, its kernels, and the stream of its work, in order."""

from __future__ import annotations

import ctypes as c
import struct
import sys
from collections.abc import Generator
from contextlib import contextmanager

from ...devices import Device
from ...devices.gpu import cuda_error, open_cuda
from ..driven.memory import IDLE_BYTES, Arguments, Buffer, Compiled, Functions, Launch, Memory

QUICK = (
    "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuStreamWaitEvent", "cuEventRecord", "cuEventQuery", "cuStreamQuery",
    "cuMemsetD32Async", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuLaunchKernel",
)
NOT_READY = 600  # an answer of cuEventQuery and cuStreamQuery: the device has not come so far
IDLE_PARTS = 32  # one in so many parts of the device's memory may wait to be freed
BESIDE, UNTIMED = 1, 2  # flags: a stream that does not wait for the default one; an event that takes no time


class Mark:
    """An event of the device, which is used again when nobody asks for it any more."""

    def __init__(self, event: int, idle: list[int]) -> None:
        self.event, self._idle = event, idle

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self._idle.append(self.event)


class Gpu(Memory[Mark]):
    """A device. Threads call its methods one at a time, in a :meth:`turn`; :meth:`put` and :meth:`wait` need none.

    Kernels and copies to the device follow each other in a stream. Copies to the host have a separate stream, and wait
    only for earlier work.

    Attributes
    ----------
    stream : of kernels and copies to the device.
    """

    def __init__(self, device: Device) -> None:
        self._library, number = open_cuda(), c.c_int()
        super().__init__(device, Functions(self._library, QUICK))
        self.call("cuDeviceGet", c.byref(number), device.index)
        self._context = self.make("cuDevicePrimaryCtxRetain", number.value)  # that of other libraries, too
        self._events: list[int] = []
        with self.turn():
            self.stream, self._back = (self.make("cuStreamCreate", BESIDE) for _ in range(2))

    def _failure(self, code: int) -> str:
        return f"CUDA error {cuda_error(self._library, code)}" if code else ""

    def make(self, name: str, *arguments: object) -> int:
        """Return the handle or the address that a function makes."""
        out = c.c_void_p()
        self.call(name, c.byref(out), *arguments)
        return out.value or 0

    @contextmanager
    def turn(self) -> Generator[None, None, None]:
        """Hold the device's lock, in its context."""
        with super().turn(), self._entered():
            yield

    @contextmanager
    def _entered(self) -> Generator[None, None, None]:
        self.call("cuCtxPushCurrent_v2", self._context)
        try:
            yield
        finally:
            self.call("cuCtxPopCurrent_v2", c.byref(c.c_void_p()))

    def kernel(self, compiled: Compiled) -> Launch:
        """See :meth:`..driven.memory.Memory.kernel`."""
        (task,), places, size = compiled["tasks"], compiled["places"], compiled["bytes"]
        threads = task["threads"]
        with self._entered():
            module = self.make("cuModuleLoadData", task["code"].encode())
            function = self.make("cuModuleGetFunction", module, task["name"].encode())

        def launch(queue: Buffer, teams: int, arguments: Arguments) -> None:
            record = c.create_string_buffer(size)
            for place, (kind, value) in zip(places, arguments, strict=True):
                struct.pack_into(kind, record, place, value)
            struct.pack_into("i", record, size - 4, 32 * teams)
            packed, blocks = (c.c_void_p * 1)(c.addressof(record)), -(-32 * teams // threads)
            self.call("cuMemsetD32Async", queue.address, 0, 1, self.stream)
            self.call("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, self.stream, packed, None)

        return launch

    # -------------------------------------------------------------------------------------------------------------- memory
    def _allocated(self, size: int, host: bool) -> Buffer:
        if host:
            return Buffer(0, 0, size, mapped=self.make("cuMemHostAlloc", size, 0))
        return Buffer(0, 0, size, address=self.make("cuMemAlloc_v2", size))

    def _destroy(self, buffer: Buffer) -> None:
        if buffer.mapped:
            self.call("cuMemFreeHost", buffer.mapped)
        else:
            self.call("cuMemFree_v2", buffer.address)  # which waits for the device

    def _free(self) -> None:
        # freeing waits for the device, while nothing else is launched: 0.3 s in a run of boot of 1.6 s
        working = any(self.functions["cuStreamQuery"](stream) == NOT_READY for stream in (self.stream, self._back))
        most = max(IDLE_BYTES, (self.device.memory_bytes or 0) // IDLE_PARTS)
        if not working or sum(buffer.size for buffer in tuple(self._spent)) > most:
            super()._free()

    def clear(self, buffer: Buffer) -> None:
        """Let the device fill a buffer with zeros."""
        self.call("cuMemsetD32Async", buffer.address, 0, buffer.size // 4, self.stream)

    def _send(self, source: Buffer, target: Buffer, start: int, size: int) -> Mark:
        self.call("cuMemcpyHtoDAsync_v2", target.address + start, source.mapped, size, self.stream)
        return self._marked(self.stream)

    def fetch(self, source: Buffer, target: Buffer, size: int) -> Mark:
        """Let the device copy bytes from the start of a buffer, after all that was handed over; return the mark of that."""
        launched = self._marked(self.stream)
        self.call("cuStreamWaitEvent", self._back, launched.event, 0)
        self.call("cuMemcpyDtoHAsync_v2", target.mapped, source.address, size, self._back)
        return self._marked(self._back)

    # --------------------------------------------------------------------------------------------------------------- marks
    def _marked(self, stream: int) -> Mark:
        mark = Mark(self._events.pop() if self._events else self.make("cuEventCreate", UNTIMED), self._events)
        self.call("cuEventRecord", mark.event, stream)
        return mark

    def is_done(self, mark: Mark | None) -> bool:
        """Whether the device has come as far as a mark, or is lost."""
        return mark is None or self.functions["cuEventQuery"](mark.event) != NOT_READY

    def wait(self, mark: Mark | None) -> None:
        """Wait until the device has come as far as a mark."""
        if mark is not None:
            with self._entered():
                self.call("cuEventSynchronize", mark.event)

    def sync(self) -> None:
        """Wait until all is done that was handed to the device."""
        with self._entered():
            for stream in (self.stream, self._back):
                self.call("cuStreamSynchronize", stream)
