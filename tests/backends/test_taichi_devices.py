"""How Taichi uses a device: what teams are there and how blocks hold them, and how it starts."""

from __future__ import annotations

import os
import re
import threading
from dataclasses import replace

import numpy as np
import pytest
from commands import in_own_process
from linked import parts_of
from synthetic import boot_case
from tables import prepare_det, prepare_prob
from taichi_runs import TAICHI_ALONE

from tistreamlines.backends.taichi import trial
from tistreamlines.backends.taichi.linking import dialect, lay_out
from tistreamlines.backends.taichi.runtime import start
from tistreamlines.backends.taichi.team import team_kind
from tistreamlines.devices import ARCHS, Device, choose
from tistreamlines.errors import DeviceError
from tistreamlines.linker.parts import Source
from tistreamlines.space.batch import Space
from tistreamlines.tracking.engine.engine import Engine
from tistreamlines.tracking.growth.settings import Settings
from tistreamlines.tracking.parts import Layout, Selection


@pytest.mark.parametrize("subgroup", [None, 4, 8, 16, 64])
@pytest.mark.parametrize("arch", ["vulkan", "metal"])
def test_teams_wider_or_narrower_than_a_subgroup_meet_in_memory(arch, subgroup):
    text = dialect(arch, exact=True, kind=team_kind(arch, subgroup)).header
    assert "subgroup." not in text
    assert "warp." not in text
    assert "block.sync()" in text


def test_teams_of_one_warp_or_subgroup_use_its_operations():
    headers = {arch: dialect(arch, exact=True, kind=team_kind(arch, 32)).header for arch in ("vulkan", "cuda")}
    assert "subgroup." in headers["vulkan"]
    assert "warp." in headers["cuda"]
    assert "subgroup." not in headers["cuda"]


@pytest.mark.parametrize(("arch", "kind"), [("cuda", "warp"), ("vulkan", "subgroup")])
def test_teams_of_32_threads_share_a_block_and_its_tables(arch, kind):
    """On a GPU; the devices of software have no such teams."""
    gpu = Device(arch, 0, "a GPU", "", None, False, True, "", "discrete", subgroup=32)
    assert team_kind(arch, gpu.subgroup) == kind
    source, bare = boot_case().source([]), Source([], parts_of(boot_case()), {"row": ("reals", 64)})
    alone, tracking = lay_out(gpu, bare, kind), lay_out(gpu, source, kind)
    assert alone.teams > 1
    assert alone.tables(bare, ["count"]) == []
    held = tracking.tables(source, [*source.scratch, *boot_case().arrays])
    assert held
    assert tracking.tables(source, [*source.scratch, held[0], "volume_rows"]) == held[:1]
    assert alone.queued and tracking.queued


def test_kernels_that_need_more_registers_have_fewer_teams():
    """Those with regions with CUDA, unless halves carry numbers; with Vulkan those whose halves do."""
    gpu = Device("cuda", 0, "a GPU", "", None, False, True, "", "discrete", subgroup=32)
    prepared = boot_case()

    def teams(kind: str, carried: int, bits: int) -> int:
        layout = Layout.of(replace(prepared.getter, carried=carried), prepared.rule, Selection(has_bits=bits))
        return lay_out(gpu, prepared.source([], layout), kind).teams

    kinds = {
        (kind, carried): [teams(kind, carried, bits) for bits in (0, 1)]
        for kind in ("warp", "subgroup") for carried in (0, 9)
    }
    assert kinds["warp", 0] == [8, 4]
    assert kinds["warp", 9] == [8, 8]
    assert kinds["subgroup", 0] == [20, 20]
    assert kinds["subgroup", 9] == [16, 16]


def compile_for_subgroups(getter: str) -> None:
    """Compile the kernels for Vulkan with subgroups of 32, which the device need not have: results mean nothing."""
    os.environ["TI_OFFLINE_CACHE"] = "0"
    trial.open_checked = lambda *_: "subgroup"
    device = replace(choose("vulkan"), subgroup=32)
    values = np.random.default_rng(0).random((3, 3, 3, 181), np.float32)
    make = {"prob": prepare_prob, "det": prepare_det}[getter]
    # no streamline takes a step where the stop map is 0: with reductions that mean nothing, a loop may have no end
    prepared = make("pmf", values, np.zeros((3, 3, 3), np.float32), 0.5, np.ones((1, 3)), sphere="small")
    Engine(prepared, Space(np.eye(4), (3, 3, 3)), device, Settings(0.5))
    print("compiled")


@TAICHI_ALONE
@pytest.mark.parametrize("getter", ["prob", pytest.param("det", marks=pytest.mark.nightly)])
def test_kernels_compile_for_subgroups_of_32(getter):
    """Taichi forgets the type of what a subgroup operation returns, and may then fail on a comparison with it.

    Another getter nightly, since nothing is found in a cache.
    """
    try:
        choose("vulkan")
    except DeviceError as error:
        pytest.skip(str(error))
    assert "compiled" in in_own_process(__file__, "compile_for_subgroups", getter)


# ------------------------------------------------------------------------------------------------- how Taichi starts
def try_to_start(*archs: str) -> None:
    """Start Taichi on a made-up device of each arch and print what comes of it."""
    for arch in archs:
        try:
            print("started", start(Device(arch, 0, "a GPU", "", None, False, True, "")).ti.cfg.arch)
        except DeviceError as error:
            print("DeviceError:", error)


def test_an_arch_that_is_missing_is_an_error():
    missing = []
    for arch in (arch for arch in ARCHS if arch != "cpu"):
        try:
            choose(arch)
        except DeviceError as error:
            assert arch in str(error)
            missing.append(arch)
    # without a loader Taichi's own search for Vulkan may end the process
    archs = [arch for arch in missing if arch != "vulkan"]
    answers = in_own_process(__file__, "try_to_start", *archs).splitlines()
    lines = [line for line in answers if line.startswith(("DeviceError", "started"))]
    for arch, line in zip(archs, lines, strict=True):
        assert re.search(rf"DeviceError: {arch}: [\w ]+ (cannot start|does not compile|is installed)", line)


@TAICHI_ALONE
def test_the_environment_cannot_change_the_arch(monkeypatch):
    try:
        choose("vulkan")
    except DeviceError as error:
        pytest.skip(str(error))
    monkeypatch.setitem(os.environ, "TI_ARCH", "x64")
    said = in_own_process(__file__, "try_to_start", "vulkan")
    assert "DeviceError: TI_ARCH in the environment makes Taichi run on" in said
    assert "started" not in said


def start_and_flush() -> None:
    """Start Taichi and print whether numpy still has denormals, here and in a new thread."""
    tiny = np.array([1e-38], np.float32)
    held = []
    start(choose("vulkan"))
    thread = threading.Thread(target=lambda: held.append((tiny * np.float32(0.01))[0] > 0))
    thread.start()
    thread.join()
    print("denormals:", held[0] and (tiny * np.float32(0.01))[0] > 0)


def test_taichi_leaves_the_hosts_arithmetic_alone():
    try:
        choose("vulkan")
    except DeviceError as error:
        pytest.skip(str(error))
    assert "denormals: True" in in_own_process(__file__, "start_and_flush")
