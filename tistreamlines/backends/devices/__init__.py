"""What can run here: CPU, CUDA, Vulkan and Metal devices, found with ctypes and the standard library alone.

Neither Taichi nor Numba is imported, so asking is quick, and an answer cannot change what they do later. One
exception belongs to NVIDIA's driver: once a process has asked it (`cuInit`), later changes of CUDA_VISIBLE_DEVICES do
not count in that process, and a *forked* child cannot use CUDA. Workers for several GPUs have to be spawned.
"""

from __future__ import annotations

from contextlib import suppress

from ...errors import DeviceError
from .gpu import cuda_devices, cuda_free, vulkan_devices, vulkan_free
from .host import Device, MissingError, cpu_devices, host_memory, metal_devices, missing, usable_cores

ARCHS = ("metal", "cuda", "vulkan", "cpu")  # in the order in which 'auto' tries them
_PREFERENCE = ("discrete", "integrated", "virtual", "other", "cpu")
_UNKNOWN_FREE = 0.9  # share of a GPU's memory taken as free where nobody can be asked

__all__ = ["ARCHS", "Device", "choose", "free_memory", "list_devices", "usable_cores", "vulkan_index"]


def _probe(arch: str) -> list[Device]:
    """Devices of one arch, or one entry that says why there is none."""
    probes = {"metal": metal_devices, "cuda": cuda_devices, "vulkan": vulkan_devices, "cpu": cpu_devices}
    try:
        return probes[arch]()
    except MissingError as error:
        return [missing(arch, str(error))]
    except AttributeError as error:  # ctypes: the library lacks a function
        return [missing(arch, f"the driver is too old ({error}): update it")]


def _rank(device: Device) -> tuple[bool, int, int]:
    """Smaller is preferred; CUDA's own order stays, since Taichi takes CUDA's first device whatever it is."""
    kind = _PREFERENCE.index(device.kind) if device.arch == "vulkan" else 0
    return device.software, kind, device.index


def list_devices() -> list[Device]:
    """List what can run here.

    Returns
    -------
    list of Device
        All devices of every arch, in the order of `ARCHS`; for an arch without one, an entry with
        ``available=False`` and the reason.
    """
    return [device for arch in ARCHS for device in _probe(arch)]


def choose(arch: str = "auto") -> Device:
    """Choose the device to run on; there is no fall-back from an arch that was named.

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
        If the name is unknown, or the arch that was named cannot run here.
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
    """Return a Vulkan device's place in vkEnumeratePhysicalDevices, which is what TI_VISIBLE_DEVICE means.

    Taichi reads TI_VISIBLE_DEVICE once, before its first use of Vulkan in the process, and takes a wrong one silently.
    """
    if device.arch != "vulkan" or not device.available:
        raise DeviceError(f"{device.arch} device {device.name!r} is no usable Vulkan device")
    return device.index


def free_memory(device: Device) -> int | None:
    """Estimate the memory that is free on a device now.

    Parameters
    ----------
    device : Device

    Returns
    -------
    int or None
        Bytes. The CPU: what the system calls available, within the limit of the job or container. CUDA: what
        NVIDIA's management library reports. Vulkan: the driver's budget (VK_EXT_memory_budget), and for a software
        device no more than the CPU has. Where a GPU's driver does not say, 0.9 of the total. None on macOS, which
        does not say, and for a device that is not there.
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
