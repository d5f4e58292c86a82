"""Vulkan devices without Taichi's runtime: copies, the queue, memory, compiled kernels and their marks."""

import sys
from base64 import b64decode
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from commands import importing, python
from driven_kernels import codes, tripled
from taichi_runs import digest
from taichi_runs import run as streamlines_of

from tistreamlines.backends.driven import drives
from tistreamlines.backends.driven import program as driven
from tistreamlines.backends.driven.opened import opened
from tistreamlines.backends.driven.program import DrivenProgram
from tistreamlines.backends.taichi import trial
from tistreamlines.backends.taichi.program import TaichiProgram
from tistreamlines.backends.taichi.trial import program_class
from tistreamlines.backends.vulkan import api, gpu, spirv
from tistreamlines.devices import choose, list_devices
from tistreamlines.devices.compilers import VARIABLE
from tistreamlines.errors import DeviceMemoryError, LostDeviceError
from tistreamlines.linker.source import Source

PRESENT = any(one.arch == "vulkan" and one.available for one in list_devices())
VALIDATION = next(iter(Path("/usr/share/vulkan/explicit_layer.d").glob("VkLayer_khronos_validation.json")), None)
pytestmark = pytest.mark.skipif(
    not PRESENT or not drives("vulkan"), reason=f"no Vulkan device, or {VARIABLE} names a fork of Taichi"
)


@pytest.fixture(scope="module")
def program():
    return DrivenProgram(choose("vulkan"), Source([tripled]), exact=True)


def test_forks_run_what_they_compile(monkeypatch):
    assert program_class(choose("vulkan")) is DrivenProgram
    monkeypatch.setattr(trial, "drives", lambda _: False)
    assert program_class(choose("vulkan")) is TaichiProgram
    assert not drives("metal")


def test_devices_that_lack_something_are_left_to_taichi(monkeypatch):
    device = choose("vulkan")
    assert gpu.able(device)
    assert not gpu.able(replace(device, capability="Vulkan 1.1.130"))
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not gpu.able(replace(device, name="Apple's"))


def test_more_launches_than_the_queue_has_slots(program):
    a, out = program.array(np.zeros(3, np.int32)), program.empty(3, "ints")
    for turn in range(2 * gpu.SLOTS + 5):
        program.run("tripled", 3, {"a": a, "out": out, "factor": float(turn)})
    np.testing.assert_array_equal(program.host(out, 3), 2 * gpu.SLOTS + 4)
    assert program.kernel_seconds() == 0


@pytest.mark.parametrize(("code", "error"), [(-4, LostDeviceError), (-2, DeviceMemoryError), (-3, RuntimeError)])
def test_codes_are_errors(code, error):
    with pytest.raises(error, match=f"Vulkan error {code} of vkQueueSubmit"):
        api.checked(code, "vkQueueSubmit")
    api.checked(0, "vkQueueSubmit")


def breaking() -> None:
    """Launch, copy, free and track; then do what the specification forbids."""
    program = DrivenProgram(choose("vulkan"), Source([tripled]), exact=True)
    a, out = program.array(np.arange(100_000, dtype=np.int32)), program.empty(100_000, "ints")
    for _ in range(gpu.SLOTS + 5):
        program.run("tripled", 100_000, {"a": a, "out": out, "factor": 1.0})
        program.later(out, 5).wait()
    digest(list(streamlines_of("vulkan")))
    print("so far", flush=True)
    device = opened(choose("vulkan"))
    device.submit(lambda commands, _: device.vk["vkCmdFillBuffer"](commands, a.buffer.handle, 1, 4, 0))
    program.sync()


@pytest.mark.skipif(VALIDATION is None, reason="no validation layers (Debian: vulkan-validationlayers)")
def test_the_specification_is_kept(monkeypatch):
    monkeypatch.setenv("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation")
    done = python("-c", importing(__file__) + "test_vulkan.breaking()", timeout=100)
    before, after = done.stdout.split("so far")
    assert before.strip() == ""
    assert "VUID-vkCmdFillBuffer-dstOffset-00025" in after  # so the layers were there


# -------------------------------------------------------------------------------------------------- compiled kernels
def operations(code: bytes) -> list[list[int]]:
    return list(spirv._instructions(np.frombuffer(code, "<u4").tolist()))


def test_reals_are_marked_where_they_have_no_guard(monkeypatch):
    """On hardware, every product and sum of an exact kernel has SPIR-V's NoContraction."""
    made, told = driven.compiled, []

    def noted(*given):
        told.append((given, made(*given)))
        return told[-1][1]

    monkeypatch.setattr(driven, "compiled", noted)
    for exact in (True, False):
        told.clear()
        opened(choose("vulkan")).kernels.clear()
        a, out = codes(replace(choose("vulkan"), software=False), exact)
        np.testing.assert_array_equal(out, a * a + np.float32(0.1))
        (text, _), kernels = told[0][0][1:], told[0][1]
        assert "_guard(a" not in text
        (task,) = [one for one in kernels["run_raised"]["tasks"] if one["threads"] > 1]
        listed = operations(b64decode(task["code"]))
        marked = {one[1] for one in listed if one[0] & 0xFFFF == spirv.DECORATE and one[2] == spirv.NO_CONTRACTION}
        reals = {one[2] for one in listed if one[0] & 0xFFFF in spirv.REAL_OPERATIONS}
        assert len(reals) >= 2
        assert marked == (reals if exact else set())


def test_the_devices_test_passes_without_guards():
    """As on hardware, whose results the test compares with the CPU's."""
    trial._verdicts.clear()
    device = replace(choose("vulkan"), software=False)
    assert trial._faults(device, trial.team_kind(device.arch, device.subgroup), False) == ()


