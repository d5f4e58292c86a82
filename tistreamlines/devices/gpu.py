"""CUDA and Vulkan devices, queried from their drivers through ctypes; every return code is checked."""

from __future__ import annotations

import ctypes as c
import os
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from threading import Thread
from typing import TYPE_CHECKING, ClassVar

from .host import Device, MissingError, attribute, load, missing, text

_KINDS = ("other", "integrated", "discrete", "virtual", "cpu")  # VkPhysicalDeviceType
_SHADER_FLOAT64, _SHADER_INT64 = 39, 40  # places of the flags in VkPhysicalDeviceFeatures
_FORKED = 3  # CUDA_ERROR_NOT_INITIALIZED, cuInit's answer in a fork of a process that has called it


# --------------------------------------------------------------------------------------------------------------- CUDA
def open_cuda() -> c.CDLL:
    """Start NVIDIA's driver and return its library."""
    return _cuda()[0]


def begin_cuda() -> None:
    """Begin to start NVIDIA's driver, if there is one: 0.2 s on a server, without Python's lock, beside imports.

    A device gets two queues, one for each stream of this package, unless CUDA_DEVICE_MAX_CONNECTIONS is set. To make
    and to end the eight of the driver takes a command 0.1 s more on an H200.
    """
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "2")
    with suppress(RuntimeError):  # the system starts no more threads
        Thread(target=_try_cuda, name="driver", daemon=True).start()


def _try_cuda() -> None:
    with suppress(Exception):  # which is raised again where the driver is needed
        open_cuda()
        _open_nvml()  # it stays open, so that opening it again takes 10 ms less


def _cuda() -> tuple[c.CDLL, int]:
    """Start NVIDIA's driver (no context is made) and count the devices."""
    library = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    lib = None if sys.platform == "darwin" else load(library)
    if lib is None:
        raise MissingError(f"no NVIDIA driver ({library} not found): install NVIDIA's driver, or use another arch")
    count = c.c_int()
    code = lib.cuInit(0) or lib.cuDeviceGetCount(c.byref(count))
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    if code == 100 or (code == 0 and count.value == 0):  # CUDA_ERROR_NO_DEVICE
        why = "no NVIDIA GPU found" if hidden is None else f"CUDA_VISIBLE_DEVICES={hidden!r} shows no NVIDIA GPU"
        raise MissingError(f"{why}: check nvidia-smi, or use another arch")
    if code == _FORKED:
        advice = "make it with multiprocessing's method 'spawn'"
        raise MissingError(f"this process was forked from one that uses CUDA: {advice}")
    if code:
        reason = f"{cuda_error(lib, code)}, {code}"
        raise MissingError(f"NVIDIA's driver does not start ({reason}): check that nvidia-smi works")
    return lib, count.value


def _open_nvml() -> c.CDLL | None:
    """Start NVIDIA's management library, which reports driver and free memory without a context; None if absent."""
    lib = load("nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1")
    return None if lib is None or lib.nvmlInit_v2() != 0 else lib


@contextmanager
def _nvml() -> Iterator[c.CDLL | None]:
    lib = _open_nvml()
    try:
        yield lib
    finally:
        if lib is not None:
            lib.nvmlShutdown()


def cuda_devices() -> list[Device]:
    lib, count = _cuda()
    version, release = c.c_int(), c.create_string_buffer(96)
    lib.cuDriverGetVersion(c.byref(version))
    with _nvml() as nvml:
        if nvml is not None:
            nvml.nvmlSystemGetDriverVersion(release, 96)
    driver = f"{text(release.raw)} (CUDA {version.value // 1000}.{version.value % 1000 // 10})".strip()
    return [_cuda_device(lib, index, driver) for index in range(count)]


def _cuda_device(lib: c.CDLL, index: int, driver: str) -> Device:
    handle, name, total = c.c_int(), c.create_string_buffer(256), c.c_size_t()
    code = lib.cuDeviceGet(c.byref(handle), index) or lib.cuDeviceGetName(name, 256, handle)
    if code:
        return replace(missing("cuda", f"the device does not answer (error {code}): check nvidia-smi"), index=index)
    lib.cuDeviceTotalMem_v2(c.byref(total), handle)
    major, minor, warp, integrated = (attribute(lib.cuDeviceGetAttribute, handle, key) for key in (75, 76, 10, 18))
    kind = "integrated" if integrated else "discrete"
    return Device("cuda", index, text(name.raw), driver, total.value or None, False, True, "", kind,
                  f"sm_{major}{minor}", warp or None)


def cuda_free(device: Device) -> int | None:
    lib, _ = _cuda()
    handle, bus, memory, nvml_handle = c.c_int(), c.create_string_buffer(32), (c.c_uint64 * 3)(), c.c_void_p()
    if lib.cuDeviceGet(c.byref(handle), device.index) or lib.cuDeviceGetPCIBusId(bus, 32, handle):
        return None
    with _nvml() as nvml:  # by bus: CUDA_VISIBLE_DEVICES renumbers CUDA's devices, not NVML's
        if nvml is None or nvml.nvmlDeviceGetHandleByPciBusId_v2(bus, c.byref(nvml_handle)):
            return None
        return memory[1] if nvml.nvmlDeviceGetMemoryInfo(nvml_handle, c.byref(memory)) == 0 else None


def cuda_error(lib: c.CDLL, code: int) -> str:
    """Return the name of an error of CUDA's driver."""
    name = c.c_char_p()
    return name.value.decode() if lib.cuGetErrorName(code, c.byref(name)) == 0 and name.value else f"error {code}"


def cuda_context_entry() -> Callable[[], object] | None:
    """Return a function that makes this thread's CUDA context current in its caller's; None without a context."""
    lib, context = _cuda()[0], c.c_void_p()
    if lib.cuCtxGetCurrent(c.byref(context)) or not context.value:
        return None
    return lambda: lib.cuCtxSetCurrent(context)


# ------------------------------------------------------------------------------------------------------------- Vulkan
TYPES = {"u32": c.c_uint32, "u64": c.c_uint64, "size": c.c_size_t, "ptr": c.c_void_p, "text": c.c_char_p}


class Structure(c.Structure):
    """A structure of numbers and addresses; ``number`` says what it is, where it begins with that."""

    number: ClassVar[int | None]
    kept: list[object]
    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> int: ...


def layout(fields: str, kind: int | None = None) -> type[Structure]:
    """Make a structure of fields 'name:type'; one with a ``kind`` begins with it and with a pointer to another one."""
    listed = [tuple(field.split(":")) for field in fields.split()]
    start = [] if kind is None else [("kind", c.c_uint32), ("next", c.c_void_p)]
    members = {"_fields_": [*start, *((name, TYPES[type_]) for name, type_ in listed)], "number": kind}
    return type("Structure", (Structure,), members)


POINTED = (c.Structure, c.Array, c.c_void_p, c.c_uint64, c.c_float)


def structure(layout: type[Structure], /, **values: object) -> Structure:
    """Return a structure with values; those of ctypes are kept as long as it is, since it has their addresses."""
    pointed = {name: c.addressof(value) for name, value in values.items() if isinstance(value, POINTED)}
    filled = layout(**{"kind": layout.number} if layout.number is not None else {}, **values | pointed)
    filled.kept = [values[name] for name in pointed]
    return filled


_ApplicationInfo = layout("name:text version:u32 engine:text engine_version:u32 api:u32", 0)
_InstanceInfo = layout("flags:u32 app:ptr layer_count:u32 layers:ptr extension_count:u32 extensions:ptr", 1)


def open_vulkan() -> tuple[c.CDLL, c.c_void_p, list[c.c_void_p]]:
    """Open a Vulkan instance; return the library, it, and its physical devices in vkEnumeratePhysicalDevices' order."""
    names = {"win32": ["vulkan-1.dll"], "darwin": ["libvulkan.1.dylib", "libMoltenVK.dylib"]}
    names = names.get(sys.platform, ["libvulkan.so.1"])
    if (lib := load(*names)) is None:
        system = "distribution's Vulkan loader and your GPU's driver" if sys.platform == "linux" else "GPU's driver"
        raise MissingError(f"no Vulkan loader ({names[0]}): install the {system}, or use another arch")
    # A Vulkan 1.0 loader refuses a newer version; it is recognised by lacking vkEnumerateInstanceVersion.
    api = 1 << 22 | (2 << 12 if hasattr(lib, "vkEnumerateInstanceVersion") else 0)
    app = structure(_ApplicationInfo, name=b"tistreamlines", engine=b"tistreamlines", api=api)
    instance, count = c.c_void_p(), c.c_uint32()
    code = lib.vkCreateInstance(c.byref(structure(_InstanceInfo, app=app)), None, c.byref(instance))
    if code == -9 and sys.platform == "darwin":  # MoltenVK shows itself only to those who ask for portability
        extensions = (c.c_char_p * 1)(b"VK_KHR_portability_enumeration")
        info = structure(_InstanceInfo, flags=1, app=app, extension_count=1, extensions=extensions)
        code = lib.vkCreateInstance(c.byref(info), None, c.byref(instance))
    if code:
        raise MissingError(f"the Vulkan loader finds no driver (error {code}): install your GPU's Vulkan driver")
    code = lib.vkEnumeratePhysicalDevices(instance, c.byref(count), None)
    handles = (c.c_void_p * count.value)()
    if code < 0 or lib.vkEnumeratePhysicalDevices(instance, c.byref(count), handles) < 0 or count.value == 0:
        lib.vkDestroyInstance(instance, None)
        raise MissingError(f"Vulkan finds no device (error {code}): install your GPU's Vulkan driver")
    return lib, instance, [c.c_void_p(handle) for handle in handles[: count.value]]


@contextmanager
def vulkan_instance() -> Iterator[tuple[c.CDLL, list[c.c_void_p]]]:
    """Open a Vulkan instance for a while; yield the library and its physical devices."""
    lib, instance, handles = open_vulkan()
    try:
        yield lib, handles
    finally:
        lib.vkDestroyInstance(instance, None)


def _query_chain(query: Callable, handle: c.c_void_p, outer: tuple[int, int], inner: tuple[int, int]) -> bytes:
    """Run a vkGet...2 query with one structure chained to it; both are (sType, bytes). Returns the inner one's body."""
    chained, buffer = c.create_string_buffer(16 + inner[1]), c.create_string_buffer(16 + outer[1])
    struct.pack_into("=IIQ", chained, 0, inner[0], 0, 0)
    struct.pack_into("=IIQ", buffer, 0, outer[0], 0, c.addressof(chained))
    query(handle, buffer)
    return chained.raw[16:]


def _heap(lib: c.CDLL, handle: c.c_void_p) -> tuple[int, int]:
    """Number and size of the largest device-local heap."""
    raw = c.create_string_buffer(1024)  # VkPhysicalDeviceMemoryProperties, 520 bytes
    lib.vkGetPhysicalDeviceMemoryProperties(handle, raw)
    heaps = [struct.unpack_from("=QI", raw, 264 + 16 * i) for i in range(struct.unpack_from("=I", raw, 260)[0])]
    size, number = max(((size, i) for i, (size, flags) in enumerate(heaps) if flags & 1), default=(0, 0))
    return number, size


def _driver_version(vendor: int, version: int) -> str:
    if vendor == 0x10DE:
        return f"{version >> 22}.{version >> 14 & 255}.{version >> 6 & 255}"
    if vendor == 0x8086 and sys.platform == "win32":
        return f"{version >> 14}.{version & 0x3FFF}"
    return f"{version >> 22}.{version >> 12 & 1023}.{version & 4095}"


def _vulkan_device(lib: c.CDLL, index: int, handle: c.c_void_p) -> Device:
    raw = c.create_string_buffer(2048)  # VkPhysicalDeviceProperties, 824 bytes
    lib.vkGetPhysicalDeviceProperties(handle, raw)
    api, version, vendor, _, kind = struct.unpack_from("=5I", raw)
    major, minor, patch = api >> 22 & 127, api >> 12 & 1023, api & 4095
    features = (c.c_uint32 * 64)()  # VkPhysicalDeviceFeatures, 55 flags
    lib.vkGetPhysicalDeviceFeatures(handle, features)
    driver, subgroup = _driver_version(vendor, version), None
    query = getattr(lib, "vkGetPhysicalDeviceProperties2", None)
    if query and (major, minor) >= (1, 1):
        outer = (1000059001, 2048)
        subgroup = struct.unpack_from("=I", _query_chain(query, handle, outer, (1000094000, 16)))[0] or None
        if (major, minor) >= (1, 2):  # driverID, driverName, driverInfo
            body = _query_chain(query, handle, outer, (1000196000, 520))
            driver = f"{text(body[4:260])} {text(body[260:516]) or driver}".strip()
    return Device("vulkan", index, text(raw.raw[20:276]), driver, _heap(lib, handle)[1] or None, kind == 4, True, "",
                  _KINDS[kind] if kind < 5 else "other", f"Vulkan {major}.{minor}.{patch}", subgroup,
                  int64=bool(features[_SHADER_INT64]), float64=bool(features[_SHADER_FLOAT64]))


def vulkan_devices() -> list[Device]:
    with vulkan_instance() as (lib, handles):
        devices = [_vulkan_device(lib, index, handle) for index, handle in enumerate(handles)]
    devices = _visible(devices)
    hardware = any(device.available and not device.software for device in devices)
    reason = "a hardware device is used instead" if hardware else "software device only: name it with --arch vulkan"
    return [replace(d, reason=reason) if d.software and d.available else d for d in devices]


def _visible(devices: list[Device]) -> list[Device]:
    """Heed TI_VISIBLE_DEVICE, by which Taichi takes one of Vulkan's devices: the others cannot be selected."""
    named = os.environ.get("TI_VISIBLE_DEVICE", "")
    if not named:
        return devices
    places = [str(device.index) for device in devices]
    if named in places:
        reason = f"TI_VISIBLE_DEVICE={named} names another device: unset it, or let it name this one"
    else:
        known = ", ".join(places)
        reason = f"TI_VISIBLE_DEVICE={named!r} is no number of a Vulkan device: unset it, or give one of {known}"
    return [d if str(d.index) == named else replace(d, available=False, reason=reason) for d in devices]


def vulkan_free(device: Device) -> int | None:
    with vulkan_instance() as (lib, handles):
        query = getattr(lib, "vkGetPhysicalDeviceMemoryProperties2", None)
        if query is None or device.index >= len(handles):
            return None
        # VK_EXT_memory_budget: what this process may hold, and what it holds. A driver without it leaves zeros.
        chain = _query_chain(query, handles[device.index], (1000059006, 1024), (1000237000, 256))
        values = struct.unpack("=32Q", chain)
        heap = _heap(lib, handles[device.index])[0]
        return max(0, values[heap] - values[16 + heap]) if values[heap] else None
