"""Vulkan devices without Taichi's runtime: copies, the queue, memory, compiled kernels and their marks."""

import gc
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from commands import importing, python
from taichi_runs import digest
from taichi_runs import run as streamlines_of

from tistreamlines.backends.taichi import trial
from tistreamlines.backends.taichi.program import TaichiProgram
from tistreamlines.backends.taichi.trial import program_class
from tistreamlines.backends.vulkan import api, compiling, drives, gpu, spirv
from tistreamlines.backends.vulkan.program import SMALL, VulkanProgram
from tistreamlines.devices import choose, list_devices
from tistreamlines.devices.compilers import VARIABLE
from tistreamlines.errors import DeviceError, DeviceMemoryError, LostDeviceError
from tistreamlines.linker.lang import Ints, Reals, func, i32, real
from tistreamlines.linker.source import Source

PRESENT = any(one.arch == "vulkan" and one.available for one in list_devices())
VALIDATION = next(iter(Path("/usr/share/vulkan/explicit_layer.d").glob("VkLayer_khronos_validation.json")), None)
pytestmark = pytest.mark.skipif(
    not PRESENT or not drives("vulkan"), reason=f"no Vulkan device, or {VARIABLE} names a fork of Taichi"
)


@func
def tripled(item: i32, factor: real, a: Ints, out: Ints):
    """Three times a number, and the rounded factor."""
    out[item] = 3 * a[item] + i32(factor)


@func
def raised(item: i32, a: Reals, out: Reals):
    """A product and a sum that a compiler would make one operation of."""
    out[item] = a[item] * a[item] + 0.1


@pytest.fixture(scope="module")
def program():
    return VulkanProgram(choose("vulkan"), Source([tripled]), exact=True)


def test_forks_run_what_they_compile(monkeypatch):
    assert program_class(choose("vulkan")) is VulkanProgram
    monkeypatch.setattr(trial, "drives", lambda _: False)
    assert program_class(choose("vulkan")) is TaichiProgram
    assert not drives("cuda")


def test_devices_that_lack_something_are_left_to_taichi(monkeypatch):
    device = choose("vulkan")
    assert gpu.able(device)
    assert not gpu.able(replace(device, capability="Vulkan 1.1.130"))
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not gpu.able(replace(device, name="Apple's"))


@pytest.mark.parametrize("count", [1, SMALL // 4, SMALL // 4 + 1, 300_000])
def test_copies_of_all_sizes(program, count):
    values = np.arange(count, dtype=np.int32) - 7
    array = program.array(values)
    np.testing.assert_array_equal(program.host(array, count), values)
    np.testing.assert_array_equal(program.host(array, count // 2), values[: count // 2])
    program.upload(array, values[:1] + 50)
    assert program.host(array, 1) == [43]


def test_new_arrays_are_zeros(program):
    """Also in memory that held something else."""
    for _ in range(5):
        array = program.array(np.full(50_000, 7, np.int32))
        program.sync()
        del array
        assert not program.host(program.empty(50_000, "ints"), 50_000).any()


def test_what_is_copied_later_is_what_was_there(program):
    """Kernels that are launched after a copy was asked for do not change what it brings."""
    array, out = program.array(np.arange(1000, dtype=np.int32)), program.empty(1000, "ints")
    values = {"a": array, "out": out, "factor": 1.5}
    program.run("tripled", 1000, values)
    first = program.later(out, 1000)
    program.run("tripled", 1000, values | {"factor": 100.0})
    gathered = np.empty(1000, np.int32)
    finish = program.gather("tripled", 1000, values | {"factor": 7.0}, gathered, 1000)
    program.upload(array, np.zeros(1000, np.int32), beside=True)
    program.run("tripled", 1000, values)
    np.testing.assert_array_equal(program.host(out, 1000), 1)
    np.testing.assert_array_equal(first(), 3 * np.arange(1000) + 1)
    finish()
    np.testing.assert_array_equal(gathered, 3 * np.arange(1000) + 7)
    assert len(program.later(out, 0)()) == 0


def test_more_launches_than_the_queue_has_slots(program):
    a, out = program.array(np.zeros(3, np.int32)), program.empty(3, "ints")
    for turn in range(2 * gpu.SLOTS + 5):
        program.run("tripled", 3, {"a": a, "out": out, "factor": float(turn)})
    np.testing.assert_array_equal(program.host(out, 3), 2 * gpu.SLOTS + 4)
    assert program.kernel_seconds() == 0


def test_time_in_kernels():
    program = VulkanProgram(choose("vulkan"), Source([tripled]), exact=True, profile=True)
    a = program.array(np.zeros(3, np.int32))
    program.run("tripled", 3, {"a": a, "out": program.empty(3, "ints"), "factor": 1.0})
    assert program.kernel_seconds() > 0
    assert program.kernel_seconds() == 0


def test_arrays_that_are_let_go_are_freed_when_nothing_uses_them(program):
    device = gpu.opened(choose("vulkan"))
    destroyed, destroy = [], device._destroy
    device._destroy = lambda buffer: (destroyed.append(buffer.handle), destroy(buffer))
    try:
        out = program.empty(1000, "ints")
        handle = out.buffer.handle
        destroyed.clear()  # whose handles may be used again
        program.run("tripled", 1000, {"a": out, "out": out, "factor": 0.0})
        del out
        gc.collect()
        assert handle not in destroyed
        program.sync()
        program.empty(1, "ints")
        assert handle in destroyed
    finally:
        del device._destroy


def test_copies_use_the_same_memory_again(program):
    device, array = gpu.opened(choose("vulkan")), program.empty(100_000, "ints")
    program.host(array, 100_000)
    held = [buffer.handle for buffer in device._copies]
    for _ in range(5):
        program.host(array, 100_000)
    assert sorted(buffer.handle for buffer in device._copies) == sorted(held)


def test_a_copy_that_nobody_asks_for_is_freed(program):
    device, array = gpu.opened(choose("vulkan")), program.empty(100_000, "ints")
    later = program.later(array, 100_000)
    device._free()
    before = len(device._spent)
    del later
    gc.collect()
    assert len(device._spent) == before + 1


def test_idle_memory_of_copies_is_given_back(program, monkeypatch):
    monkeypatch.setattr(gpu, "IDLE_BYTES", 1000)
    program.host(program.empty(100_000, "ints"), 100_000)
    assert sum(buffer.size for buffer in gpu.opened(choose("vulkan"))._copies) <= 1000


def test_too_large_an_array_is_an_error_of_memory(program):
    with pytest.raises(DeviceMemoryError, match=r"the device has no memory for a chunk of seeds \(Vulkan error -"):
        program.empty(2**45, "ints")
    assert program.host(program.array(np.ones(2, np.int32)), 2).sum() == 2


@pytest.mark.parametrize(("code", "error"), [(-4, LostDeviceError), (-2, DeviceMemoryError), (-3, RuntimeError)])
def test_codes_are_errors(code, error):
    with pytest.raises(error, match=f"Vulkan error {code} of vkQueueSubmit"):
        api.checked(code, "vkQueueSubmit")
    api.checked(0, "vkQueueSubmit")


def breaking() -> None:
    """Launch, copy, free and track; then do what the specification forbids."""
    program = VulkanProgram(choose("vulkan"), Source([tripled]), exact=True)
    a, out = program.array(np.arange(100_000, dtype=np.int32)), program.empty(100_000, "ints")
    for _ in range(gpu.SLOTS + 5):
        program.run("tripled", 100_000, {"a": a, "out": out, "factor": 1.0})
        program.later(out, 5)()
    digest(list(streamlines_of("vulkan")))
    print("so far", flush=True)
    device = gpu.opened(choose("vulkan"))
    device.submit(lambda commands, _: device.vk["vkCmdFillBuffer"](commands, a.buffer.handle, 1, 4, 0))
    program.sync()


@pytest.mark.skipif(VALIDATION is None, reason="no validation layers (Debian: vulkan-validationlayers)")
def test_the_specification_is_kept(monkeypatch):
    monkeypatch.setenv("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation")
    done = python("-c", importing(__file__) + "test_vulkan.breaking()", timeout=100)
    before, after = done.stdout.split("so far")
    assert before.strip() == ""
    assert "VUID-vkCmdFillBuffer-dstOffset-00025" in after  # so the layers were there


def in_a_fork() -> str:
    """Say what comes of a device in a fork of the process that has opened it."""
    program = VulkanProgram(choose("vulkan"), Source([tripled]), exact=True)
    read, write = os.pipe()
    if os.fork() == 0:
        for call in (lambda: program.empty(3, "ints"), lambda: gpu.opened(choose("vulkan"))):
            try:
                call()
            except DeviceError as error:
                os.write(write, f"{error}\n".encode())
        os._exit(0)
    os.wait()
    return os.read(read, 1000).decode()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_fork_is_told():
    done = python("-c", importing(__file__) + "print(test_vulkan.in_a_fork())", timeout=100)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("this process was forked from one that uses a GPU") == 2


# -------------------------------------------------------------------------------------------------- compiled kernels
def operations(code: bytes) -> list[list[int]]:
    return list(spirv._instructions(np.frombuffer(code, "<u4").tolist()))


def codes(device, exact):
    """The kernels of ``raised`` as the device gets them."""
    program = VulkanProgram(device, Source([raised]), exact=exact)
    a = np.linspace(1, 2, 999).astype(np.float32)
    values = {"a": program.array(a), "out": program.empty(999, "reals")}
    program.run("raised", 999, values)
    return a, program.host(values["out"], 999).view(np.float32)


def test_reals_are_marked_where_they_have_no_guard(monkeypatch):
    """On hardware, every product and sum of an exact kernel has SPIR-V's NoContraction."""
    made, told = compiling.compiled, []

    def noted(*given):
        told.append((given, made(*given)))
        return told[-1][1]

    monkeypatch.setattr("tistreamlines.backends.vulkan.program.compiled", noted)
    for exact in (True, False):
        told.clear()
        gpu.opened(choose("vulkan")).kernels.clear()
        a, out = codes(replace(choose("vulkan"), software=False), exact)
        np.testing.assert_array_equal(out, a * a + np.float32(0.1))
        (text, _), kernels = told[0][0][1:], told[0][1]
        assert "_guard(a" not in text
        (task,) = [one for one in kernels["run_raised"]["tasks"] if one["threads"] > 1]
        listed = operations(compiling.base64.b64decode(task["code"]))
        marked = {one[1] for one in listed if one[0] & 0xFFFF == spirv.DECORATE and one[2] == spirv.NO_CONTRACTION}
        reals = {one[2] for one in listed if one[0] & 0xFFFF in spirv.REAL_OPERATIONS}
        assert len(reals) >= 2
        assert marked == (reals if exact else set())


def test_the_devices_test_passes_without_guards():
    """As on hardware, whose results the test compares with the CPU's."""
    trial._verdicts.clear()
    device = replace(choose("vulkan"), software=False)
    assert trial._faults(device, trial.team_kind(device.arch, device.subgroup), False) == ()


def test_damaged_kernels_are_compiled_again(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiled, calls = compiling._compiled_elsewhere, []
    monkeypatch.setattr(compiling, "_compiled_elsewhere", lambda *given: (calls.append(1), compiled(*given))[1])

    def count() -> int:
        gpu.opened(choose("vulkan")).kernels.clear()
        codes(choose("vulkan"), True)
        return len(calls)

    assert [count(), count()] == [1, 1]
    (path,) = (tmp_path / "tistreamlines" / "kernels").glob("vulkan-*.json")
    content = path.read_bytes()
    path.write_bytes(content[:32] + content[32:].replace(b"groups", b"grouqs", 1))
    assert [count(), count()] == [2, 2]
    path.write_bytes(content[:200])
    assert count() == 3
    assert path.read_bytes() == content


def test_what_cannot_be_compiled_is_one_line(monkeypatch):
    device = choose("vulkan")
    with pytest.raises(DeviceError, match=r"^vulkan: kernels cannot be compiled for .*: \w+Error: .*$") as error:
        compiling._compiled_elsewhere(device, "import taichi as ti\nraise ValueError('no such kernel')\n", True)
    assert "no such kernel" in str(error.value)
    assert "\n" not in str(error.value)


def test_taichi_is_not_imported_where_all_is_compiled():
    code = "test_vulkan.codes(test_vulkan.choose('vulkan'), True)\nprint()\n"
    code += "import json; print(json.dumps([name for name in ('taichi', 'numba') if name in sys.modules]))"
    for _ in range(2):
        done = python("-c", importing(__file__) + code, timeout=100)
        assert done.returncode == 0, done.stderr[-3000:]
    assert "taichi" not in json.loads(done.stdout.splitlines()[-1])
