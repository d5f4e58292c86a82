"""Programs for GPUs that are driven without Taichi's runtime, which runs in another process and only compiles."""

from __future__ import annotations

import ctypes as c
import hashlib
import json
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from importlib import import_module
from weakref import finalize

import numpy as np

from ...devices import Device, usable_cores
from ...devices.compilers import compiler_for
from ...devices.threads import thread_pool
from ...errors import DeviceError
from ...linker.parts import Source
from ...linker.records import INTS, REALS
from ...linker.transfer import Transfer
from ..faults import refuse_fork
from ..taichi.program import GpuProgram
from ..taichi.team import WIDE_KIND
from .ahead import kernels_of
from .memory import Buffer, Launch, Memory

GPUS = ("cuda", "vulkan")  # archs that have a module ``gpu``
FORMATS = {REALS: "Q", INTS: "Q", "real": "f", "int": "i", "word": "I"}
_opened: dict[tuple[str, int], Memory] = {}  # devices of this process
_opening = threading.Lock()


class Array:
    """An array on the device, of ``size`` numbers of ``width`` bytes."""

    def __init__(self, gpu: Memory, size: int, width: int = 4) -> None:
        self._gpu, self.shape, self.buffer = gpu, (size,), gpu.buffer(width * size)

    def __del__(self) -> None:
        if hasattr(self, "buffer") and not sys.is_finalizing():
            self._gpu.forget(self.buffer)


def _array_in(buffer: Buffer, count: int, forget: Callable[[], object]) -> np.ndarray:
    """Return an array in a buffer of the host; a function is called when nobody holds it any more."""
    held = (c.c_int32 * count).from_address(buffer.mapped)
    finalize(held, forget).atexit = False
    return np.frombuffer(memoryview(held), np.int32)


def drives(arch: str) -> bool:
    """Whether programs for an arch run without the runtime of its compiler.

    They need what Taichi tells of compiled kernels, so forks of it run these themselves.
    """
    with suppress(DeviceError):  # it occurs again when the device is started
        return arch in GPUS and compiler_for(arch).name == "taichi"
    return False


def able(device: Device) -> bool:
    """Whether a device has what programs need that are driven without Taichi's runtime."""
    if device.arch != "vulkan":
        return True
    from ..vulkan import gpu as vulkan

    return vulkan.able(device)


def opened(device: Device) -> Memory:
    """Return a device, which this process opens once.

    Raises
    ------
    DeviceError
        If it does not open, or in a fork of a process that has opened it.
    """
    key = (device.arch, device.index)
    with _opening:
        if key not in _opened:
            try:
                _opened[key] = import_module(f"..{device.arch}.gpu", __package__).Gpu(device)
            except RuntimeError as error:
                raise DeviceError(f"{device.arch}: {device.name} cannot be opened: {error}") from error
        refuse_fork(_opened[key].process, device.arch)
        return _opened[key]


class DrivenProgram(GpuProgram[Array]):
    """A program of a device that is driven without Taichi's runtime."""

    copies_beside = True

    @staticmethod
    def is_guarded(device: Device) -> bool:
        """Whether the text has guards, which marks replace in PTX (``cuda.compiling``); SPIR-V has marks alone.

        Software Vulkan keeps both: without guards, lavapipe loses values of threads in a long kernel, such as that of ifod1
        with backtracking.
        """
        return device.arch != "vulkan" or device.software

    def _load(self, text: str) -> None:
        self._gpu, key = opened(self.device), hashlib.sha256(f"{self.exact} {text}".encode()).hexdigest()
        if key not in self._gpu.kernels:
            asked = kernels_of(self.device, text, self.signatures, self.exact)
            kernels = thread_pool("drivers", usable_cores()).map(self._loaded, asked.values())
            self._gpu.kernels[key] = dict(zip(asked, kernels, strict=True))
        self._kernels = self._gpu.kernels[key]
        self._words: dict[int, Buffer] = {}  # memory of the host, by its address

    def _loaded(self, asked: Future[bytes]) -> Launch:
        """Wait for a compiled kernel, and hand it to the driver, which may have to compile it further."""
        device = self.device
        try:
            compiled = json.loads(asked.result())
        except (EOFError, RuntimeError) as error:
            raise DeviceError(f"{device.arch}: kernels cannot be compiled for {device.name}: {error}") from error
        try:
            return self._gpu.kernel(compiled)
        except RuntimeError as error:
            raise DeviceError(f"{device.arch}: {device.name} does not take the kernels: {error}") from error

    def empty(self, size: int, kind: str) -> Array:
        """Return an array of ``kind``, of zeros, for kernels to fill."""
        gpu = self._gpu
        with gpu.turn():
            array = Array(gpu, size, self.bits // 8 if kind == REALS else 4)
            gpu.clear(array.buffer)
        return array

    def upload(self, array: Array, values: np.ndarray, *, beside: bool = False) -> Array:
        """Copy values to the front of an array, and return it, without waiting for the device."""
        held = np.ascontiguousarray(values, f"float{self.bits}" if values.dtype.kind == "f" else np.int32)
        if not held.nbytes:
            return array
        self._gpu.put(array.buffer, held.ctypes.data, held.nbytes)
        return array

    def host(self, array: Array, count: int) -> np.ndarray:
        """Wait for the device; return a copy of the first ``count`` elements of an int32 array."""
        return self.later(array, count).wait().copy()

    def later(self, array: Array, count: int) -> Transfer[np.ndarray]:
        """See :meth:`..program.Program.later`; the array is the memory to which the device has copied."""
        if not count:
            return Transfer(lambda: np.empty(0, np.int32))
        gpu = self._gpu
        with gpu.turn():
            copy = gpu.copy_buffer(4 * count)
            copy.used = mark = gpu.fetch(array.buffer, copy, 4 * count)

        def wait() -> np.ndarray:
            gpu.wait(mark)
            unasked.detach()
            return _array_in(copy, count, lambda: gpu.returned.append(copy))

        unasked = finalize(wait, gpu.returned.append, copy)  # in case nobody asks for it
        unasked.atexit = False
        return Transfer(wait, lambda: gpu.is_done(mark))

    def words(self, size: int) -> np.ndarray:
        """Return memory of the host that the device can write to; see :meth:`..program.Program.words`."""
        gpu = self._gpu
        with gpu.turn():
            buffer = gpu.copy_buffer(4 * size)
        self._words[buffer.mapped] = buffer

        def forget() -> None:
            del self._words[buffer.mapped]
            gpu.returned.append(buffer)

        return _array_in(buffer, size, forget)

    def _copy_later(self, array: Array, out: np.ndarray) -> Callable[[], None]:
        gpu, words = self._gpu, self._words.get(out.ctypes.data)
        if words is not None:
            with gpu.turn():
                words.used = mark = gpu.fetch(array.buffer, words, out.nbytes)
            return lambda: gpu.wait(mark)
        coming = self.later(array, len(out))

        def finish() -> None:
            out[:] = coming.wait()

        return finish

    def sync(self) -> None:
        """Wait for the device."""
        self._gpu.sync()

    def _launch(self, name: str, teams: int, arguments: Sequence[tuple[str, object]]) -> None:
        packed = [(FORMATS[k], value.buffer.address if isinstance(value, Array) else value) for k, value in arguments]
        with self._gpu.turn():
            self._kernels[name](self._queue.buffer, teams, packed)


class WideDrivenProgram(DrivenProgram):
    """A driven program with reals of 64 bits, for CUDA."""

    bits = 64

    def __init__(self, device: Device, source: Source, *, exact: bool) -> None:
        super().__init__(device, source, exact=exact, kind=WIDE_KIND)
