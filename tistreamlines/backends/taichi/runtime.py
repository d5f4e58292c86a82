"""The process's only Taichi: its device, its compiled kernels, and the lock that callers take.

Taichi is global to a process.  Starting it again invalidates every array and kernel, and using one of these then ends the
process.  So Taichi is started once and keeps its compiled kernels.  It is started again, for another device, only when no
program of this package is left, and never while other code uses it.
"""

from __future__ import annotations

import atexit
import ctypes
import ctypes.util
import gc
import inspect
import json
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from types import ModuleType
from weakref import WeakSet

from ...devices import Device, vulkan_index
from ...devices.compilers import Compiler, compiler_for, compilers_for
from ...devices.gpu import cuda_context_entry
from ...errors import DeviceError, LostDeviceError
from ...linker.store import folder, load
from ..faults import FORKED, explained
from .front_end import is_quick, quick_front_end
from .hip_objects import FOLDER_VARIABLE, object_folder, remove_objects
from .importing import imported, starting, variable_set
from .internals import Ndarray, internals_of

ELSEWHERE = "track in a process of its own, or with --arch cpu"
_runtime: Runtime | None = None


@contextmanager
def float_environment_kept() -> Iterator[None]:
    """Restore the floating-point environment after Taichi starts: else numpy would flush denormals, also in new threads."""
    library = ctypes.util.find_library("m")
    if library is None:
        yield
        return
    held, maths = ctypes.create_string_buffer(256), ctypes.CDLL(library)
    maths.fegetenv(held)
    try:
        yield
    finally:
        maths.fesetenv(held)


def start(device: Device, profile: bool = False, program: object = None, **options: bool) -> Runtime:
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
            _runtime.check_process()
        compiler = compiler_for(device.arch)
        if _runtime is None or not _runtime.alive or not _runtime.serves(device, profile, compiler):
            _refuse_to_disturb(device, compiler)
            close()
            try:
                _runtime = Runtime(compiler, _initialised(compiler, device, profile, options), device, profile)
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
                f"and Taichi supports one device and one profiling mode at a time: end that run first, or {ELSEWHERE}"
            )
    if (ours is None or ours.compiler != compiler) and compiler.module in sys.modules and _of_others(compiler):
        others = [f"with --compiler {name}, " for name in compilers_for(device.arch) if name != compiler.name]
        raise DeviceError(
            f"{device.arch}: {compiler.title} runs in this process already, started by other code (ti.init), whose arrays a "
            f"second start would invalidate: {''.join(others)}{ELSEWHERE}"
        )


def _of_others(compiler: Compiler) -> bool:
    return internals_of(compiler).runs(compiler)


def _initialised(compiler: Compiler, device: Device, profile: bool, further: dict[str, bool]) -> ModuleType:
    """Initialise the compiler for a device; raise DeviceError with the reason if that fails."""
    variable = compiler.variable("ARCH")
    named = os.environ.get(variable)
    if named is not None and named != device.arch:
        raise DeviceError(
            f"{variable} in the environment makes {compiler.title} run on {named!r}, not {device.arch}: unset it"
        )
    # for tuning kernels: further options of ti.init, as JSON
    tuned = json.loads(os.environ.get("TISTREAMLINES_TAICHI", "{}"))
    options = {"kernel_profiler": profile} | _storage(compiler) | further | tuned
    index = str(vulkan_index(device)) if device.arch == "vulkan" else None
    try:
        ti = imported(compiler)
        common = {"enable_fallback": False, "log_level": ti.ERROR, "default_fp": ti.f32}
        # Taichi's own optimisation takes longer than the rest of a compilation, and the drivers' makes up for it
        common |= {"fast_math": False, "advanced_optimization": False}
        # Taichi's messages would mix with the program's output
        with (
            float_environment_kept(), variable_set(compiler.variable("VISIBLE_DEVICE"), index),
            variable_set(FOLDER_VARIABLE, object_folder(device.arch)), redirect_stdout(StringIO()),
        ):
            ti.init(arch=getattr(ti, device.arch), **common | options)
            internals_of(compiler).finish_start(compiler)
    except (RuntimeError, ValueError) as error:
        read = _read_by(compiler)
        raise DeviceError(f"{device.arch}: {compiler.title} cannot start on {device.name}: {error}{read}") from error
    return ti


def _read_by(compiler: Compiler) -> str:
    """List the environment variables that the compiler reads, in case one of them keeps it from starting."""
    ours = [compiler.variable(name) for name in ("SKIP_VERSION_CHECK", "ENABLE_PYBUF", "VISIBLE_DEVICE", "LIB_DIR")]
    read = [name for name in sorted(os.environ) if name.startswith(compiler.variable("")) and name not in ours]
    settings = ", ".join(f"{name}={os.environ[name]}" for name in read)
    return f" ({compiler.title} reads {settings} from the environment: unset that)" if settings else ""


def _storage(compiler: Compiler) -> dict[str, bool | str]:
    """Options for the compiler's cache of compiled code; even without one, it needs an existing folder, or ends the process."""
    place = folder()
    path = Path(__file__).parent if place is None else place / compiler.module
    return {"offline_cache": place is not None, "offline_cache_file_path": str(path)}


class Runtime:
    """Taichi running on a device.

    Threads call it one at a time, since Taichi is not thread-safe.

    Attributes
    ----------
    compiler, ti, parts : the compiler, its module, and what is used of it beyond documented functions.
    programs : programs that have arrays on the device.
    """

    def __init__(self, compiler: Compiler, ti: ModuleType, device: Device, profile: bool) -> None:
        self.compiler, self.ti, self.device, self.profile = compiler, ti, device, profile
        self.parts, self._stopped = internals_of(compiler)(compiler, ti), False
        self._process = os.getpid()
        self.programs: WeakSet[object] = WeakSet()
        self._modules: dict[tuple[str, bool], ModuleType] = {}
        self._lock, self._lost = threading.Lock(), False
        self._spent: deque[object] = deque()
        # only this thread is in CUDA's context, where Taichi has just started
        self._enter_context = cuda_context_entry() if device.arch == "cuda" else None
        if self._enter_context is not None:
            atexit.register(self._enter)  # the thread in which Python ends stops Taichi
        self._array = self.parts.array_class(self.forget)
        self._ready: set[object] = set()
        self._stand_ins: dict[object, Ndarray] = {}

    @property
    def alive(self) -> bool:
        """Whether Taichi still runs as started here; the copy in a forked process does not."""
        return self.parts.goes_on and not self._stopped and self._process == os.getpid()

    def check_process(self) -> None:
        """Raise DeviceError in a process that was forked from the one where Taichi started."""
        if self._process != os.getpid():
            raise DeviceError(f"{self.device.arch}: {FORKED}")

    def serves(self, device: Device, profile: bool, compiler: Compiler) -> bool:
        """Whether programs for a device, a profiling mode and a compiler can run here."""
        ours = (self.device.arch, self.device.index, self.profile, self.compiler)
        return (device.arch, device.index, profile, compiler) == ours

    @contextmanager
    def turn(self, exact: bool) -> Iterator[None]:
        """Hold the lock for calls of Taichi; kernels compiled meanwhile do not reorder arithmetic if ``exact``.

        Raises
        ------
        DeviceError
            If other code has stopped or restarted Taichi, which invalidates arrays and kernels, or in a forked process;
            or if the device has no memory or is lost.
        """
        self.check_process()
        with self._lock:
            if not self.alive:
                raise DeviceError(
                    f"{self.device.arch}: other code in this process has called ti.init or ti.reset, which "
                    f"invalidated the arrays of this run: start the run again, and {ELSEWHERE}"
                )
            self._enter()
            self.parts.allow_reordering(not exact)
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
        remove_objects()
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
    def kernel(self, text: str, exact: bool, name: str) -> Iterator[tuple[Callable[..., object], dict[str, object]]]:
        """Give a kernel of a module, and what stands for its arguments, to compile it."""
        ti, kernel = self.ti, getattr(self.module(text, exact), name)
        values = {ti.f32: 0.0, ti.i32: 0, ti.u32: 0}
        with self.turn(exact), quick_front_end(self.compiler):
            arrays = {ti.f32: ti.ndarray(ti.f32, 1), ti.i32: ti.ndarray(ti.i32, 1)}
            kinds = {n: parameter.annotation for n, parameter in inspect.signature(kernel).parameters.items()}
            yield kernel, {n: arrays[k.dtype] if isinstance(k, ti.types.ndarray) else values[k] for n, k in kinds.items()}

    def array(self, kind: object, size: int) -> Ndarray:
        """Allocate an array on the device; the caller holds the lock."""
        self._free()
        return self._array(kind, (size,))

    def launch(self, module: ModuleType, name: str, arguments: Sequence[object]) -> None:
        """Call a kernel of a module, which is compiled with small arrays first; the caller holds the lock.

        Taichi keeps the arrays that it compiles with in a reference cycle, and so in memory until the next collection.
        """
        kernel = getattr(module, name)
        if kernel not in self._ready and is_quick(self.compiler):
            with quick_front_end(self.compiler):
                kernel._primal.ensure_compiled(*(self._stand_in(value) for value in arguments))
            self._ready.add(kernel)
        kernel(*arguments)

    def _stand_in(self, value: object) -> object:
        if not isinstance(value, self._array):
            return value
        if value.dtype not in self._stand_ins:
            self._stand_ins[value.dtype] = self._array(value.dtype, (1,))
        return self._stand_ins[value.dtype]

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
                self.parts.free(handle)
