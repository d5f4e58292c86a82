"""Copies between the host and the device: by kernels, or by CUDA's driver.

Taichi copies a NumPy array that a kernel is given to the device and back, whatever the kernel does with it, and into memory
that it allocates anew; so the driver's copies take a third of the time or less.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...devices.gpu import CudaStream, cuda_copies

Copy = Callable[[Any, np.ndarray], None]  # between an array on the device and one on the host
Address = Callable[[Any], int]  # of an array on the device


def copies(address_of: Address | None, kernels: Any, wait: Callable[[], None]) -> tuple[Copy, Copy]:
    """Return the functions that copy to the device, and from it, for which they wait; callers hold the lock.

    Parameters
    ----------
    address_of : callable or None
        For CUDA's driver; None if only kernels can copy.
    kernels : module
        The kernels that copy.
    wait : callable
        Waits for the device.
    """
    return by_kernels(kernels) if address_of is None else by_driver(address_of, *cuda_copies(), wait)


class Beside:
    """Copies by CUDA's driver beside kernels; callers hold the lock, also of the function that ``later`` returns.

    Parameters
    ----------
    address_of : returns an array's address.
    """

    def __init__(self, address_of: Address) -> None:
        self._address_of, self._stream = address_of, CudaStream()

    def upload(self, array: Any, values: np.ndarray) -> None:
        """Copy values to an array that no kernel uses which may still run."""
        self._stream.put(self._address_of(array), values.ctypes.data, values.nbytes)

    def later(self, array: Any, out: np.ndarray) -> Callable[[], None]:
        """Return a function that copies an array as kernels launched so far leave it; later ones may run meanwhile."""
        get = self._stream.noted()
        return lambda: get(out.ctypes.data, self._address_of(array), out.nbytes)


def by_driver(
    address_of: Address, put: Callable[[int, int, int], None], get: Callable[[int, int, int], None],
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
