"""The devices of this computer: what can track here, and how much memory is free.

They are found with ctypes and the standard library alone. Neither Taichi nor Numba is imported, so listing is quick
and does not influence them. NVIDIA's driver is an exception: once a process has called it (`cuInit`), later changes of
CUDA_VISIBLE_DEVICES have no effect in that process, and a *forked* child cannot use CUDA. Workers for several GPUs have
to be spawned.
"""

from __future__ import annotations

import os
import warnings
from contextlib import suppress
from functools import partial

from ..errors import DeviceError, listed
from .amd import amdgpu_devices, amdgpu_free, visible_amdgpus
from .compilers import compiler_lack
from .gpu import cuda_devices, cuda_free, vulkan_devices, vulkan_free
from .host import ON_HOST, Device, MissingError, cpu_devices, host_memory, metal_devices, missing, usable_cores, without

ARCHS = ("metal", "cuda", "amdgpu", "vulkan", "cpu")  # in the order in which 'auto' tries them
CPU = ARCHS[-1]
NUMBERED = ("cuda", "amdgpu", "vulkan")  # those that can have several devices
_PREFERENCE = ("discrete", "integrated", "virtual", "other", "cpu")
_UNKNOWN_FREE = 0.9  # assumed free share of a GPU's memory if the driver does not report it

__all__ = [
    "ARCHS", "CPU", "NUMBERED", "ON_HOST", "Device", "alone", "choose", "choose_several", "choose_wide", "free_memory",
    "host_memory", "list_devices", "name_of", "numbered_devices", "usable_cores", "vulkan_index",
]


def _probe(arch: str) -> list[Device]:
    """Devices of one arch, or one entry with the reason why there is none."""
    probes = {
        "metal": metal_devices, "cuda": cuda_devices, "amdgpu": amdgpu_devices, "vulkan": vulkan_devices,
        **{name: partial(cpu_devices, name) for name in ON_HOST},
    }
    try:
        devices = probes[arch]()
    except MissingError as error:
        return [missing(arch, str(error))]
    except AttributeError as error:  # ctypes: the library lacks a function
        return [missing(arch, f"the driver is too old ({error}): update it")]
    return without(devices, compiler_lack(arch))


def _rank(device: Device) -> tuple[bool, int, int]:
    """Sort key, smaller is preferred; CUDA and HIP keep their order, since compilers always use their first device."""
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
        One of `ARCHS`; 'auto' takes the first of these, in this order, that has a device in hardware and can be
        compiled for. 'vulkan' takes hardware first (discrete before integrated), else a software device.

    Returns
    -------
    Device

    Raises
    ------
    DeviceError
        If the name is unknown, or the requested arch is unavailable; the message gives the reason.
    """
    if arch not in ("auto", *ARCHS, *ON_HOST):
        raise DeviceError(f"unknown arch {arch!r}: use one of {', '.join(('auto', *ARCHS))}")
    devices: list[Device] = []
    for name in ARCHS if arch == "auto" else (arch,):
        devices = _probe(name)
        usable = [d for d in devices if d.available and not (arch == "auto" and d.software)]
        if usable:
            return min(usable, key=_rank)
    raise DeviceError(f"arch {arch!r} cannot run here: {devices[0].reason}")


def choose_wide(arch: str, task: str) -> Device:
    """Choose the device for a task that needs reals of 64 bits: :func:`choose`, or the CPU with a warning."""
    device = choose(arch)
    if not device.lack:
        return device
    warnings.warn(f"--arch {arch}: {device.lack}: the CPU fits {task}, with the same bits", stacklevel=3)
    return choose(CPU)


def numbered_devices(arch: str) -> list[Device]:
    """List the devices of an arch that can be named by their index, the numbers of ``--devices``."""
    return [device for device in _probe(arch) if device.available] if arch in NUMBERED else []


def choose_several(arch: str, devices: str) -> list[Device]:
    """Choose the devices to run on.

    Parameters
    ----------
    arch : str
        As for `choose`; its devices have numbers if it is or finds one of `NUMBERED`.
    devices : str
        'all', or numbers separated by commas: those of `numbered_devices`. 'all' takes the devices in hardware, or
        those in software if there are no others.

    Returns
    -------
    list of Device
        In the order of ``devices``.

    Raises
    ------
    DeviceError
        If the arch is unavailable or has no numbers, if a number is unknown, or if one is given twice.
    """
    arch = choose(arch).arch
    if not (there := numbered_devices(arch)):
        advice = "give the CPU's cores with --threads" if arch == "cpu" else "it has one device: leave --devices out"
        raise DeviceError(f"--devices {devices} needs --arch {listed(NUMBERED)}, but the run is on {arch}: {advice}")
    if (text := str(devices).strip().lower()) == "all":
        return [device for device in there if not device.software] or there
    known = {str(device.index): device for device in there}
    numbers = [number.strip() for number in text.split(",")]
    for place, number in enumerate(numbers):
        if number not in known:
            raise DeviceError(
                f"--devices {devices}: {arch} has no device {number!r}; give all, or numbers from {', '.join(known)} "
                "(tistreamlines devices lists them)"
            )
        if number in numbers[:place]:
            raise DeviceError(f"--devices {devices}: device {number} is given twice; give each device once")
    return [known[number] for number in numbers]


def name_of(devices: list[Device]) -> str:
    """Return the names of devices, those of the same name together: '2 x NVIDIA H100'."""
    names = [device.name for device in devices]
    counts = {name: names.count(name) for name in names}
    return ", ".join(name if count == 1 else f"{count} x {name}" for name, count in counts.items())


def alone(device: Device) -> dict[str, str]:
    """Return the environment of a process for which a GPU is the first of its arch, or the only one."""
    environment = dict(os.environ)
    if device.arch == "vulkan":
        environment["TI_VISIBLE_DEVICE"] = environment["QD_VISIBLE_DEVICE"] = str(vulkan_index(device))
    elif device.arch == "cuda":
        shown = environment.get("CUDA_VISIBLE_DEVICES")  # what the user has set renumbers the devices
        environment["CUDA_VISIBLE_DEVICES"] = _numbered_name(shown, device)
    elif device.arch == "amdgpu":
        environment["HIP_VISIBLE_DEVICES"] = _numbered_name(visible_amdgpus(), device)
    return environment


def _numbered_name(shown: str | None, device: Device) -> str:
    """Return the name of a device in a list that shows some of all devices, or its own number if the list is empty."""
    return shown.split(",")[device.index].strip() if shown else str(device.index)


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
        NVIDIA's management library. AMD: HIP's report. Vulkan: the driver's budget (VK_EXT_memory_budget), for a
        software device no more than the CPU has. 0.9 of the total if a GPU's driver reports nothing. None on macOS, and
        for an unavailable device.
    """
    if not device.available:
        return None
    host = host_memory()[1] if device.on_host or device.software else None
    if device.on_host or device.arch == "metal":
        return host
    free = None
    with suppress(MissingError, AttributeError):
        free = {"cuda": cuda_free, "amdgpu": amdgpu_free, "vulkan": vulkan_free}[device.arch](device)
    if free is None and device.memory_bytes is not None:
        free = int(_UNKNOWN_FREE * device.memory_bytes)
    known = [value for value in (free, host, device.memory_bytes) if value is not None]
    return min(known, default=None)
