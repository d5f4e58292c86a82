"""Compiled kernels on a CUDA device."""

from __future__ import annotations

import ctypes as c
import struct

from ..driven.kernel import Arguments, Compiled
from ..driven.memory import Buffer
from .gpu import Gpu


class Kernel:
    """A kernel whose code the device has.

    Parameters
    ----------
    gpu : the device; the caller holds its lock, here and in :meth:`launch`.
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
