"""Programs for GPUs: kernels that Taichi has compiled, launched without its runtime."""

from __future__ import annotations

import ctypes as c
import hashlib
import json
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from weakref import finalize

import numpy as np

from ...devices import Device, usable_cores
from ...devices.threads import thread_pool
from ...errors import DeviceError
from ...linker.coming import Coming
from ...linker.records import INTS, REALS
from ...linker.source import Source
from ..faults import point
from ..gathering import Gathering
from ..taichi.block import Block
from ..taichi.program import TEAMS, linked_for
from .ahead import kernels_of
from .memory import Buffer, Kernel, Memory
from .opened import opened

FORMATS = {REALS: "Q", INTS: "Q", "real": "f", "int": "i", "word": "I"}


class Array:
    """An array of 4-byte numbers on the device."""

    def __init__(self, gpu: Memory, size: int) -> None:
        self._gpu, self.shape, self.buffer = gpu, (size,), gpu.buffer(4 * size)

    def __del__(self) -> None:
        if hasattr(self, "buffer") and not sys.is_finalizing():
            self._gpu.forget(self.buffer)


def _linked(
    device: Device, source: Source, exact: bool, kind: str | None, queued: bool
) -> tuple[str, dict[str, list[tuple[str, str]]], Block]:
    # SPIR-V has marks in place of guards, and in PTX they replace them (cuda/rounding.py). Software Vulkan keeps both:
    # without guards, lavapipe loses values of threads in a long kernel, such as that of ifod1 with backtracking
    guarded = device.arch != "vulkan" or device.software
    return linked_for(device, source, exact, kind, queued, guarded=guarded)


def begin_to_compile(device: Device, source: Source, exact: bool) -> None:
    """Begin to compile kernels for a GPU whose teams are as it reports, which :class:`DrivenProgram` will want to load."""
    text, signatures, _ = _linked(device, source, exact, None, True)
    kernels_of(device, text, signatures, exact)


class DrivenProgram(Gathering[Array]):
    """Kernels linked for a GPU; arrays live on it.

    Parameters
    ----------
    device : where to run.
    source : what is linked.
    exact : do not reorder arithmetic.
    profile : measure the time in kernels, each of which is waited for.
    kind : what a team is, None for what suits the subgroup size that the device reports.
    queued : teams may take items from a queue; if False, each has a fixed share.
    """

    copies_beside = True

    def __init__(
        self, device: Device, source: Source, *, exact: bool, profile: bool = False, kind: str | None = None,
        queued: bool = True,
    ) -> None:
        super().__init__()
        self.scratch, self.profile, self._seconds = source.scratch, profile, 0.0
        text, self.signatures, self.block = _linked(device, source, exact, kind, queued)
        self._gpu, key = opened(device), hashlib.sha256(f"{exact} {text}".encode()).hexdigest()
        if key not in self._gpu.kernels:
            asked = kernels_of(device, text, self.signatures, exact)
            kernels = thread_pool("drivers", usable_cores()).map(self._loaded, asked.values())
            self._gpu.kernels[key] = dict(zip(asked, kernels, strict=True))
        self._kernels = self._gpu.kernels[key]
        self._words: dict[int, Buffer] = {}  # memory of the host, by its address
        self._queue = self.empty(1, INTS)

    def _loaded(self, asked: Future[bytes]) -> Kernel:
        """Wait for a compiled kernel, and hand it to the driver, which may have to compile it further."""
        device = self._gpu.device
        try:
            compiled = json.loads(asked.result())
        except (EOFError, RuntimeError) as error:
            raise DeviceError(f"{device.arch}: kernels cannot be compiled for {device.name}: {error}") from error
        try:
            return self._gpu.kernel(compiled)
        except RuntimeError as error:
            raise DeviceError(f"{device.arch}: {device.name} does not take the kernels: {error}") from error

    def array(self, values: np.ndarray) -> Array:
        """Return an array on the device that holds these values."""
        return self.upload(self.empty(values.size, REALS), values)

    def empty(self, size: int, kind: str) -> Array:
        """Return an array of ``kind``, of zeros, for kernels to fill."""
        point("allocate")
        gpu = self._gpu
        with gpu.turn():
            array = Array(gpu, size)
            gpu.clear(array.buffer)
        return array

    def upload(self, array: Array, values: np.ndarray, *, beside: bool = False) -> Array:
        """Copy values to the front of an array, and return it, without waiting for the device."""
        held = np.ascontiguousarray(values, np.float32 if values.dtype.kind == "f" else np.int32)
        if not held.nbytes:
            return array
        with self._gpu.turn():
            self._gpu.put(array.buffer, held.ctypes.data, held.nbytes)
        return array

    def host(self, array: Array, count: int) -> np.ndarray:
        """Wait for the device; return a copy of the first ``count`` elements of an int32 array."""
        return self.later(array, count).wait().copy()

    def later(self, array: Array, count: int) -> Coming[np.ndarray]:
        """See :meth:`..program.Program.later`; the array is the memory to which the device has copied."""
        if not count:
            return Coming(lambda: np.empty(0, np.int32))
        gpu = self._gpu
        with gpu.turn():
            copy = gpu.copy_buffer(4 * count)
            mark = gpu.fetch(array.buffer, copy, 4 * count)

        def wait() -> np.ndarray:
            unasked.detach()
            gpu.wait(mark)
            held = (c.c_int32 * count).from_address(copy.mapped)
            finalize(held, gpu.returned.append, copy).atexit = False
            return np.frombuffer(memoryview(held), np.int32)

        unasked = finalize(wait, gpu.forget, copy)  # in case nobody asks for it
        unasked.atexit = False
        return Coming(wait, lambda: gpu.is_done(mark))

    def words(self, size: int) -> np.ndarray:
        """Return memory of the host that the device can write to; see :meth:`..program.Program.words`."""
        gpu = self._gpu
        with gpu.turn():
            buffer = gpu.buffer(4 * size, host=True)
        held = (c.c_int32 * size).from_address(buffer.mapped)
        self._words[buffer.mapped] = buffer

        def forget() -> None:
            del self._words[buffer.mapped]
            gpu.forget(buffer)

        finalize(held, forget).atexit = False
        return np.frombuffer(memoryview(held), np.int32)

    def _copy_later(self, array: Array, out: np.ndarray) -> Callable[[], None]:
        gpu, words = self._gpu, self._words.get(out.ctypes.data)
        if words is not None:
            with gpu.turn():
                mark = gpu.fetch(array.buffer, words, out.nbytes)
            return lambda: gpu.wait(mark)
        coming = self.later(array, len(out))

        def finish() -> None:
            out[:] = coming.wait()

        return finish

    def sync(self) -> None:
        """Wait for the device."""
        self._gpu.sync()

    def run(self, name: str, count: int, values: Mapping[str, object]) -> None:
        """Launch a kernel for items 0 to ``count`` - 1, with arguments by flat name; it may still run on return."""
        if not count:
            return
        point(name)
        teams = -(-min(count, TEAMS) // self.block.teams) * self.block.teams
        taken = [(FORMATS[k], values[n]) for n, k in self.signatures[name] if n != "item" and n not in self.scratch]
        arguments = [("i", count), ("i", teams), ("i", 0), ("Q", self._queue.buffer.address)]
        arguments += [(kind, value.buffer.address if isinstance(value, Array) else value) for kind, value in taken]
        with self._gpu.turn():
            if self.profile:
                self.sync()
            begun = time.perf_counter()
            self._kernels[name].launch(self._queue.buffer, teams, arguments)
            if self.profile:
                self.sync()
                self._seconds += time.perf_counter() - begun

    def kernel_seconds(self) -> float:
        """Return the seconds in kernels since the last call; 0 without profiling."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds
