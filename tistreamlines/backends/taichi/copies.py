"""Copies between the host and the device: by kernels, or by CUDA's driver.

Taichi copies a NumPy array that a kernel is given to the device and back, whatever the kernel does with it, and into memory
that it allocates anew; so the driver's copies take a third of the time or less.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...devices.gpu import cuda_copies, cuda_later_copies

if TYPE_CHECKING:
    from .runtime import Runtime

Copy = Callable[[Any, np.ndarray], None]  # between an array on the device and one on the host
Later = Callable[[Any, np.ndarray], Callable[[], None]]  # returns what copies to the host


def copies(runtime: Runtime, kernels: Any) -> tuple[Copy, Copy]:
    """Return the functions that copy to the device, and from it, for which they wait; callers hold the lock.

    Parameters
    ----------
    runtime : Runtime
        What the arrays belong to.
    kernels : module
        The kernels that copy, for devices without other means.
    """
    if runtime.device.arch == "cuda" and runtime.parts.address_of is not None:
        return by_driver(runtime.parts.address_of, *cuda_copies(), runtime.ti.sync)
    return by_kernels(kernels)


def later_copies(runtime: Runtime) -> Later | None:
    """Return a function that lets an array be copied when it holds what kernels launched so far write, beside later ones.

    None where copies wait for all kernels. Callers hold the lock, also of the function that it returns.
    """
    address_of = runtime.parts.address_of
    if runtime.device.arch != "cuda" or address_of is None:
        return None
    note = cuda_later_copies()

    def later(array: Any, out: np.ndarray) -> Callable[[], None]:
        copy = note()
        return lambda: copy(out.ctypes.data, address_of(array), out.nbytes)

    return later


def by_driver(
    address_of: Callable[[Any], int], put: Callable[[int, int, int], None], get: Callable[[int, int, int], None],
    wait: Callable[[], None],
) -> tuple[Copy, Copy]:  # fmt: skip
    """Return copies by a driver's functions of two addresses and the number of bytes, the destination first."""
    def to_device(array: Any, values: np.ndarray) -> None:
        put(address_of(array), values.ctypes.data, values.nbytes)

    def to_host(array: Any, out: np.ndarray) -> None:
        wait()
        get(out.ctypes.data, address_of(array), out.nbytes)

    return to_device, to_host


def by_kernels(kernels: Any) -> tuple[Copy, Copy]:
    """Return copies by kernels that are given NumPy arrays."""
    def to_device(array: Any, values: np.ndarray) -> None:
        copy = kernels.upload_reals if values.dtype.kind == "f" else kernels.upload_ints
        copy(len(values), values, array)

    def to_host(array: Any, out: np.ndarray) -> None:
        kernels.download_ints(len(out), array, out)

    return to_device, to_host
