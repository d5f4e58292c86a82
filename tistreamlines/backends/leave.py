"""A compiled signal handler: Taichi keeps Python's own from running while it compiles."""

from __future__ import annotations

import ctypes

from numba import cfunc, types

_exit = types.ExternalFunction("_exit", types.void(types.intc))


@cfunc(types.void(types.intc))
def _leave(number):
    _exit(128 + number)


def set_leaving(number: int) -> None:
    """Let a signal end the process at once; ``signal.signal`` undoes it."""
    setter = ctypes.pythonapi.PyOS_setsig
    setter.argtypes, setter.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
    setter(number, _leave.address)
