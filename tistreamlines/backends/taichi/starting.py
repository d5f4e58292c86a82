"""The import and the start of a compiler, and the environment variables that it reads."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, redirect_stdout
from importlib import import_module
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

from ...devices import Device, vulkan_index
from ...devices.compilers import Compiler
from ...errors import DeviceError
from ...linker.store import folder
from .hip_objects import FOLDER_VARIABLE, object_folder

starting = threading.RLock()  # held while a compiler is imported or started


@contextmanager
def variable_set(name: str, value: str | None) -> Generator[None, None, None]:
    """Set a variable temporarily, since later processes would inherit it; None changes nothing."""
    held = os.environ.get(name)
    if value is not None:
        os.environ[name] = value
    try:
        yield
    finally:
        if value is not None:
            os.environ.pop(name)
            if held is not None:
                os.environ[name] = held


def settle_environment(compiler: Compiler) -> None:
    """Set the environment variables for a compiler, before other threads start.

    Adding a variable may make the C library move its list of variables, and a thread that reads the list meanwhile then
    ends the process. Others are added later, by the compiler and when it starts; adding and removing them here leaves
    room for them, so that the list stays where it is.
    """
    ours = {f"ENABLE_{compiler.family}_HEADER_PRINT": "0", compiler.variable("SKIP_VERSION_CHECK"): "ON"}
    ours[compiler.variable("ENABLE_PYBUF")] = "0"  # else it prints a message if standard output is wrapped
    if "XDG_CACHE_HOME" not in os.environ:
        ours["HOME"] = str(Path.home())  # without either variable Taichi ends the process
    if ours.keys() <= os.environ.keys():
        return
    for name, value in ours.items():
        os.environ.setdefault(name, value)
    with ExitStack() as places:
        for name in (compiler.variable("LIB_DIR"), compiler.variable("VISIBLE_DEVICE"), FOLDER_VARIABLE):
            if name not in os.environ:
                places.enter_context(variable_set(name, ""))


def state_of(compiler: Compiler) -> Any:
    """Return the state of an imported compiler, an undocumented object that it replaces when it starts or stops."""
    return import_module(f"{compiler.module}.lang.impl").get_runtime()


def is_started(state: Any) -> bool:
    """Whether a compiler runs that has this state."""
    # where others have None, Quadrants raises an error
    return (state._prog if hasattr(state, "_prog") else state.prog) is not None


@contextmanager
def float_environment_kept() -> Generator[None, None, None]:
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


def initialise(compiler: Compiler, device: Device, further: dict[str, bool]) -> ModuleType:
    """Import and initialise the compiler for a device; raise DeviceError with the reason if that fails."""
    variable = compiler.variable("ARCH")
    named = os.environ.get(variable)
    if named is not None and named != device.arch:
        raise DeviceError(
            f"{variable} in the environment makes {compiler.title} run on {named!r}, not {device.arch}: unset it"
        )
    index = str(vulkan_index(device)) if device.arch == "vulkan" else None
    try:
        settle_environment(compiler)
        with starting:
            ti = import_module(compiler.module)
        ti.set_logging_level(ti.ERROR)
        common = {"enable_fallback": False, "log_level": ti.ERROR, "default_fp": ti.f32}
        # Taichi's own optimisation takes longer than the rest of a compilation, and the drivers' makes up for it
        common |= {"fast_math": False, "advanced_optimization": False}
        # Taichi's messages would mix with the program's output
        with (
            float_environment_kept(), variable_set(compiler.variable("VISIBLE_DEVICE"), index),
            variable_set(FOLDER_VARIABLE, object_folder(device.arch)), redirect_stdout(StringIO()),
        ):
            ti.init(arch=getattr(ti, device.arch), **common | _storage(compiler) | further)
            state_of(compiler).materialize()  # which only this thread can do
    except (OSError, RuntimeError, ValueError) as error:
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
