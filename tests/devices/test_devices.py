"""Which devices are found, which is chosen, and what is said where there is none."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from places import LAVAPIPE

from tistreamlines import devices
from tistreamlines.devices import ARCHS, Device, choose, free_memory, list_devices, vulkan_index
from tistreamlines.devices import amd as _probe_amd
from tistreamlines.devices import gpu as _probe_gpu
from tistreamlines.devices import host as _probe_host
from tistreamlines.devices.compilers import VARIABLE, Compiler
from tistreamlines.errors import DeviceError

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads Linux' /proc")
HARDWARE = Device("vulkan", 1, "GPU", "1.0", 8 << 30, False, True, "", "integrated")
SOFTWARE = Device("vulkan", 0, "llvmpipe", "1.0", 8 << 30, True, True, "", "cpu")


@pytest.fixture
def no_libraries(monkeypatch):
    """A machine on which no driver library can be loaded."""
    for module in (_probe_amd, _probe_gpu, _probe_host):
        monkeypatch.setattr(module, "load", lambda *names: None)


class FakeCuda:
    """The calls of libcuda.so.1 that are used, with a chosen answer of cuInit and number of devices."""

    def __init__(self, init=0, count=0, device_code=0):
        self.init, self.count, self.device_code = init, count, device_code

    def cuInit(self, flags):
        return self.init

    def cuDeviceGetCount(self, pointer):
        pointer._obj.value = self.count
        return 0

    def cuGetErrorName(self, code, pointer):
        pointer._obj.value = b"CUDA_ERROR_FAKE"
        return 0

    def cuDriverGetVersion(self, pointer):
        pointer._obj.value = 12040
        return 0

    def cuDeviceGet(self, pointer, index):
        pointer._obj.value = index
        return self.device_code

    def cuDeviceGetName(self, buffer, size, handle):
        buffer.value = b"Fake GPU %d" % handle.value
        return 0

    def cuDeviceTotalMem_v2(self, pointer, handle):
        pointer._obj.value = 10_000_000_000
        return 0

    def cuDeviceGetAttribute(self, pointer, key, handle):
        pointer._obj.value = {75: 9, 76: 0, 10: 32, 18: 0}[key]
        return 0

    def cuDeviceGetPCIBusId(self, buffer, size, handle):
        return 1


def use_cuda(monkeypatch, library):
    """Let every name of NVIDIA's driver load `library`, and nothing else."""
    monkeypatch.setattr(_probe_gpu.sys, "platform", "linux")
    monkeypatch.setattr(_probe_gpu, "load", lambda *names: library if "libcuda.so.1" in names else None)


@pytest.mark.parametrize(("queues", "kept"), [(None, "2"), ("8", "8")])
def test_the_driver_begins_beside_with_few_queues_unless_the_user_sets_more(monkeypatch, queues, kept):
    variable, begun = "CUDA_DEVICE_MAX_CONNECTIONS", []
    monkeypatch.setenv(variable, "")  # so that it is restored
    monkeypatch.delenv(variable) if queues is None else monkeypatch.setenv(variable, queues)

    class Began(FakeCuda):
        def cuInit(self, flags):
            begun.append(("driver", os.environ[variable]))
            return 0

        def nvmlInit_v2(self):
            begun.append(("NVML", os.environ[variable]))
            return 0

    monkeypatch.setattr(_probe_gpu, "load", lambda name: Began())
    monkeypatch.setattr(_probe_gpu.sys, "platform", "linux")
    monkeypatch.setattr(_probe_gpu.Thread, "start", lambda thread: thread.run())
    _probe_gpu.begin_cuda()
    assert begun == [("driver", kept)]
    begun.clear()
    monkeypatch.setattr(_probe_gpu, "load", lambda name: Began(count=1))
    _probe_gpu.begin_cuda()
    assert begun == [("driver", kept), ("NVML", kept)]


def test_cpu_is_always_available():
    (cpu,) = (d for d in list_devices() if d.arch == "cpu")
    assert cpu.available and not cpu.software and cpu.reason == "" and cpu.name
    assert 1 <= cpu.cores <= os.cpu_count()
    assert cpu.memory_bytes > 1 << 28
    assert choose("cpu") == cpu


def test_every_arch_is_listed_and_explained():
    listed = list_devices()
    assert [arch for arch in ARCHS if any(d.arch == arch for d in listed)] == list(ARCHS)
    for device in listed:
        assert device.available or (device.reason and (device.name or device.index == -1)), device
        assert "\n" not in device.reason


def test_devices_go_through_json():
    for device in list_devices():
        assert Device(**json.loads(json.dumps(device.as_dict()))) == device


@pytest.mark.skipif(not LAVAPIPE, reason="Mesa's software Vulkan (lavapipe) is not installed")
@pytest.mark.skipif("VK_ICD_FILENAMES" in os.environ or "VK_DRIVER_FILES" in os.environ, reason="drivers restricted")
def test_lavapipe_is_a_software_device():
    if _probe_host.load("libvulkan.so.1") is None:
        pytest.skip("no Vulkan loader (libvulkan.so.1)")
    listed = [d for d in list_devices() if d.arch == "vulkan"]
    assert [d.index for d in listed] == list(range(len(listed)))
    (lavapipe,) = (d for d in listed if d.name.startswith("llvmpipe"))
    assert lavapipe.software and lavapipe.available and lavapipe.kind == "cpu"
    assert lavapipe.reason
    assert lavapipe.subgroup in (4, 8, 16)
    assert lavapipe.capability.startswith("Vulkan 1.")
    assert "Mesa" in lavapipe.driver
    assert lavapipe.memory_bytes > 1 << 28
    assert 0 < free_memory(lavapipe) <= lavapipe.memory_bytes
    assert vulkan_index(lavapipe) == lavapipe.index
    if all(d.software for d in listed):
        assert choose("vulkan") == listed[0]
        assert lavapipe.reason == "software device only: name it with --arch vulkan"
    else:
        assert not choose("vulkan").software


def test_auto_never_takes_software():
    assert not choose("auto").software
    assert not choose().software


def test_auto_falls_to_cpu_with_software_vulkan_only(monkeypatch, no_libraries):
    monkeypatch.setattr(devices, "vulkan_devices", lambda: [SOFTWARE])
    monkeypatch.setattr(devices, "metal_devices", lambda: [_probe_host.missing("metal", "none")])
    assert choose("auto").arch == "cpu"
    assert choose("vulkan") == SOFTWARE


def test_order_of_auto(monkeypatch):
    monkeypatch.setattr(Compiler, "installed", True)
    none, gpus = [_probe_host.missing("any", "none")], ARCHS[:-1]
    assert ARCHS == ("metal", "cuda", "amdgpu", "vulkan", "cpu")
    for first, expected in enumerate(ARCHS):
        for place, arch in enumerate(gpus):
            listed = none if place < first else [replace(HARDWARE, arch=arch)]
            monkeypatch.setattr(devices, f"{arch}_devices", lambda listed=listed: listed)
        assert choose("auto").arch == expected


def test_auto_goes_on_where_no_compiler_is_installed(monkeypatch):
    """As far as the CPU; a GPU that is named is one line."""
    monkeypatch.delenv(VARIABLE, raising=False)
    for arch in ARCHS[:-1]:
        monkeypatch.setattr(devices, f"{arch}_devices", lambda arch=arch: [replace(HARDWARE, arch=arch)])
    monkeypatch.setattr(Compiler, "installed", property(lambda compiler: compiler.name == "forge"))
    assert choose("auto").arch == "cuda"
    with pytest.raises(DeviceError, match="'metal' cannot run here: no compiler for it is installed: pip"):
        choose("metal")
    monkeypatch.setattr(Compiler, "installed", False)
    assert choose("auto").arch == "cpu"
    monkeypatch.setenv(VARIABLE, "forge")
    with pytest.raises(DeviceError, match="'metal' cannot run here: Taichi Forge does not compile for it"):
        choose("metal")


def test_vulkan_prefers_hardware_then_discrete(monkeypatch):
    discrete = replace(HARDWARE, index=2, kind="discrete")
    monkeypatch.setattr(devices, "vulkan_devices", lambda: [SOFTWARE, HARDWARE])
    assert vulkan_index(choose("vulkan")) == 1
    monkeypatch.setattr(devices, "vulkan_devices", lambda: [SOFTWARE, HARDWARE, discrete])
    assert vulkan_index(choose("vulkan")) == 2


@pytest.mark.parametrize(
    ("named", "place"), [("", 1), ("0", 0), ("1", 1), ("2", 2), ("3", None), ("-1", None), ("first", None)]
)
def test_the_users_vulkan_device_is_taken_or_refused(monkeypatch, named, place):
    """Taichi follows TI_VISIBLE_DEVICE: name, memory and subgroups have to be those of the same device."""
    monkeypatch.setenv("TI_VISIBLE_DEVICE", named)
    listed = [SOFTWARE, HARDWARE, replace(HARDWARE, index=2)]
    monkeypatch.setattr(devices, "vulkan_devices", lambda: _probe_gpu._visible(listed))
    if place is None:
        with pytest.raises(DeviceError, match=f"TI_VISIBLE_DEVICE='{named}' is no number .* give one of 0, 1, 2"):
            choose("vulkan")
        return
    assert choose("vulkan") == listed[place]
    hidden = [device for device in list_devices() if device.arch == "vulkan" and not device.available]
    assert [device.index for device in hidden] == [k for k in range(3) if named not in ("", str(k))]
    assert all(f"TI_VISIBLE_DEVICE={named} names another device" in device.reason for device in hidden)


def test_a_users_software_device_is_not_taken_for_hardware(monkeypatch, no_libraries):
    monkeypatch.setenv("TI_VISIBLE_DEVICE", "0")
    monkeypatch.setattr(devices, "vulkan_devices", lambda: _probe_gpu._visible([SOFTWARE, HARDWARE]))
    monkeypatch.setattr(devices, "metal_devices", lambda: [_probe_host.missing("metal", "none")])
    assert choose("auto").arch == "cpu"


def test_missing_libraries_are_named(no_libraries):
    if sys.platform == "linux":
        with pytest.raises(DeviceError, match=r"no Vulkan loader \(libvulkan.so.1\): install"):
            choose("vulkan")
    with pytest.raises(DeviceError, match=r"no NVIDIA driver .* not found.*: install"):
        choose("cuda")


@pytest.mark.skipif(sys.platform == "darwin", reason="Metal may be here")
def test_metal_is_only_on_macos():
    with pytest.raises(DeviceError, match="'metal' cannot run here: only on macOS"):
        choose("metal")


def test_cuda_asked_for_without_nvidia_raises():
    if any(d.available for d in list_devices() if d.arch == "cuda"):
        pytest.skip("an NVIDIA GPU is here")
    with pytest.raises(DeviceError, match=r"'cuda' cannot run here: .*NVIDIA"):
        choose("cuda")


def test_unknown_arch_lists_the_names():
    with pytest.raises(DeviceError, match="unknown arch 'opencl': use one of auto, metal, cuda, amdgpu, vulkan, cpu"):
        choose("opencl")


def test_cuda_devices_are_read(monkeypatch):
    use_cuda(monkeypatch, FakeCuda(count=2))
    first, second = devices._probe("cuda")
    assert (first.index, second.index, second.name) == (0, 1, "Fake GPU 1")
    assert (first.capability, first.subgroup, first.kind, first.driver) == ("sm_90", 32, "discrete", "(CUDA 12.4)")
    assert choose("cuda") == first
    assert free_memory(first) == 9_000_000_000  # nobody to ask: 0.9 of the total


@pytest.mark.parametrize(
    ("library", "visible", "reason"),
    [
        (FakeCuda(init=100), None, "no NVIDIA GPU found"),
        (FakeCuda(init=100), "-1", "CUDA_VISIBLE_DEVICES='-1' shows no NVIDIA GPU"),
        (FakeCuda(count=0), None, "no NVIDIA GPU found"),
        (FakeCuda(init=3), None, "was forked from one that uses CUDA: make it with"),
        (FakeCuda(init=803), None, r"does not start \(CUDA_ERROR_FAKE, 803\)"),
        (FakeCuda(count=1, device_code=101), None, r"does not answer \(error 101\)"),
        (object(), None, "too old"),
    ],
)
def test_cuda_failures_are_explained(monkeypatch, library, visible, reason):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    use_cuda(monkeypatch, library)
    with pytest.raises(DeviceError, match=reason):
        choose("cuda")


@LINUX
@pytest.mark.skipif(_probe_host.load("libvulkan.so.1") is None, reason="no Vulkan loader (libvulkan.so.1)")
def test_vulkan_loader_without_a_driver():
    # A fresh process, since the loader may read its environment once.
    code = "from tistreamlines.devices import choose; choose('vulkan')"
    env = {**os.environ, "VK_ICD_FILENAMES": os.devnull, "VK_DRIVER_FILES": os.devnull}
    result = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert result.returncode == 1
    assert "'vulkan' cannot run here: the Vulkan loader finds no driver" in result.stderr


def test_vulkan_index_refuses_others():
    with pytest.raises(DeviceError, match="no usable Vulkan device"):
        vulkan_index(choose("cpu"))


def test_free_memory():
    cpu = choose("cpu")
    free = free_memory(cpu)
    assert free is None if sys.platform == "darwin" else 0 < free <= cpu.memory_bytes
    assert free_memory(_probe_host.missing("cuda", "none")) is None


@LINUX
@pytest.mark.parametrize(
    ("groups", "files"),
    [
        ("0::/job/step", {"memory.max": "4000\n", "memory.stat": "anon 1000\nfile 2500\n"}),
        ("4:memory:/job/step\n0::/", {"memory.limit_in_bytes": "4000\n", "memory.stat": "rss 9\ntotal_rss 1000\n"}),
    ],
)
def test_memory_of_a_job_is_its_limit(monkeypatch, groups, files):
    root = "/sys/fs/cgroup" + ("/memory" if "memory.limit_in_bytes" in files else "")
    tree = {f"{root}/job/{name}": value for name, value in files.items()}  # the parent limits, not the step
    tree |= {"/proc/self/cgroup": groups, "/proc/meminfo": "MemTotal: 8 kB\nMemAvailable: 7 kB\n"}
    tree |= {f"{root}/job/step/memory.max": "max\n"}
    monkeypatch.setattr(_probe_host, "read", lambda path: tree.get(str(path), ""))
    assert _probe_host.host_memory() == (4000, 3000)


@LINUX
@pytest.mark.parametrize(
    ("groups", "files", "cores"),
    [
        ("0::/job/step", {"/job/step/cpu.max": "max 100000\n", "/job/cpu.max": "150000 100000\n"}, 2),
        ("0::/job", {"/job/cpu.max": "20000 100000\n"}, 1),
        ("0::/job", {"/job/cpu.max": "9900000 100000\n"}, 6),
        ("0::/", {}, 6),
        ("3:cpu,cpuacct:/job\n0::/", {"/cpu,cpuacct/job/cpu.cfs_quota_us": "300000\n"}, 3),
        ("3:cpu:/job/step\n0::/", {"/cpu/job/cpu.cfs_quota_us": "300000\n", "/cpu/job/step/cpu.cfs_quota_us": "-1"}, 3),
        ("3:cpuset:/job", {"/cpu/job/cpu.cfs_quota_us": "300000\n"}, 6),
    ],
)
def test_cores_are_those_that_a_job_may_use(monkeypatch, groups, files, cores):
    tree = {"/proc/self/cgroup": groups} | {f"/sys/fs/cgroup{name}": value for name, value in files.items()}
    tree |= {name.replace("quota", "period"): "100000\n" for name in tree if "quota" in name}
    monkeypatch.setattr(_probe_host, "read", lambda path: tree.get(str(path), ""))
    monkeypatch.setattr(_probe_host, "_cgroup_cores", _probe_host._cgroup_cores.__wrapped__)
    monkeypatch.setattr(_probe_host.os, "sched_getaffinity", lambda _: set(range(6)))
    assert _probe_host.usable_cores() == cores
    assert choose("cpu").cores == cores


def test_nothing_counts_the_whole_machine():
    """What asks for a number of threads asks for the cores that are left to this process."""
    package = Path(_probe_host.__file__).parents[1]
    asking = {path.name for path in package.rglob("*.py") if "cpu_count" in path.read_text(encoding="utf-8")}
    assert asking == {"host.py"}


def test_metal_on_apple_silicon(monkeypatch):
    answers = {"machdep.cpu.brand_string": b"Apple M2\0", "hw.memsize": (16 << 30).to_bytes(8, "little")}
    monkeypatch.setattr(_probe_host.sys, "platform", "darwin")
    monkeypatch.setattr(_probe_host.platform, "machine", lambda: "arm64")
    monkeypatch.setattr(_probe_host, "_sysctl", answers.get)
    device = choose("metal")
    assert (device.name, device.memory_bytes, device.available) == ("Apple M2", 16 << 30, True)
    assert free_memory(device) is None
    monkeypatch.setattr(_probe_host.platform, "machine", lambda: "x86_64")
    with pytest.raises(DeviceError, match="needs Apple silicon"):
        choose("metal")


def test_import_is_light():
    code = (
        "import sys; from tistreamlines.devices import list_devices; list_devices()\n"
        "print(sorted({'taichi', 'numba', 'dipy', 'scipy'} & set(sys.modules)))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
