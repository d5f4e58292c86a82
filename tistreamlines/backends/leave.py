"""Signal handlers of machine code: Taichi keeps Python's own from running while it compiles, and when it aborts."""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Callable
from functools import cache
from typing import Any

from .llvm import assemble

LEAVE = """
declare void @_exit(i32)
define void @leave(i32 %number) {
  %code = add i32 %number, 128
  call void @_exit(i32 %code)
  ret void
}
"""
_aborted: Any = None  # kept for as long as it may be called


@cache
def _leave() -> int:
    return assemble(LEAVE, "leave")


def set_leaving(number: int) -> None:
    """Let a signal end the process at once; ``signal.signal`` undoes it."""
    _set(number, _leave())


def set_aborted(tell: Callable[[], object]) -> None:
    """Have Python called when a library aborts: Python's own handlers would be called later, which is too late then."""
    global _aborted
    _aborted = ctypes.CFUNCTYPE(None, ctypes.c_int)(lambda _: tell())
    address = ctypes.cast(_aborted, ctypes.c_void_p).value
    assert address is not None
    _set(signal.SIGABRT, address)


def _set(number: int, address: int) -> None:
    setter = ctypes.pythonapi.PyOS_setsig
    setter.argtypes, setter.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
    setter(number, address)
