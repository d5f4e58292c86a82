"""The device record, and what the operating system says about this machine: CPU, memory, Apple's GPU."""

from __future__ import annotations

import ctypes as c
import os
import platform
import re
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

INTERPRETED = "python"  # the arch for whoever debugs kernels: no compiler, and no help or list names it
ON_HOST = ("cpu", INTERPRETED)  # archs whose kernels are run by threads of this package


@dataclass(frozen=True)
class Device:
    """One device, or the reason why an arch has none.

    Attributes
    ----------
    arch : str
        'cpu', 'cuda', 'amdgpu', 'vulkan' or 'metal'.
    index : int
        Place in the driver's own order; -1 if there is no device.
    name, driver : str
        As the system reports them.
    memory_bytes : int or None
        Total memory (for Vulkan the largest device-local heap); None if unknown.
    software : bool
        True for a Vulkan device that is the CPU in disguise (lavapipe, SwiftShader).
    available : bool
        Whether the user can select the device.
    reason : str
        Why it cannot run, or is not chosen by itself, and what would do; '' otherwise.
    kind : str
        'cpu', 'discrete', 'integrated', 'virtual' or 'other'.
    capability : str
        CUDA compute capability ('sm_90'), AMD architecture ('gfx90a') or Vulkan API version ('Vulkan 1.3.230').
    subgroup : int or None
        Threads per subgroup (warp, wavefront).
    cores : int or None
        CPU cores that this process may use.
    int64 : bool
        Whether its kernels can use whole numbers of 64 bits.
    float64 : bool
        Whether its kernels can use reals of 64 bits.
    """

    arch: str
    index: int
    name: str
    driver: str
    memory_bytes: int | None
    software: bool
    available: bool
    reason: str
    kind: str = "other"
    capability: str = ""
    subgroup: int | None = None
    cores: int | None = None
    int64: bool = True
    float64: bool = True

    @property
    def lack(self) -> str | None:
        """Why the device runs no kernels with numbers of 64 bits; None if it does."""
        return None if self.int64 and self.float64 else f"{self.name} has no numbers of 64 bits"

    @property
    def on_host(self) -> bool:
        """Whether threads of this package compute, in the host's memory and without a driver."""
        return self.arch in ON_HOST

    @property
    def interprets(self) -> bool:
        """Whether Python runs the kernels, which nothing compiles."""
        return self.arch == INTERPRETED

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU in hardware computes, and not the CPU, by itself or through a driver."""
        return not (self.on_host or self.software)

    def as_dict(self) -> dict:
        """Return the fields as a dict that JSON can hold."""
        return asdict(self)


class MissingError(Exception):
    """An arch has no device; the message is the reason to show."""


def missing(arch: str, reason: str) -> Device:
    return Device(arch, -1, "", "", None, False, False, reason)


def load(*names: str) -> c.CDLL | None:
    """Load the first shared library found; None if there is none."""
    for name in names:
        with suppress(OSError):
            return c.CDLL(name)
    return None


def attribute(query: Callable[..., int], handle: c.c_int, key: int) -> int:
    """Return a number that a driver tells of a device; 0 if it does not."""
    value = c.c_int()
    return value.value if query(c.byref(value), key, handle) == 0 else 0


def read(path: str | Path) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def text(raw: bytes) -> str:
    return raw.split(b"\0", 1)[0].decode(errors="replace").strip()


def _sysctl(name: str) -> bytes:
    """Read one value of macOS' sysctl; b'' if there is none."""
    lib, size = load("libSystem.dylib"), c.c_size_t(256)
    raw = c.create_string_buffer(256)
    if lib is None or lib.sysctlbyname(name.encode(), raw, c.byref(size), None, c.c_size_t(0)) != 0:
        return b""
    return raw.raw[: size.value]


def _groups(controller: str) -> Iterator[tuple[bool, Path]]:
    """Folders of this process' control group and of its parents, any of which may limit it; True for version 2."""
    for line in read("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        # systems mount the first version's CPU controllers together, and name the folder of one by both
        names = ("",) if not controllers else dict.fromkeys((controller, controllers))
        for root in (Path("/sys/fs/cgroup", name) for name in names):
            group = root / path.strip("/")
            yield from ((not controllers, folder) for folder in (group, *group.parents) if folder.is_relative_to(root))


def _cgroup_memory() -> tuple[int, int] | None:
    """Memory limit of this process' control group and what is left of it (jobs and containers); None without one."""
    limits = []
    for second, folder in _groups("memory"):
        limit = read(folder / ("memory.max" if second else "memory.limit_in_bytes")).strip()
        if limit.isdigit():
            # The page cache also counts as used, but gives way: only memory that processes hold is gone.
            key = "anon" if second else "total_rss"
            used = re.search(rf"^{key} (\d+)$", read(folder / "memory.stat"), re.MULTILINE)
            limits.append((int(limit), max(0, int(limit) - int(used.group(1) if used else 0))))
    return (min(limit for limit, _ in limits), min(left for _, left in limits)) if limits else None


@cache
def _cgroup_cores() -> int | None:
    """Cores' worth of time that this process' control group may use, rounded up; None without a limit.

    Each call of tasks in threads needs it, and to read the files takes a millisecond.
    """
    limits = []
    for second, folder in _groups("cpu"):
        if second:
            words = read(folder / "cpu.max").split()
        else:
            words = [read(folder / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period")]
        if len(words) == 2 and all(word.isdigit() for word in words) and int(words[1]):
            limits.append(-(-int(words[0]) // int(words[1])))
    return min(limits, default=None)


def usable_cores() -> int:
    """Number of CPU cores that this process may use: what a job scheduler, taskset or a container leaves of them."""
    # the affinity is what is left to this process; cpu_count is the whole machine
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, _cgroup_cores() or cores))


def host_memory() -> tuple[int | None, int | None]:
    """Total and available memory of the host in bytes, None where unknown."""
    if sys.platform == "darwin":
        return int.from_bytes(_sysctl("hw.memsize"), "little") or None, None
    if sys.platform == "win32":
        status = c.create_string_buffer(struct.pack("=2I7Q", 64, *[0] * 8), 64)  # MEMORYSTATUSEX
        kernel32 = load("kernel32.dll")
        if kernel32 is None or not kernel32.GlobalMemoryStatusEx(status):
            return None, None
        return struct.unpack_from("=2Q", status, 8)
    fields = dict(re.findall(r"^(\w+):\s+(\d+) kB", read("/proc/meminfo"), re.MULTILINE))
    total, free = (1024 * int(fields[key]) if key in fields else None for key in ("MemTotal", "MemAvailable"))
    if total and (group := _cgroup_memory()):
        total, free = min(total, group[0]), min(total if free is None else free, group[1])
    return total, free


def peak_bytes() -> int | None:
    """Return the peak memory, in bytes, of this process or a child process; None if unknown."""
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    started = unit * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    status = Path("/proc/self/status")
    if not status.exists():
        return max(started, unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    # on Linux ru_maxrss includes the peak of the parent process at the time of the fork
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return max(started, 1024 * int(line.split()[1]))


def give_memory_back() -> None:
    """Return freed memory to the system: of 92 parcellations, the C library keeps most of a gigabyte."""
    with suppress(AttributeError, OSError, TypeError):  # only that of GNU has the function
        c.CDLL(None).malloc_trim(0)


def without(devices: list[Device], lack: str) -> list[Device]:
    """Return devices of which none is available for want of something, if ``lack`` says so."""
    if not lack:
        return devices
    return [replace(device, available=False, reason=lack) if device.available else device for device in devices]


@cache
def _linux_model() -> str:
    """Name of the CPU on Linux, whose file has a paragraph for each core."""
    match = re.search(r"^model name\s*:\s*(.+)$", read("/proc/cpuinfo"), re.MULTILINE)
    return match.group(1).strip() if match else ""


def cpu_devices(arch: str) -> list[Device]:
    if sys.platform == "darwin":
        name = text(_sysctl("machdep.cpu.brand_string"))
    elif sys.platform == "win32":
        name = os.environ.get("PROCESSOR_IDENTIFIER", "")
    else:
        name = _linux_model()
    host, memory = f"{platform.system()} {platform.release()}", host_memory()[0]
    return [Device(arch, 0, name or platform.machine(), host, memory, False, True, "", "cpu", cores=usable_cores())]


def metal_devices() -> list[Device]:
    if sys.platform != "darwin":
        raise MissingError("only on macOS: use another arch")
    if platform.machine() != "arm64":
        raise MissingError("needs Apple silicon and an arm64 Python: use cpu")
    name, system = text(_sysctl("machdep.cpu.brand_string")) or "Apple GPU", f"macOS {platform.mac_ver()[0]}"
    memory = host_memory()[0]
    return [Device("metal", 0, name, system, memory, False, True, "", "integrated", subgroup=32, float64=False)]
