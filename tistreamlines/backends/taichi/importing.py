"""The import of a compiler, and the environment variables that it reads."""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType

from ...devices.compilers import Compiler
from .hip_objects import FOLDER_VARIABLE
from .internals import imported_here

starting = threading.RLock()  # held while a compiler is imported or started


@contextmanager
def variable_set(name: str, value: str | None) -> Iterator[None]:
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


@contextmanager
def _temporary_folder() -> Iterator[None]:
    """Name a folder for temporary files if none can be written: Taichi's imports ask for one, but write nothing."""
    held = tempfile.tempdir
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        tempfile.tempdir = os.sep
    try:
        yield
    finally:
        tempfile.tempdir = held


def settle_environment(compiler: Compiler) -> None:
    """Set the environment variables for a compiler, before other threads start.

    Adding a variable may make the C library move its list of variables, and a thread that reads the list meanwhile then
    ends the process. Others are added later, by the compiler and when it starts; adding and removing them here leaves
    room for them, so that the list stays where it is.
    """
    ours = {compiler.banner: "0", compiler.variable("SKIP_VERSION_CHECK"): "ON"}
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


def imported(compiler: Compiler) -> ModuleType:
    """Import a compiler, without its banner and its check for a newer version, and return it."""
    settle_environment(compiler)
    with starting, _temporary_folder():
        if compiler.module not in sys.modules:
            imported_here.add(compiler.module)
        ti = importlib.import_module(compiler.module)
    ti.set_logging_level(ti.ERROR)
    return ti
