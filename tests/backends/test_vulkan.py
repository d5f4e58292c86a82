"""Vulkan devices without Taichi's runtime: copies, the queue, memory, compiled kernels and their marks."""

import json
import shutil
import subprocess
import sys
from base64 import b64decode
from collections import Counter
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from commands import importing, python
from driven_kernels import codes, tripled
from present import PRESENT
from taichi_runs import digest
from taichi_runs import run as streamlines_of

from tistreamlines.backends.driven import program as driven
from tistreamlines.backends.driven.ahead import kernels_of
from tistreamlines.backends.driven.program import DrivenProgram, drives, opened
from tistreamlines.backends.taichi import trial
from tistreamlines.backends.taichi.linking import linked_for
from tistreamlines.backends.taichi.program import TaichiProgram
from tistreamlines.backends.taichi.trial import program_class
from tistreamlines.backends.vulkan import gpu, spirv
from tistreamlines.backends.vulkan.spirv import (
    CONSTANT,
    DECORATE,
    FUNCTION,
    Module,
    instruction,
    number_of,
)
from tistreamlines.devices import choose
from tistreamlines.devices.compilers import VARIABLE
from tistreamlines.errors import DeviceMemoryError, LostDeviceError
from tistreamlines.linker.parts import Source

LOADED = 61  # what was read of memory
VALIDATOR = shutil.which("spirv-val")
VALIDATION = next(iter(Path("/usr/share/vulkan/explicit_layer.d").glob("VkLayer_khronos_validation.json")), None)
pytestmark = pytest.mark.skipif(
    "vulkan" not in PRESENT or not drives("vulkan"), reason=f"no Vulkan device, or {VARIABLE} names a fork of Taichi"
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


@pytest.mark.parametrize(("code", "error"), [(-4, LostDeviceError), (-2, DeviceMemoryError), (-3, RuntimeError)])
def test_codes_are_errors(code, error, monkeypatch):
    device = opened(choose("vulkan"))
    monkeypatch.setitem(device.functions, "vkQueueSubmit", int)
    with pytest.raises(error, match=f"Vulkan error {code} of vkQueueSubmit"):
        device.call("vkQueueSubmit", code)
    device.call("vkQueueSubmit", 0)


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
    device.submit(lambda commands, _: device.functions["vkCmdFillBuffer"](commands, a.buffer.handle, 1, 4, 0))
    program.sync()


@pytest.mark.nightly
@pytest.mark.skipif(VALIDATION is None, reason="no validation layers (Debian: vulkan-validationlayers)")
def test_the_specification_is_kept(monkeypatch):
    """Checked call by call, which takes ten times as long; the calls themselves are made by day, too."""
    monkeypatch.setenv("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation")
    done = python("-c", importing(__file__) + "test_vulkan.breaking()", timeout=100)
    before, after = done.stdout.split("so far")
    assert before.strip() == ""
    assert "VUID-vkCmdFillBuffer-dstOffset-00025" in after  # so the layers were there


# -------------------------------------------------------------------------------------------------- compiled kernels
def long_tasks(kernel: Future[bytes]) -> list[Module]:
    """The SPIR-V of a kernel's tasks of many threads."""
    return [Module(b64decode(task["code"])) for task in json.loads(kernel.result())["tasks"] if task["threads"] > 1]


@pytest.fixture
def requests(monkeypatch):
    """What programs have compiled: what was asked for, and the kernels."""
    kernels_of, requests = driven.kernels_of, []

    def noted(*arguments):
        requests.append((arguments, kernels_of(*arguments)))
        return requests[-1][1]

    monkeypatch.setattr(driven, "kernels_of", noted)
    opened(choose("vulkan")).kernels.clear()
    return requests


@pytest.mark.parametrize("exact", [True, False])
def test_reals_are_marked_where_they_have_no_guard(requests, exact):
    """On hardware, every product and sum of an exact kernel has SPIR-V's NoContraction."""
    a, out = codes(replace(choose("vulkan"), software=False), exact)
    if exact:  # else devices may fuse them
        np.testing.assert_array_equal(out, a * a + np.float32(0.1))
    (_, text, _, _), kernels = requests[0]
    assert "_guard(a" not in text
    (task,) = long_tasks(kernels["raised"])
    marked = {entry[1] for entry in task.all(DECORATE) if entry[2] == spirv.NO_CONTRACTION}
    reals = {entry[2] for entry in task.all(*spirv.REAL_OPERATIONS)}
    assert len(reals) >= 2
    assert marked == (reals if exact else set())


def test_arrays_are_read_by_indices(requests):
    """All addresses that a kernel makes are the starts of its arrays."""
    codes(choose("vulkan"), True)
    (task,) = long_tasks(requests[0][1]["raised"])
    starts = {entry[3] for entry in task.all(spirv.TO_POINTER)}
    assert len(starts) >= 2
    assert starts <= set(task.results(LOADED))
    assert len(task.all(spirv.ELEMENT)) == len(task.all(spirv.TO_POINTER))


def test_teams_of_hardware_shuffle(tmp_path):
    """A minimum and a maximum of reals take five shuffles each."""
    device = replace(choose("vulkan"), software=False, subgroup=32)
    text, *_ = linked_for(device, trial.SOURCE, True, "subgroup", True, guarded=False)
    (task,) = long_tasks(kernels_of(device, text, ["trial"], True)["trial"])
    counts = Counter(number_of(entry) for entry in task.listed)
    assert [counts[number] for number in (spirv.SHUFFLE_XOR, *spirv.EXTREMES)] == [10, 0, 0]
    if VALIDATOR is None:
        pytest.skip("no spirv-val (Debian: spirv-tools)")
    (tmp_path / "task.spv").write_bytes(task.code())
    subprocess.run([VALIDATOR, "--target-env", "vulkan1.2", tmp_path / "task.spv"], check=True)


def module_of(*added: list[int]) -> Module:
    """Instructions after the types int (2), word (3) and real (4), and constants of int from 10 on."""
    known = [
        instruction(spirv.IMPORTED, 5, 0), instruction(DECORATE, 9, 0),
        instruction(spirv.TYPE_INT, 2, 32, 1), instruction(spirv.TYPE_INT, 3, 32, 0), instruction(22, 4, 32),
        *(instruction(CONSTANT, 2, 10 + place, value) for place, value in enumerate((0, 1, 2, 3))),
        instruction(FUNCTION, 0, 8, 0, 0),
    ]
    words = [0x07230203, 0x10500, 0, 100, 0, *(word for entry in (*known, *added) for word in entry)]
    return Module(np.array(words, "<u4").tobytes())


SUBGROUP = 13  # a constant of such a module


@pytest.mark.parametrize("group", [0, 1])
def test_scans_are_no_reductions(group):
    """Both have one number; what follows the scope tells them apart (0: a reduction)."""
    lowest = instruction(355, 4, 51, SUBGROUP, group, 50)
    module = module_of(lowest)
    spirv.shuffle(module)
    is_scan = group == 1
    assert (lowest in module.listed) == is_scan
    assert len(module.all(spirv.SHUFFLE_XOR)) == (0 if is_scan else 5)


def test_the_devices_test_passes_without_guards():
    """As on hardware, whose results the test compares with the CPU's."""
    trial._verdicts.clear()
    device = replace(choose("vulkan"), software=False)
    assert trial._faults(device, trial.team_kind(device.arch, device.subgroup)) == ()


