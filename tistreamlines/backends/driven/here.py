"""Taichi compiles in the process that runs the kernels, for whoever debugs: elsewhere, a process of its own does so."""

from __future__ import annotations

import ctypes
import os
import sys
import threading

from ...devices import Device
from .memory import Compiled

CLONE_FS = 0x200  # of Linux: with it, ``unshare`` gives a thread a current folder of its own
_compiling = threading.Lock()


def compile_here(device: Device, text: str, exact: bool) -> dict[str, Compiled]:
    """Compile a module with Taichi, whose runtime then also holds the device; see :func:`.ahead.compiled`."""
    if device.arch == "cuda":
        from ..cuda.compiling import compiled
    else:
        from ..vulkan.compiling import compiled
    return compiled(device, text, exact)


def compile_beside_kernels(device: Device, text: str, exact: bool) -> dict[str, Compiled]:
    """Compile a module in a thread, whose current folder may change without that of the run.

    Taichi writes the code for CUDA to the current folder. On Windows, that is the run's own for a moment.
    """
    results: list[dict[str, Compiled] | Exception] = []

    def work() -> None:
        from ..taichi.runtime import close

        if sys.platform == "linux":
            ctypes.CDLL(None).unshare(CLONE_FS)
        folder = os.getcwd()  # noqa: PTH109
        try:
            results.append(compile_here(device, text, exact))
            close()  # it compiles for Vulkan only once after each start
        except Exception as error:
            results.append(error)
        finally:
            os.chdir(folder)

    with _compiling:
        thread = threading.Thread(target=work, name="taichi")
        thread.start()
        thread.join()
    if isinstance(results[0], Exception):
        raise results[0]
    return results[0]
