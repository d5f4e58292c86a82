"""Compiled kernels on a CUDA device."""

from __future__ import annotations

import ctypes as c
import struct
from typing import Any

from ..driven.memory import Buffer
from .gpu import Gpu


class Kernel:
    """A kernel whose code the device has.

    Parameters
    ----------
    gpu : the device; the caller holds its lock, here and in :meth:`launch`.
    told : what was compiled; see :func:`..driven.ahead.compiled`.
    """

    def __init__(self, gpu: Gpu, told: dict[str, Any]) -> None:
        self._gpu, self._places, self._bytes = gpu, told["places"], told["bytes"]
        (task,) = told["tasks"]
        self._threads, code = task["threads"], task["code"].encode()
        self._module = gpu.cuda.made("cuModuleLoadData", code)
        self._function = gpu.cuda.made("cuModuleGetFunction", self._module, task["name"].encode())

    def launch(self, queue: Buffer, teams: int, arguments: list[tuple[str, Any]]) -> None:
        """Let the device run the kernel, with arguments in order: format characters of :mod:`struct`, and values."""
        room = c.create_string_buffer(self._bytes)
        for place, (kind, value) in zip(self._places, arguments, strict=True):
            struct.pack_into(kind, room, place, value)
        struct.pack_into("i", room, self._bytes - 4, 32 * teams)
        given = (c.c_void_p * 1)(c.addressof(room))
        blocks, cuda = -(-32 * teams // self._threads), self._gpu.cuda
        cuda("cuMemsetD32Async", queue.address, 0, 1, self._gpu.stream)
        cuda("cuLaunchKernel", self._function, blocks, 1, 1, self._threads, 1, 1, 0, self._gpu.stream, given, None)
