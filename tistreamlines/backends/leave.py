"""Signal handlers of machine code: Taichi keeps Python's own from running while it compiles, and when it aborts."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from .llvm import assemble

# addresses are numbers, since LLVM has changed how it writes pointers
LEAVE = """
declare i32 @unlink(i64)
declare void @_exit(i32)
define void @leave(i32 %number) {{
{removals}
  %code = add i32 %number, 128
  call void @_exit(i32 %code)
  ret void
}}
"""
_held: list[object] = []  # what a handler may read or call


@cache
def _leave(*names: bytes) -> int:
    held = [ctypes.create_string_buffer(name) for name in names]
    _held.append(held)
    removals = [f"  call i32 @unlink(i64 {ctypes.addressof(name)})" for name in held]
    return assemble(LEAVE.format(removals="\n".join(removals)), "leave")


def set_leaving(number: int, files: Iterable[Path] = ()) -> None:
    """Let a signal end the process at once with exit code 128 + number, even while a library keeps Python from running.

    Files are removed before. ``signal.signal`` undoes it.
    """
    _set(number, _leave(*[os.fsencode(file.absolute()) for file in sorted(files)]))


def set_aborted(tell: Callable[[], object]) -> None:
    """Have a function called when a library aborts, in whose call it runs; the process ends when it returns.

    Python's own handlers would be called later, which is too late then.
    """
    called = ctypes.CFUNCTYPE(None, ctypes.c_int)(lambda _: tell())
    _held.append(called)
    address = ctypes.cast(called, ctypes.c_void_p).value
    assert address is not None
    _set(signal.SIGABRT, address)


def _set(number: int, address: int) -> None:
    setter = ctypes.pythonapi.PyOS_setsig
    setter.argtypes, setter.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
    setter(number, address)
