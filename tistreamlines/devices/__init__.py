"""The devices of this computer: what can track here, and how much memory is free.

They are found with ctypes and the standard library alone. Neither Taichi nor Numba is imported, so listing is quick
and does not influence them. NVIDIA's driver is an exception: once a process has called it (`cuInit`), later changes of
CUDA_VISIBLE_DEVICES have no effect in that process, and a *forked* child cannot use CUDA. Workers for several GPUs have
to be spawned.
"""

from __future__ import annotations

from contextlib import suppress

from ..errors import DeviceError
from .gpu import cuda_devices, cuda_free, vulkan_devices, vulkan_free
from .host import Device, MissingError, cpu_devices, host_memory, metal_devices, missing, usable_cores

ARCHS = ("metal", "cuda", "vulkan", "cpu")  # in the order in which 'auto' tries them
_PREFERENCE = ("discrete", "integrated", "virtual", "other", "cpu")
_UNKNOWN_FREE = 0.9  # assumed free share of a GPU's memory if the driver does not report it

__all__ = ["ARCHS", "Device", "choose", "free_memory", "list_devices", "usable_cores", "vulkan_index"]


def _probe(arch: str) -> list[Device]:
    """Devices of one arch, or one entry with the reason why there is none."""
    probes = {"metal": metal_devices, "cuda": cuda_devices, "vulkan": vulkan_devices, "cpu": cpu_devices}
    try:
        return probes[arch]()
    except MissingError as error:
        return [missing(arch, str(error))]
    except AttributeError as error:  # ctypes: the library lacks a function
        return [missing(arch, f"the driver is too old ({error}): update it")]


def _rank(device: Device) -> tuple[bool, int, int]:
    """Sort key, smaller is preferred; CUDA keeps its order, since Taichi always uses CUDA's first device."""
    kind = _PREFERENCE.index(device.kind) if device.arch == "vulkan" else 0
    return device.software, kind, device.index


def list_devices() -> list[Device]:
    """List all devices.

    Returns
    -------
    list of Device
        All devices of every arch, in the order of `ARCHS`; for an arch without one, an entry with
        ``available=False`` and the reason.
    """
    return [device for arch in ARCHS for device in _probe(arch)]


def choose(arch: str = "auto") -> Device:
    """Choose the device to run on. If the requested arch is unavailable, no other one is used.

    Parameters
    ----------
    arch : str
        'metal', 'cuda', 'vulkan' or 'cpu'; 'auto' takes the first of these, in this order, that has a device in
        hardware. 'vulkan' takes hardware first (discrete before integrated), else a software device.

    Returns
    -------
    Device

    Raises
    ------
    DeviceError
        If the name is unknown, or the requested arch is unavailable; the message gives the reason.
    """
    if arch not in ("auto", *ARCHS):
        raise DeviceError(f"unknown arch {arch!r}: use one of {', '.join(('auto', *ARCHS))}")
    for name in ARCHS if arch == "auto" else (arch,):
        devices = _probe(name)
        usable = [d for d in devices if d.available and not (arch == "auto" and d.software)]
        if usable:
            return min(usable, key=_rank)
    raise DeviceError(f"arch {arch!r} cannot run here: {devices[0].reason}")


def vulkan_index(device: Device) -> int:
    """Return a Vulkan device's index in vkEnumeratePhysicalDevices, the meaning of TI_VISIBLE_DEVICE.

    Taichi reads TI_VISIBLE_DEVICE once, before its first use of Vulkan in the process, and ignores a wrong one.
    """
    if device.arch != "vulkan" or not device.available:
        raise DeviceError(f"{device.arch} device {device.name!r} is no usable Vulkan device")
    return device.index


def free_memory(device: Device) -> int | None:
    """Estimate the free memory of a device.

    Parameters
    ----------
    device : Device

    Returns
    -------
    int or None
        Bytes. CPU: what the system reports as available, within the limit of the job or container. CUDA: the report of
        NVIDIA's management library. Vulkan: the driver's budget (VK_EXT_memory_budget), for a software device no more
        than the CPU has. 0.9 of the total if a GPU's driver reports nothing. None on macOS, and for an unavailable
        device.
    """
    if not device.available:
        return None
    host = host_memory()[1] if device.arch == "cpu" or device.software else None
    if device.arch in ("cpu", "metal"):
        return host
    free = None
    with suppress(MissingError, AttributeError):
        free = (cuda_free if device.arch == "cuda" else vulkan_free)(device)
    if free is None and device.memory_bytes is not None:
        free = int(_UNKNOWN_FREE * device.memory_bytes)
    known = [value for value in (free, host, device.memory_bytes) if value is not None]
    return min(known, default=None)
