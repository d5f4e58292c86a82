"""Signal handlers of machine code: Taichi keeps Python's own from running while it compiles, and when it aborts."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from .llvm import assemble

# names lie one after another, each with a NUL at its end, and an empty one ends them; addresses are numbers, since LLVM
# has changed how it writes pointers
LEAVE = """
declare i32 @unlink(i64)
declare i64 @strlen(i64)
declare void @_exit(i32)
define void @leave(i32 %number) {{
begin:
  br label %next
next:
  %name = phi i64 [ {names}, %begin ], [ %after, %remove ]
  %length = call i64 @strlen(i64 %name)
  %last = icmp eq i64 %length, 0
  br i1 %last, label %end, label %remove
remove:
  call i32 @unlink(i64 %name)
  %bytes = add i64 %length, 1
  %after = add i64 %name, %bytes
  br label %next
end:
  %code = add i32 %number, 128
  call void @_exit(i32 %code)
  ret void
}}
"""
_held: list[object] = []  # what a handler may read or call


@cache
def _leave(names: bytes) -> int:
    held = ctypes.create_string_buffer(names + b"\0")
    _held.append(held)
    return assemble(LEAVE.format(names=ctypes.addressof(held)), "leave")


def set_leaving(number: int, files: Iterable[Path] = ()) -> None:
    """Let a signal end the process at once with exit code 128 + number, even while a library keeps Python from running.

    Files are removed before. ``signal.signal`` undoes it.
    """
    _set(number, _leave(b"".join(os.fsencode(file.absolute()) + b"\0" for file in sorted(files))))


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
