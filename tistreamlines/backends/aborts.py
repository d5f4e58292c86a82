"""A signal handler that runs when Taichi aborts, which keeps Python's own handlers from running."""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Callable

_kept: list[object] = []  # what the handler calls


def set_aborted(tell: Callable[[], object]) -> None:
    """Have a function called when a library aborts, in whose call it runs; the process ends when it returns.

    Python's own handlers would be called later, which is too late then.
    """
    handler, setter = ctypes.CFUNCTYPE(None, ctypes.c_int)(lambda _: tell()), ctypes.pythonapi.PyOS_setsig
    setter.argtypes, setter.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
    _kept.append(handler)
    setter(signal.SIGABRT, handler)
