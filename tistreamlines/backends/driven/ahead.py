"""Kernels that Taichi compiles ahead of time, in another process; those in the cache are loaded without Taichi.

Its import and front end would take longer than to track 100,000 seeds.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Generator, Iterable
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from ...devices import Device, alone, choose
from ...devices.compilers import compiler_for
from ...helpers import tell_event
from ..compile_process import CompileProcess, compile_process, compiled

if TYPE_CHECKING:
    from ..taichi.runtime import Runtime

OWN_FOLDER = 0x200  # of Linux: what a thread shall not share with others
IDLE = 30.0  # seconds without requests after which the process ends: Taichi takes memory of the device
COMPILING = tuple(f"backends/{room}/*.py" for room in ("cuda", "driven", "taichi", "vulkan"))  # what decides on code
OPTIONS = {"cuda": {"print_kernel_asm": True, "offline_cache": False}, "vulkan": {}}  # of ``ti.init``
_first = cache(choose)  # the device that the environment of a process shows
_known: set[tuple[Runtime, str]] = set()  # names of kernels that Taichi has compiled


def kernels_of(device: Device, text: str, names: Iterable[str], exact: bool) -> dict[str, Future[bytes]]:
    """Return kernels of a module of Taichi's as JSON of :class:`.memory.Compiled`; it compiles those that are not in the cache.

    Their errors are those of :meth:`..compile_process.CompileProcess.ask`.
    """
    compiler, process = compiler_for(device.arch), partial(_process, device)
    causes = [text, str(exact), compiler.name, compiler.version, device.capability, hash_of(*COMPILING)]
    stem = f"{device.arch}-{hashlib.sha256(json.dumps(causes).encode()).hexdigest()[:24]}"
    arguments = device.arch, text, exact
    return {name: compiled(f"{stem}-{name}.json", process, compile_kernel, *arguments, f"run_{name}") for name in names}


@cache
def hash_of(*patterns: str) -> str:
    """Return a hash of the package's sources that match patterns."""
    package = Path(__file__).parents[2]
    sources = [path.read_bytes() for pattern in patterns for path in sorted(package.glob(pattern))]
    return hashlib.sha256(b"".join(sources)).hexdigest()


def _process(device: Device) -> CompileProcess | None:
    return compile_process(device.arch, device.index, environment=alone(device), idle=IDLE)



@contextmanager
def in_new_folder() -> Generator[None, None, None]:
    """Make a new folder the current one, where Taichi writes PTX: on Linux, in this thread alone."""
    with suppress(AttributeError, TypeError):
        ctypes.CDLL(None).unshare(OWN_FOLDER)
    try:
        before = Path.cwd()
    except FileNotFoundError:
        before = Path(os.sep)
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        try:
            yield
        finally:
            os.chdir(before)  # else Windows cannot remove the folder


@in_new_folder()
def compile_kernel(arch: str, text: str, exact: bool, name: str) -> bytes:
    """Compile a kernel of a module for the first device of an arch; return JSON of :class:`.memory.Compiled`."""
    from ..taichi.runtime import close, start

    begun, started = time.perf_counter(), partial(start, _first(arch), **OPTIONS[arch])
    if arch == "cuda" and (started(), name) in _known:  # it does not print an equal kernel again
        close()
    runtime = started()
    _known.add((runtime, name))
    kernel = import_module(f"..{arch}.compiling", __package__).compile_kernel(runtime, text, exact, name)
    tell_event(f"{name} for {arch}: compiled by Taichi", begun)
    return json.dumps(kernel).encode()
