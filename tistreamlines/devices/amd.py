"""AMD's devices, queried from HIP through ctypes; every return code is checked.

Only Quadrants compiles for them. It does so on Linux, loads ``libamdhip64.so`` by this name, and links with ROCm's or
LLVM's ``ld.lld``. A device whose kernels could not be compiled here is listed with the reason, so that 'auto' goes on.
"""

from __future__ import annotations

import ctypes as c
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from struct import pack

from .host import Device, MissingError, attribute, load, missing, read, text, without

LIBRARY, MAJORS = "libamdhip64.so", (7, 6)
# where Quadrants looks for its linker, after ROCM_PATH and before PATH
LINKERS = tuple(f"{root}/llvm/bin/ld.lld" for root in ("/opt/rocm", "/opt/rocm-7.0.0", "/opt/rocm-6.0.0"))
HIDING = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")  # HIP heeds the first of these that is not empty
_NO_DEVICE = 100  # hipErrorNoDevice
_INTEGRATED, _WAVEFRONT = 16, 87  # of hipDeviceAttribute_t
# an ELF file that is only a header: 64 bits, of HSA, version 4 of its conventions (LLVM's code objects of version 6),
# relocatable, for AMD's devices; linkers before LLVM 19 do not know this version
EMPTY = b"\x7fELF\x02\x01\x01\x40\x04" + bytes(7) + pack("<HHIQQQIHHHHHH", 1, 224, 1, 0, 0, 0, 0x41, 64, 0, 0, 64, 0, 0)
# functions that fill hipDeviceProp_t, and where in it they write the name of the architecture: since ROCm 6, and before
_PROPERTIES = (("hipGetDevicePropertiesR0600", 1160), ("hipGetDeviceProperties", 396))


def visible_amdgpus() -> str:
    """Return the numbers of the devices that the user lets HIP show; '' for all."""
    return next((value for name in HIDING if (value := os.environ.get(name))), "")


def _hip() -> tuple[c.CDLL, int]:
    """Start HIP and count the devices."""
    if sys.platform != "linux":
        raise MissingError("only on Linux, since no compiler for it runs elsewhere: use another arch")
    if (lib := load(LIBRARY)) is None:
        held = next((name for name in (f"{LIBRARY}.{major}" for major in MAJORS) if load(name)), None)
        if held is None:
            raise MissingError(f"no HIP ({LIBRARY} not found): install ROCm, or use another arch")
        raise MissingError(
            f"{held} is here, but Quadrants loads {LIBRARY}: install ROCm's development package of HIP, which links it"
        )
    count = c.c_int()
    code = lib.hipInit(0) or lib.hipGetDeviceCount(c.byref(count))
    if code == _NO_DEVICE or (code == 0 and count.value == 0):
        hidden = next((f"{name}={os.environ[name]!r}" for name in HIDING if os.environ.get(name)), None)
        why = "no AMD GPU found" if hidden is None else f"{hidden} shows no AMD GPU"
        raise MissingError(f"{why}: check that rocminfo lists it (groups render and video), or use another arch")
    if code:
        raise MissingError(f"HIP does not start ({_label(lib, code)}, {code}): check that rocminfo works")
    return lib, count.value


def _label(lib: c.CDLL, code: int) -> str:
    lib.hipGetErrorName.restype = c.c_char_p
    return (lib.hipGetErrorName(code) or b"error").decode()


def amdgpu_devices() -> list[Device]:
    lib, count = _hip()
    version = c.c_int()
    if lib.hipRuntimeGetVersion(c.byref(version)) or version.value <= 0:
        hip = "HIP"
    else:
        hip = f"HIP {version.value // 10_000_000}.{version.value // 100_000 % 100}.{version.value % 100_000}"
    module = read("/sys/module/amdgpu/version").strip()  # the kernel's own driver has none
    driver = f"{module} ({hip})" if module else hip
    return without([_amd_device(lib, index, driver) for index in range(count)], _lack())


def _lack() -> str:
    """Return what is missing to link for AMD's devices, and what to do; '' if all is there."""
    rocm = os.environ.get("ROCM_PATH")
    places = LINKERS if rocm is None else (f"{rocm}/llvm/bin/ld.lld", *LINKERS)
    linker = next((place for place in places if Path(place).exists()), shutil.which("ld.lld"))
    if linker is None:
        return "no linker for it (ld.lld, in ROCm or on the PATH): install ROCm's or lld 19, or use another arch"
    if (said := _linker_refusal(linker)) is not None:
        return f"its linker {linker} is too old ({said}): install ROCm's or lld 19, or use another arch"
    return ""


@cache
def _linker_refusal(linker: str) -> str | None:
    """Return what a linker says against an empty object of the kind that Quadrants makes; None if it links it."""
    with tempfile.TemporaryDirectory() as folder:
        empty, linked = Path(folder, "empty.o"), Path(folder, "empty")
        empty.write_bytes(EMPTY)
        done = subprocess.run([linker, "-shared", empty, "-o", linked], capture_output=True, text=True, check=False)
    said = done.stderr.strip().encode("unicode_escape").decode()
    return None if done.returncode == 0 else said.rpartition("error: ")[2] or f"exit code {done.returncode}"


def _amd_device(lib: c.CDLL, index: int, driver: str) -> Device:
    handle, name, total = c.c_int(), c.create_string_buffer(256), c.c_size_t()
    code = lib.hipDeviceGet(c.byref(handle), index) or lib.hipDeviceGetName(name, 256, handle)
    if code:
        reason = f"the device does not answer ({_label(lib, code)}, {code}): check rocminfo"
        return replace(missing("amdgpu", reason), index=index)
    known = lib.hipDeviceTotalMem(c.byref(total), handle) == 0
    kind = "integrated" if attribute(lib.hipDeviceGetAttribute, handle, _INTEGRATED) else "discrete"
    return Device("amdgpu", index, text(name.raw), driver, total.value if known else None, False, True, "", kind,
                  _architecture(lib, index), attribute(lib.hipDeviceGetAttribute, handle, _WAVEFRONT) or None)


def _architecture(lib: c.CDLL, index: int) -> str:
    """Return the name by which LLVM knows a device, such as gfx90a; '' if HIP does not tell."""
    for function, place in _PROPERTIES:
        raw = c.create_string_buffer(8192)  # more than hipDeviceProp_t, which has grown
        fill = getattr(lib, function, None)
        if fill is not None and fill(raw, index) == 0 and raw.raw[place:].startswith(b"gfx"):
            return text(raw.raw[place : place + 256]).split(":")[0]  # without its features, such as :xnack-
    return ""


def amdgpu_free(device: Device) -> int | None:
    lib, _ = _hip()
    held, free, total = c.c_int(), c.c_size_t(), c.c_size_t()
    if lib.hipGetDevice(c.byref(held)) or lib.hipSetDevice(device.index):
        return None
    try:
        return None if lib.hipMemGetInfo(c.byref(free), c.byref(total)) else free.value
    finally:
        lib.hipSetDevice(held)  # this thread's device, on which Quadrants may be running
