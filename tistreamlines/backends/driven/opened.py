"""The GPUs that this process has opened."""

from __future__ import annotations

import threading

from ...devices import Device
from ...errors import DeviceError
from ..cuda import gpu as cuda
from ..vulkan import gpu as vulkan
from .memory import Memory

GPUS: dict[str, type[Memory]] = {"cuda": cuda.Gpu, "vulkan": vulkan.Gpu}
_opened: dict[tuple[str, int], Memory] = {}
_opening = threading.Lock()


def able(device: Device) -> bool:
    """Whether a device has what programs need that are driven without Taichi's runtime."""
    return device.arch != "vulkan" or vulkan.able(device)


def opened(device: Device) -> Memory:
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
