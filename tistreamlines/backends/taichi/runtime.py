"""The process's only Taichi: its device, its compiled kernels, and the lock that callers take.

Taichi is global to a process.  Starting it again invalidates every array and kernel, and using one of these then ends the
process.  So Taichi is started once and keeps its compiled kernels.  It is started again, for another device, only when no
program of this package is left, and never while other code uses it.
"""

from __future__ import annotations

import atexit
import gc
import inspect
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Protocol
from weakref import WeakSet

from ...devices import Device
from ...devices.compilers import Compiler, compiler_for, compilers_for
from ...devices.gpu import cuda_context_entry
from ...errors import DeviceError, LostDeviceError
from ...linker.store import load
from ..faults import explained, refuse_fork
from .front_end import quick_front_end
from .starting import initialise, is_started, starting, state_of

ELSEWHERE = "track in a separate process, or with --arch cpu"
_runtime: Runtime | None = None


class Ndarray(Protocol):
    """An array on the device, as a compiler has it."""

    def __init__(self, dtype: object, shape: tuple[int, ...]) -> None: ...

    def fill(self, value: int) -> None:
        """Set all elements."""


def start(device: Device, program: object = None, **options: bool) -> Runtime:
    """Return the Taichi that runs on a device; start it if necessary, with further options of ``ti.init``.

    As long as ``program`` is alive, Taichi is not started for another device.

    Raises
    ------
    DeviceError
        If Taichi cannot start on the device, or is in use by other code or by a program on another device.
    """
    global _runtime
    with starting:
        if _runtime is not None:
            refuse_fork(_runtime.process, _runtime.device.arch)
        compiler = compiler_for(device.arch)
        place = device.arch, device.index, compiler
        if _runtime is None or not _runtime.alive or place != _runtime.place:
            _refuse_to_disturb(device, compiler)
            close()
            try:
                _runtime = Runtime(compiler, initialise(compiler, device, options), device)
            except (AttributeError, ImportError) as error:
                raise DeviceError(
                    f"{device.arch}: the installed {compiler.package} {compiler.version} cannot be used ({error}): "
                    "install the version that tistreamlines requires, or use --arch cpu"
                ) from error
        if program is not None:
            _runtime.programs.add(program)
        return _runtime


def close() -> None:
    """Stop Taichi, which only then writes to its cache what it has compiled; another thread may have started it."""
    if _runtime is not None and _runtime.alive:
        _runtime.stop()


def _refuse_to_disturb(device: Device, compiler: Compiler) -> None:
    """Raise if starting the compiler would invalidate arrays that are in use."""
    ours = _runtime if _runtime is not None and _runtime.alive else None
    if ours is not None:
        if ours.programs:
            gc.collect()  # programs that are only part of a cycle are not in use
        if ours.programs:
            raise DeviceError(
                f"{device.arch}: a run on {ours.device.arch} ({ours.device.name}) still goes on in this process, "
                f"and Taichi supports one device at a time: end that run first, or {ELSEWHERE}"
            )
    of_others = ours is None or ours.compiler != compiler
    if of_others and compiler.module in sys.modules and is_started(state_of(compiler)):
        others = [f"with --compiler {name}, " for name in compilers_for(device.arch) if name != compiler.name]
        raise DeviceError(
            f"{device.arch}: {compiler.title} runs in this process already, started by other code (ti.init), whose arrays a "
            f"second start would invalidate: {''.join(others)}{ELSEWHERE}"
        )


class Runtime:
    """Taichi running on a device.

    Threads call it one at a time, since Taichi is not thread-safe.

    Attributes
    ----------
    compiler, ti : the compiler, and its module.
    place : which programs can run here, by their arch, the number of their device, and their compiler.
    programs : programs that have arrays on the device.
    """

    def __init__(self, compiler: Compiler, ti: ModuleType, device: Device) -> None:
        self.compiler, self.ti, self.device = compiler, ti, device
        self.place = device.arch, device.index, compiler
        self._state, self._stopped = state_of(compiler), False
        self._config = self._state.prog.config()
        self.process = os.getpid()
        self.programs: WeakSet[object] = WeakSet()
        self._modules: dict[tuple[str, bool], ModuleType] = {}
        self._lock, self._lost = threading.Lock(), False
        self._spent: deque[object] = deque()
        # only this thread is in CUDA's context, where Taichi has just started
        self._enter_context = cuda_context_entry() if device.arch == "cuda" else None
        if self._enter_context is not None:
            atexit.register(self._enter)  # the thread in which Python ends stops Taichi
        self._array = self._array_class()
        self._small = {kind: self._array(kind, (1,)) for kind in (ti.f32, ti.i32)}  # to compile kernels
        self._ready: set[object] = set()

    @property
    def alive(self) -> bool:
        """Whether Taichi still runs as started here; the copy in a forked process does not."""
        state = state_of(self.compiler)
        return state is self._state and is_started(state) and not self._stopped and self.process == os.getpid()

    def _array_class(self) -> type[Ndarray]:
        """Return the class of arrays, which hand over their memory: Python may collect them in any thread, at any time."""
        # at exit, modules lose their names before the last arrays are collected
        forget, is_finalizing = self.forget, sys.is_finalizing

        class DeviceArray(import_module(f"{self.compiler.module}.lang._ndarray").ScalarNdarray):  # type: ignore[misc, name-defined]
            def __del__(self) -> None:
                if self.arr is not None and not is_finalizing():
                    forget(self.arr)

        return DeviceArray

    @contextmanager
    def turn(self, exact: bool) -> Generator[None, None, None]:
        """Hold the lock for calls of Taichi; kernels compiled meanwhile do not reorder arithmetic if ``exact``.

        Raises
        ------
        DeviceError
            If other code has stopped or restarted Taichi, which invalidates arrays and kernels, or in a forked process;
            or if the device has no memory or is lost.
        """
        refuse_fork(self.process, self.device.arch)
        with self._lock:
            if not self.alive:
                raise DeviceError(
                    f"{self.device.arch}: other code in this process has called ti.init or ti.reset, which "
                    f"invalidated the arrays of this run: start the run again, and {ELSEWHERE}"
                )
            self._enter()
            self._config.fast_math = not exact  # read when a kernel is first called
            try:
                with explained():
                    yield
            except LostDeviceError:
                self._lost = True
                raise

    def _enter(self) -> None:
        if self._enter_context is not None:
            self._enter_context()

    def stop(self) -> None:
        """Stop Taichi, which waits for the device, in whose context this thread has to be."""
        with self._lock:
            self._enter()
            self.ti.reset()
            self._stopped = True
        atexit.unregister(self._enter)

    def module(self, text: str, exact: bool) -> ModuleType:
        """Load linked kernels; the same text is loaded and compiled only once."""
        text = text.replace("import taichi as ti", f"import {self.compiler.module} as ti", 1)
        key = (text, exact)
        if key not in self._modules:
            with quick_front_end(self.compiler):
                self._modules[key] = load(text, fresh=True)
        return self._modules[key]

    @contextmanager
    def kernel(
        self, text: str, exact: bool, name: str
    ) -> Generator[tuple[Callable[..., object], dict[str, object]], None, None]:
        """Give a kernel of a module, and what stands for its arguments, to compile it."""
        kernel = getattr(self.module(text, exact), name)
        with self.turn(exact), quick_front_end(self.compiler):
            yield kernel, self._stand_ins(kernel)

    def _stand_ins(self, kernel: Callable[..., object]) -> dict[str, object]:
        ti, kinds = self.ti, inspect.signature(kernel).parameters
        values = {ti.f32: 0.0, ti.i32: 0, ti.u32: 0}
        annotations = {name: parameter.annotation for name, parameter in kinds.items()}
        if ti.f64 not in self._small and any(getattr(k, "dtype", None) == ti.f64 for k in annotations.values()):
            self._small[ti.f64] = self._array(ti.f64, (1,))
        return {n: self._small[k.dtype] if isinstance(k, ti.types.ndarray) else values[k] for n, k in annotations.items()}

    def array(self, kind: object, size: int) -> Ndarray:
        """Allocate an array on the device; the caller holds the lock."""
        self._free()
        return self._array(kind, (size,))

    def launch(self, module: ModuleType, name: str, arguments: Sequence[object]) -> None:
        """Call a kernel of a module, which is compiled with small arrays and without items first; the caller holds the lock.

        Taichi keeps the arrays that it compiles with in a reference cycle, and so in memory until the next collection.
        """
        kernel = getattr(module, name)
        if kernel not in self._ready:
            with quick_front_end(self.compiler):
                kernel(*self._stand_ins(kernel).values())
            self._ready.add(kernel)
        kernel(*arguments)

    def forget(self, handle: object) -> None:
        """Free an array's memory now, or, if the lock is held (perhaps by this thread), at the next allocation."""
        self._spent.append(handle)
        if self._lock.acquire(blocking=False):
            try:
                self._free()
            finally:
                self._lock.release()

    def _free(self) -> None:
        if self._lost:  # it answers no more
            self._spent.clear()
        if self._spent and self.alive:
            self._enter()
            # Taichi never frees an array that a queued kernel may use, not even later
            self.ti.sync()
        while self._spent:
            handle = self._spent.popleft()
            if self.alive:
                self._state.prog.delete_ndarray(handle)
