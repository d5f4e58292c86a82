"""AMD's devices: what HIP says, with a made-up library, and what is missing to compile for them."""

import shutil

import pytest

from tistreamlines import devices
from tistreamlines.devices import alone, amd, choose, choose_several, free_memory, list_devices
from tistreamlines.devices.compilers import Compiler
from tistreamlines.errors import DeviceError


class Name:
    """hipGetErrorName, whose type of result is set."""

    restype = None

    def __call__(self, code):
        return b"hipErrorFake"


class FakeHip:
    """The calls of libamdhip64.so that are used, with chosen answers."""

    def __init__(self, init=0, count=2, device_code=0, memory_code=0, place=1160):
        self.init, self.count, self.device_code, self.memory_code = init, count, device_code, memory_code
        self.hipGetErrorName, self.current = Name(), 0
        setattr(self, "hipGetDevicePropertiesR0600" if place == 1160 else "hipGetDeviceProperties", self.properties)
        self.place = place

    def hipInit(self, flags):
        return self.init

    def hipGetDeviceCount(self, pointer):
        pointer._obj.value = self.count
        return 0 if self.count else 100

    def hipRuntimeGetVersion(self, pointer):
        pointer._obj.value = 60_342_134
        return 0

    def hipDeviceGet(self, pointer, index):
        pointer._obj.value = index
        return self.device_code

    def hipDeviceGetName(self, buffer, size, handle):
        buffer.value = b"AMD GPU %d" % handle.value
        return 0

    def hipDeviceTotalMem(self, pointer, handle):
        pointer._obj.value = 10_000_000_000
        return self.memory_code

    def hipDeviceGetAttribute(self, pointer, key, handle):
        pointer._obj.value = {16: handle.value, 87: 64}[key]
        return 0

    def properties(self, buffer, index):
        buffer[self.place : self.place + 22] = b"gfx90a:sramecc+:xnack-"
        return 0

    def hipGetDevice(self, pointer):
        pointer._obj.value = self.current
        return 0

    def hipSetDevice(self, index):
        self.current = getattr(index, "value", index)
        return 0

    def hipMemGetInfo(self, free, total):
        free._obj.value, total._obj.value = 1_000_000_000 * (self.current + 1), 10_000_000_000
        return self.memory_code


@pytest.fixture
def use(monkeypatch):
    """Let HIP's library be a made-up one, beside a compiler and its linker."""

    def put(library, names=(amd.LIBRARY,), compiler=True, linker="/usr/bin/ld.lld"):
        monkeypatch.setattr(amd.sys, "platform", "linux")
        monkeypatch.setattr(amd, "load", lambda name: library if name in names else None)
        monkeypatch.setattr(Compiler, "installed", property(lambda this: compiler and this.name == "quadrants"))
        monkeypatch.setattr(amd, "LINKERS", ())
        monkeypatch.setattr(amd.shutil, "which", lambda name: linker if name == "ld.lld" else None)
        monkeypatch.setattr(amd, "_linker_refusal", lambda name: "unknown version" if name == "ld.lld-14" else None)
        monkeypatch.setattr(amd, "read", lambda path: "")
        for name in ("ROCM_PATH", *amd.HIDING):
            monkeypatch.delenv(name, raising=False)

    return put


@pytest.mark.parametrize("place", [1160, 396])
def test_devices_are_read(use, place):
    """The name of the architecture lies at another place before ROCm 6."""
    use(FakeHip(place=place))
    first, second = devices._probe("amdgpu")
    assert (first.index, second.index, second.name) == (0, 1, "AMD GPU 1")
    assert (first.capability, first.subgroup, first.driver) == ("gfx90a", 64, "HIP 6.3.42134")
    assert (first.kind, second.kind, first.memory_bytes) == ("discrete", "integrated", 10_000_000_000)
    assert choose("amdgpu") == first


def test_free_memory_is_that_of_the_device(use):
    use(library := FakeHip())
    assert [free_memory(device) for device in devices._probe("amdgpu")] == [1_000_000_000, 2_000_000_000]
    assert library.current == 0  # the caller's
    library.memory_code = 1
    assert free_memory(choose("amdgpu")) is None  # nor is the total known


@pytest.mark.parametrize(
    ("library", "reason"),
    [
        (FakeHip(count=0), "no AMD GPU found: check that rocminfo lists it"),
        (FakeHip(init=100), "no AMD GPU found"),
        (FakeHip(init=3), r"HIP does not start \(hipErrorFake, 3\)"),
        (FakeHip(count=1, device_code=101), r"does not answer \(hipErrorFake, 101\)"),
        (object(), "too old"),
        (None, r"no HIP \(libamdhip64.so not found\): install ROCm, or use another arch"),
    ],
)
def test_failures_are_explained(use, library, reason):
    use(library)
    with pytest.raises(DeviceError, match=f"arch 'amdgpu' cannot run here: .*{reason}"):
        choose("amdgpu")


def test_devices_may_be_hidden(use, monkeypatch):
    use(FakeHip(count=0))
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "7")
    with pytest.raises(DeviceError, match="HIP_VISIBLE_DEVICES='7' shows no AMD GPU"):
        choose("amdgpu")


def test_a_library_by_another_name_does_not_serve(use):
    use(FakeHip(), names=("libamdhip64.so.6",))
    with pytest.raises(DeviceError, match=r"libamdhip64\.so\.6 is here, but Quadrants loads libamdhip64\.so: install"):
        choose("amdgpu")


def test_only_on_linux(use, monkeypatch):
    use(FakeHip())
    monkeypatch.setattr(amd.sys, "platform", "win32")
    with pytest.raises(DeviceError, match="only on Linux"):
        choose("amdgpu")


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        ({"compiler": False}, "no compiler for it is installed: pip install quadrants; or use another arch"),
        ({"linker": None}, r"no linker for it \(ld\.lld, in ROCm or on the PATH\): install ROCm's or lld 19"),
        ({"linker": "ld.lld-14"}, r"its linker ld\.lld-14 is too old \(unknown version\): install ROCm's or lld 19"),
    ],
)
def test_auto_goes_on_where_nothing_compiles_for_it(use, monkeypatch, missing, reason):
    use(FakeHip(), **missing)
    listed = [device for device in list_devices() if device.arch == "amdgpu"]
    assert [(device.name, device.available) for device in listed] == [("AMD GPU 0", False), ("AMD GPU 1", False)]
    with pytest.raises(DeviceError, match=reason):
        choose("amdgpu")
    assert choose("auto").arch != "amdgpu"


def test_the_linker_may_be_rocms(use, monkeypatch, tmp_path):
    use(FakeHip(), linker=None)
    (tmp_path / "llvm/bin").mkdir(parents=True)
    (tmp_path / "llvm/bin/ld.lld").touch()
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    assert choose("amdgpu").available


@pytest.mark.parametrize(("name", "able"), [("ld.lld-14", False), ("ld.lld-19", True)])
def test_linkers_are_tried(name, able):
    """The one that Debian 12 installs as lld does not know what Quadrants makes."""
    if (linker := shutil.which(name)) is None:
        pytest.skip(f"no {name} (Debian: {name.replace('ld.', '')})")
    assert amd._linker_refusal(linker) == (None if able else r"unknown abi version: \x04")


def test_a_linker_that_does_not_start_is_refused(tmp_path):
    linker = tmp_path / "ld.lld"
    linker.write_text("#!/bin/sh\nexit 3\n")
    linker.chmod(0o700)
    assert amd._linker_refusal(str(linker)) == "exit code 3"


def test_several_are_told_apart(use, monkeypatch):
    use(FakeHip(count=2))
    first, second = choose_several("amdgpu", "all")
    assert [alone(device)["HIP_VISIBLE_DEVICES"] for device in (first, second)] == ["0", "1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    assert alone(second)["HIP_VISIBLE_DEVICES"] == "5"
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "2,4")
    assert alone(second)["HIP_VISIBLE_DEVICES"] == "4"
