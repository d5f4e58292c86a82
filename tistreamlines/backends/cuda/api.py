"""The part of CUDA's driver that programs need: its functions, through ctypes."""

from __future__ import annotations

import ctypes as c

from ...devices.gpu import cuda_error, open_cuda
from ..driven.functions import functions_of
from ..faults import understood

FUNCTIONS = {
    "cuDeviceGet": "pu", "cuDevicePrimaryCtxRetain": "pu", "cuCtxPushCurrent_v2": "p", "cuCtxPopCurrent_v2": "p",
    "cuStreamCreate": "pu", "cuStreamSynchronize": "p", "cuStreamWaitEvent": "ppu",
    "cuEventCreate": "pu", "cuEventRecord": "pp", "cuEventQuery": "p", "cuEventSynchronize": "p",
    "cuMemAlloc_v2": "pq", "cuMemFree_v2": "q", "cuMemHostAlloc": "pqu", "cuMemFreeHost": "p",
    "cuMemsetD32Async": "quqp", "cuMemcpyHtoDAsync_v2": "qpqp", "cuMemcpyDtoHAsync_v2": "pqqp",
    "cuModuleLoadData": "pp", "cuModuleGetFunction": "ppp", "cuLaunchKernel": "puuuuuuuppp",
}
QUICK = (
    "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuStreamWaitEvent", "cuEventRecord", "cuEventQuery", "cuMemsetD32Async",
    "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuLaunchKernel",
)
NOT_READY = 600  # cuEventQuery's answer as long as the device has not come so far


class Driver:
    """CUDA's driver: its functions by name, which raise the errors that their codes stand for."""

    def __init__(self) -> None:
        self._library = open_cuda()
        self.functions = functions_of(self._library, FUNCTIONS, QUICK)

    def __call__(self, name: str, *arguments: object) -> None:
        """Call a function.

        Raises
        ------
        DeviceError
            If the device has no memory or is lost.
        RuntimeError
            With the name of another error of CUDA.
        """
        if code := self.functions[name](*arguments):
            error = RuntimeError(f"CUDA error {cuda_error(self._library, code)} of {name}")
            raise understood(error) or error

    def make(self, name: str, *arguments: object) -> int:
        """Return the handle or the address of what a function makes."""
        out = c.c_void_p()
        self(name, c.byref(out), *arguments)
        return out.value or 0
