"""The GPUs that this process has opened."""

from __future__ import annotations

import threading
from typing import Any

from ...devices import Device
from ...errors import DeviceError

_opened: dict[tuple[str, int], Any] = {}
_opening = threading.Lock()


def able(device: Device) -> bool:
    """Whether a device has what programs need that are driven without Taichi's runtime."""
    if device.arch == "vulkan":
        from ..vulkan.gpu import able as vulkan_able

        return vulkan_able(device)
    return True


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
                _opened[key] = _kind(device.arch)(device)
            except RuntimeError as error:
                raise DeviceError(f"{device.arch}: {device.name} cannot be opened: {error}") from error
        _opened[key].check_process()
        return _opened[key]


def kernel_on(gpu: Any, told: dict[str, Any]) -> Any:
    """Hand a device a kernel that was compiled; see :func:`.ahead.compiled`. The caller holds the device's lock."""
    if gpu.device.arch == "vulkan":
        from ..vulkan.kernels import Kernel as VulkanKernel

        return VulkanKernel(gpu, told)
    from ..cuda.kernels import Kernel as CudaKernel

    return CudaKernel(gpu, told)


def _kind(arch: str) -> Any:
    if arch == "vulkan":
        from ..vulkan.gpu import Gpu as VulkanGpu

        return VulkanGpu
    from ..cuda.gpu import Gpu as CudaGpu

    return CudaGpu
