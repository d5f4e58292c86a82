"""Devices that lie: what the trial finds, and what comes of it."""

from __future__ import annotations

import json
import os
from concurrent.futures import Future
from dataclasses import replace

import numpy as np
import pytest
from commands import importing, python
from places import LAVAPIPE, SWIFTSHADER
from taichi_runs import digest
from taichi_runs import run as streamlines_of

from tistreamlines.backends import shares_memory
from tistreamlines.backends.taichi import trial as _taichi_trial
from tistreamlines.backends.taichi.trial import ORDER, ROW, SMALL, TEAMS, TEAMWORK, TURNS, VOTES, WORDS, TrialVerdict
from tistreamlines.devices import ARCHS, Device, choose
from tistreamlines.devices import host as _probe_host
from tistreamlines.errors import DeviceError

GPU = Device("vulkan", 0, "a GPU", "its driver", 8 << 30, False, True, "", "discrete", subgroup=32)


# ------------------------------------------------------------------------------------------------ what the trial finds
def results() -> tuple[np.ndarray, np.ndarray]:
    out, counts = _taichi_trial._expected()
    return out.copy(), counts.astype(np.int32)


def closed_form() -> tuple[np.ndarray, np.ndarray]:
    """The same as :func:`trial`, by numpy alone; a row of 32 for each result."""
    a, b, tiny = _taichi_trial._inputs()
    x, y = a.reshape(TEAMS, ROW), b.reshape(TEAMS, ROW)
    out, counts = np.zeros((TEAMS, 5, ROW), np.float32), np.zeros((TEAMS, 2, ROW), np.int64)
    out[:, 0] = x * x + y
    out[:, 1] = x
    for turn in range(8):
        out[:, 1] = (out[:, 1] * x + np.float32(0.7)) * np.float32(0.6) - np.float32(turn) * (np.float32(0.1) * x)
    out[:, 2] = tiny[:ROW] * tiny[ROW:]
    words = y.view(np.uint32) * np.uint32(0x9E3779B1)
    counts[:, 1] = (words.astype(np.uint64) * np.uint64(0xD2511F53)) >> np.uint64(33)
    for item in range(TEAMS):
        row, low, high, middle, votes, lasts = x[item], np.float32(4), np.float32(0), np.float32(0), 0, 0
        below = np.zeros(ROW, np.float32)
        for turn in range(1 + item % TURNS):
            row = (row + np.float32(turn))[(5 * np.arange(ROW) + turn) % ROW]
            low = low - (row[item % ROW] - np.float32(4))
            high = high + (row[(item + turn) % ROW] + np.float32(4))
            middle = middle + row[(item + turn) % ROW]
            below[4:] = below[4:] + row[:-4]
            first = min((item + turn) % VOTES, ROW)
            votes = 128 * votes + 64 * (first < ROW) + first
            lasts = 64 * lasts + first
        out[item, 3] = [low, high, middle, *below[3:16], *row[16:]]
        marks = (row * np.float32(64)).astype(int) & 7
        listed = [lane + 32 * bit for lane in range(ROW) for bit in range(3) if marks[lane] >> bit & 1][:64]
        out[item, 4], counts[item, 0, :3] = listed[:ROW], (len(listed), votes, lasts)
    return out, counts


def test_what_is_right_is_known():
    for results_of_python, right in zip(_taichi_trial._expected(), closed_form(), strict=True):
        np.testing.assert_array_equal(results_of_python, right)


def test_what_is_right_passes():
    assert _taichi_trial._compared(*results()) == ()


def test_small_numbers_may_be_flushed_but_not_lost():
    out, counts = results()
    small = np.abs(out[:, 2]) < 2.0**-126
    assert small.any() and not small.all()
    out[:, 2] = np.where(small, 0, out[:, 2])
    assert _taichi_trial._compared(out, counts) == ()
    out[:, 2] = 0
    assert _taichi_trial._compared(out, counts) == (SMALL,)


@pytest.mark.parametrize(("row", "fault"), [(0, ORDER), (1, ORDER), (2, SMALL), (3, TEAMWORK), (4, TEAMWORK)])
def test_a_wrong_bit_is_found(row, fault):
    out, counts = results()
    out.view(np.int32)[17, row, 29] ^= 1
    assert _taichi_trial._compared(out, counts) == (fault,)


@pytest.mark.parametrize(("row", "lane", "fault"), [(0, 0, TEAMWORK), (1, 5, WORDS)])
def test_a_wrong_number_is_found(row, lane, fault):
    out, counts = results()
    counts[47, row, lane] += 1
    assert _taichi_trial._compared(out, counts) == (fault,)


def test_fused_products_would_be_seen():
    """A product that is added to before it is rounded leaves what rounding takes, in nearly all lanes."""
    a, b, _ = _taichi_trial._inputs()
    assert not (a * a + b).any()
    assert np.mean(a.astype(float) ** 2 + b != 0) > 0.9


# ------------------------------------------------------------------------------------------------- what comes of it
@pytest.fixture
def opened(monkeypatch):
    """Open a made-up device whose teams, by their kind, have faults."""

    def call(exact=True, **faults):
        monkeypatch.setattr(_taichi_trial, "_verdicts", {})
        monkeypatch.setattr(_taichi_trial, "folder", lambda: None)
        monkeypatch.setattr(_taichi_trial, "start", lambda *_: None)
        monkeypatch.setattr(_taichi_trial, "_faults", lambda device, kind: faults[kind])
        return _taichi_trial.open_checked(GPU, exact)

    return call


def test_teams_fall_back_to_shared_memory(opened):
    assert opened(subgroup=()) == "subgroup"
    assert opened(subgroup=(TEAMWORK, ORDER), block=()) == "block"
    with pytest.raises(DeviceError, match=rf"vulkan: a GPU \(its driver\) .* {TEAMWORK}: use another arch"):
        opened(subgroup=(TEAMWORK,), block=(TEAMWORK,))


def test_an_unkept_order_matters_to_exact_runs_alone(opened):
    with pytest.raises(DeviceError, match=f"{ORDER}: use exact=False, or another arch"):
        opened(subgroup=(ORDER,))
    assert opened(exact=False, subgroup=(ORDER,)) == "subgroup"
    with pytest.raises(DeviceError, match=f"{WORDS}: use another arch"):
        opened(exact=False, subgroup=(ORDER, WORDS))


def test_a_device_that_has_passed_is_tested_again_only_after_a_change(monkeypatch, tmp_path):
    tested = []

    def judge(device, faults=(), **how):
        def find(device, kind):
            tested.append(kind)
            return faults

        monkeypatch.setattr(_taichi_trial, "_verdicts", {})  # as in another process
        monkeypatch.setattr(_taichi_trial, "_faults", find)
        verdict = _taichi_trial.judged(device, **how)
        count = len(tested)
        tested.clear()
        return verdict, count

    monkeypatch.setattr(_taichi_trial, "folder", lambda: tmp_path)
    failed = TrialVerdict("subgroup", False, (SMALL,))
    assert judge(GPU, (SMALL,)) == (failed, 1)
    assert judge(GPU, (SMALL,)) == (failed, 1)
    passed = TrialVerdict("subgroup", False, ())
    assert [judge(GPU), judge(GPU), judge(GPU, afresh=True)] == [(passed, 1), (passed, 0), (passed, 1)]
    for change in ({"driver": "its next driver"}, {"subgroup": 16}, {"name": "another GPU"}):
        assert judge(replace(GPU, **change))[1] == 1
    monkeypatch.setattr(_taichi_trial, "COMPILING", ("errors.py",))
    assert judge(GPU) == (passed, 1)


def test_only_vulkan_names_shared_memory():
    assert not shares_memory(GPU)
    assert shares_memory(replace(GPU, subgroup=16))
    assert shares_memory(replace(GPU, subgroup=None))
    assert not shares_memory(choose("cpu"))


def caught_lying(arch: str) -> dict:
    """Claim subgroups of 32, and leave the guard out: what is found, and what is tracked nevertheless."""
    from tistreamlines.backends.taichi import linking as _taichi

    honest = _taichi_trial.judged(choose(arch))
    liar = replace(choose(arch), subgroup=32)
    lied = _taichi_trial.judged(liar)
    streamlines = [digest(list(streamlines_of(arch, device=device))) for device in (choose(arch), liar)]
    dialect = _taichi.dialect
    _taichi.dialect = lambda *arguments: replace(dialect(*arguments), guard=None)
    _taichi_trial.drives = lambda _: False  # else no operation has a guard, but a mark (test_vulkan.py)
    _taichi_trial._verdicts.clear()
    _taichi_trial.folder = lambda: None
    try:
        _taichi_trial.open_checked(choose(arch), True)
        unguarded = ""
    except DeviceError as error:
        unguarded = str(error)
    return {"honest": vars(honest), "lied": vars(lied), "streamlines": streamlines, "unguarded": unguarded}


def test_a_device_whose_subgroups_are_smaller_than_it_says_is_caught():
    try:
        device = choose("vulkan")
    except DeviceError as error:
        pytest.skip(str(error))
    if not shares_memory(device) or not device.software:
        pytest.skip(f"{device.name} cannot be made to lie")
    code = "import json; print(); print(json.dumps(test_trial.caught_lying('vulkan')))"
    done = python("-c", importing(__file__) + code, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["honest"] == {"kind": "block", "lied": False, "faults": []}
    assert answer["lied"] == {"kind": "block", "lied": True, "faults": []}
    assert answer["streamlines"][0] == answer["streamlines"][1]  # and test_one_taichi.py has the CPU's beside them
    assert f"{ORDER}: use exact=False" in answer["unguarded"]


@pytest.mark.parametrize("arch", [arch for arch in ARCHS if arch != "cpu"])
def test_devices_tell_what_they_are_tried_with(run, arch):
    """On a GPU in hardware too: every device that is here passes."""
    try:
        choose(arch)
    except DeviceError as error:
        pytest.skip(str(error))
    done = run("devices", "--test", "--json")
    assert done.code == 0, done.out
    (tried, *_) = [row for row in json.loads(done.out) if row["arch"] == arch and row["available"]]
    assert tried["test"]["faults"] == []
    assert tried["test"]["lied"] is False


# --------------------------------------------------------------------------------------------------- other drivers
def two_drivers() -> dict:
    """Whether Taichi runs on the device that was chosen, of two of which one has no whole numbers of 64 bits."""
    device = choose("vulkan")
    answer = {"name": device.name, "int64": device.int64, "verdict": vars(_taichi_trial.judged(device))}
    _taichi_trial._verdicts.clear()
    try:
        _taichi_trial.judged(replace(device, int64=True))
    except RuntimeError as error:
        answer["pretended"] = str(error)
    return answer


@pytest.mark.parametrize("place", [0, 1])
def test_the_users_choice_of_a_vulkan_device_is_heeded(monkeypatch, place):
    if LAVAPIPE is None or not SWIFTSHADER.exists() or _probe_host.load("libvulkan.so.1") is None:
        pytest.skip("needs two Vulkan drivers (Debian: mesa-vulkan-drivers, chromium-common, libvulkan1)")
    for name in ("VK_DRIVER_FILES", "VK_ICD_FILENAMES"):
        monkeypatch.setenv(name, os.pathsep.join(map(str, (SWIFTSHADER, LAVAPIPE))))
    monkeypatch.setenv("TI_VISIBLE_DEVICE", str(place))
    code = "import json; print(); print(json.dumps(test_trial.two_drivers()))"
    done = python("-c", importing(__file__) + code, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["verdict"] == vars(TrialVerdict("block", False, ())) | {"faults": []}
    if answer["int64"]:
        assert answer["name"].startswith("llvmpipe") and "pretended" not in answer
    else:
        assert answer["name"].startswith("SwiftShader") and "u64 not supported" in answer["pretended"]


@pytest.mark.parametrize(("ends_by_itself", "fault"), [(True, "exit code 3: no more"), (False, "stopped after 0.1 s")])
def test_a_trial_without_a_verdict_says_how_it_ended(monkeypatch, ends_by_itself, fault):
    class Ending:
        """A process that ends by itself, or when it is ended."""

        def __init__(self, _: object) -> None:
            self.asked: Future[object] = Future()

        def ask(self, *_: object) -> Future[object]:
            if ends_by_itself:
                self.asked.set_exception(EOFError("no more"))
            return self.asked

        def end(self) -> int:
            if not ends_by_itself:
                self.asked.set_exception(EOFError("no more"))
            return 3

    monkeypatch.setattr(_taichi_trial, "CompileProcess", Ending)
    monkeypatch.setattr(_taichi_trial, "SECONDS", 0.1)
    assert _taichi_trial.try_device(GPU) == {"kind": "", "lied": False, "faults": [fault]}
