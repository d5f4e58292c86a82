"""The GPUs that this process has opened."""

from __future__ import annotations

import threading
from typing import Any

from ...aliases import Json
from ...devices import Device
from ...errors import DeviceError
from ..cuda import gpu as cuda
from ..cuda.kernels import Kernel as CudaKernel
from ..vulkan import gpu as vulkan
from ..vulkan.kernels import Kernel as VulkanKernel

GPUS: dict[str, type[Any]] = {"cuda": cuda.Gpu, "vulkan": vulkan.Gpu}
KERNELS: dict[str, type[Any]] = {"cuda": CudaKernel, "vulkan": VulkanKernel}
_opened: dict[tuple[str, int], Any] = {}
_opening = threading.Lock()


def able(device: Device) -> bool:
    """Whether a device has what programs need that are driven without Taichi's runtime."""
    return device.arch != "vulkan" or vulkan.able(device)


def opened(device: Device) -> Any:
    """Return a device, which this process opens once.

    Raises
    ------
    DeviceError
        If it does not open, or in a fork of a process that has opened it.
    """
    key = (device.arch, device.index)
    with _opening:
        if key not in _opened:
            try:
                _opened[key] = GPUS[device.arch](device)
            except RuntimeError as error:
                raise DeviceError(f"{device.arch}: {device.name} cannot be opened: {error}") from error
        _opened[key].check_process()
        return _opened[key]


def kernel_on(gpu: Any, told: Json) -> Any:
    """Hand a device a kernel that was compiled; see :func:`.ahead.compiled`. The caller holds the device's lock."""
    return KERNELS[gpu.device.arch](gpu, told)
