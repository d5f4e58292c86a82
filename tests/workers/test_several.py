"""Several devices: the bits of one, whatever happens to the workers."""

import gc
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from nights import at_night
from planted import plant, plant_in_workers
from scene import Scene
from tables import prepare_det

import tistreamlines as ts
from tistreamlines import devices
from tistreamlines.backends import compile_process, faults
from tistreamlines.cuslines import tracker
from tistreamlines.devices import Device, choose
from tistreamlines.errors import DeviceMemoryError, LostDeviceError
from tistreamlines.run import setup
from tistreamlines.space.batch import Batch, Space
from tistreamlines.tracking.engine.directions import initial_directions
from tistreamlines.tracking.engine.engine import Engine
from tistreamlines.tracking.growth.settings import Settings
from tistreamlines.tracking.products.batch_work import lengths_of
from tistreamlines.tracking.selection.places import SphereRegion
from tistreamlines.tracking.selection.regions import Regions
from tistreamlines.workers import remote
from tistreamlines.workers.messages import Opening
from tistreamlines.workers.remote import Piece
from tistreamlines.workers.several import Several

SIDE = 12
SPACE = Space(np.diag([2.0, 2, 2, 1]), (SIDE,) * 3)
SETTINGS = Settings(0.8, max_steps=40, threads=1)
SEEDS = np.random.default_rng(0).uniform(1, SIDE - 2, (2000, 3))


@pytest.fixture(scope="module")
def prepared():
    """A field without any order, so that each seed goes its own way."""
    values = np.random.default_rng(7).normal(size=(SIDE, SIDE, SIDE, 45)).astype(np.float32)
    angles = {"max_angle": 60.0, "min_separation_angle": 45.0}
    return prepare_det("sh", values, np.ones((SIDE,) * 3, np.float32), 0.5, SEEDS, **angles)


def children() -> set[int]:
    """Processes that this one has started and that have not ended, besides those that compile for it."""
    running, compilers = set(), {process._process.pid for process in compile_process._processes.values()}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rsplit(")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == os.getpid() and fields[0] != "Z":
            running.add(int(status.parent.name))
    return running - compilers


@pytest.fixture
def notes():
    return []


@pytest.fixture
def several(prepared, notes):
    """Two workers on the CPU, which are gone at the end."""
    before = children()
    workers = Several([choose("cpu")] * 2, notes.append)
    yield workers.load(Opening(prepared, SPACE, SETTINGS))
    workers.close()
    assert children() <= before


@pytest.fixture(scope="module")
def lasting():
    """Two workers that several tests share."""
    workers = Several([choose("cpu")] * 2)
    yield workers
    workers.close()


@pytest.fixture
def pair(lasting, prepared):
    """Two workers that no test harms, loaded anew."""
    return lasting.load(Opening(prepared, SPACE, SETTINGS))


def single(prepared, **asked):
    """The streamlines of one device, and its statistics."""
    engine = Engine(prepared, SPACE, choose("cpu"), SETTINGS, asked.pop("filters", ()))
    return Batch.concatenate(engine.track(SEEDS, **asked)), engine.statistics


def check_equal(batch, other):
    assert len(batch) > 0
    for name in ("points", "offsets", "seeds", "seed_number", "direction_number", "stop_reasons"):
        np.testing.assert_array_equal(getattr(batch, name), getattr(other, name), strict=True, err_msg=name)


def check_counts(statistics, other):
    for name in ("streamlines", "points"):
        assert getattr(statistics, name) == getattr(other, name), name
    np.testing.assert_array_equal(statistics.counts, other.counts)
    assert statistics.stop_reasons.sum() == 2 * statistics.verdicts.sum()


def test_the_bits_and_counts_of_one_device(pair, prepared):
    batch, statistics = single(prepared)
    check_equal(Batch.concatenate(pair.track(SEEDS)), batch)
    check_counts(pair.statistics, statistics)


@pytest.mark.parametrize("most", [256, 0], ids=["mapped", "copied"])
def test_every_third_point(pair, prepared, monkeypatch, most):
    """In memory that is mapped or copied, also of chunks without streamlines; lengths are those of all points."""
    thinned = replace(SETTINGS, every=3)
    for each in pair._remotes:
        monkeypatch.setattr(each._seen, "_most", most)
    pair.load(Opening(prepared, SPACE, thinned))
    expected = Batch.concatenate(Engine(prepared, SPACE, choose("cpu"), thinned).track(SEEDS))
    batch = Batch.concatenate(pair.track(SEEDS))
    check_equal(batch, expected)
    whole = single(prepared)[0]
    assert len(batch.points) < len(whole.points)
    for lengths in (batch.whole_lengths, expected.whole_lengths):
        np.testing.assert_array_equal(lengths, whole.lengths)
    np.testing.assert_array_equal(batch.whole.units, lengths_of(whole))
    assert pair.statistics.points == len(whole.points)
    pair.load(Opening(prepared, SPACE, replace(thinned, fewest_steps=1000)))
    assert not len(Batch.concatenate(pair.track(SEEDS)))


def test_initial_directions_are_those_of_one_device(several, prepared, notes):
    """Also if the worker that is asked for them is lost meanwhile."""
    expected = initial_directions(Engine(prepared, SPACE, choose("cpu"), SETTINGS), SEEDS[:100])
    assert len(expected[0]) > 100
    assert len(list(several.track(SEEDS[:70])))
    for lost in (False, True):
        if lost:
            os.kill(several._remotes[0].process.pid, signal.SIGKILL)
        for array, other in zip(several.initial_directions(SEEDS[:100]), expected, strict=True):
            assert np.array_equal(array, other)
    assert len(notes) == 1


def test_selected_streamlines(pair, prepared):
    count = len(single(prepared)[0])
    for most in (0, 1, 777, 1500, 10**6):
        batch, statistics = single(prepared, most=most)
        pair.load(Opening(prepared, SPACE, SETTINGS))
        selected = Batch.concatenate(pair.track(SEEDS, most=most))
        assert len(selected) == min(most, count)
        if most:
            check_equal(selected, batch)
        check_counts(pair.statistics, statistics)


def test_a_filter_travels_with_its_kernels(pair, prepared):
    ball = {"include": [SphereRegion("ball", np.full(3, float(SIDE)), 5.0)]}
    filters = [Regions(ball, SPACE, True)]
    batch, statistics = single(prepared, filters=filters)
    pair.load(Opening(prepared, SPACE, SETTINGS, filters))
    check_equal(Batch.concatenate(pair.track(SEEDS)), batch)
    check_counts(pair.statistics, statistics)


def test_directions_and_numbers_of_seeds(pair, prepared):
    directions = np.random.default_rng(1).normal(size=SEEDS.shape)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    engine = Engine(prepared, SPACE, choose("cpu"), SETTINGS)
    expected = Batch.concatenate(engine.track(SEEDS, 10**6, directions))
    check_equal(Batch.concatenate(pair.track(SEEDS, 10**6, directions)), expected)
    with pytest.raises(ts.ParameterError, match="random numbers"):
        next(pair.track(SEEDS, 2**32 - 5))


def test_a_time_limit_leaves_whole_chunks(pair, prepared):
    asked = iter([False] * 3 + [True] * 10**6)
    batch = Batch.concatenate(pair.track(SEEDS, enough=lambda: next(asked)))
    assert pair.statistics.seeds < len(SEEDS)
    whole, _ = single(prepared)
    if len(batch):
        check_equal(batch, whole[np.flatnonzero(whole.seed_number < pair.statistics.seeds)])


def test_a_caller_that_stops_and_starts_again(pair, prepared):
    track = pair.track(SEEDS)
    next(track)
    track.close()
    check_equal(Batch.concatenate(pair.track(SEEDS)), single(prepared)[0])


def descriptors() -> int:
    """Return how many files this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def test_memory_is_free_when_batches_are_gone(several, prepared):
    """It is used again for later batches, and what is kept longer is copied."""
    count = sum(1 for _ in range(8) for _ in several.track(SEEDS))
    gc.collect()
    assert 4 * sum(len(worker._seen._maps) for worker in several._remotes) < count
    for worker in several._remotes:
        worker._seen._most = 2
    before = descriptors()
    kept = list(several.track(SEEDS))
    assert descriptors() - before < len(kept) / 2
    check_equal(Batch.concatenate(kept), single(prepared)[0])


def test_a_piece_leaves_out_what_has_come_before(prepared):
    """Also if several workers are lost in turn, or if its first streamlines were handed on as those of another one."""
    batch, _ = single(prepared)
    cuts = ([0, 3, 7, 20], [0, 5, 6, 11], [0, 1, 20, 30])
    for before in (0, 4):
        piece = Piece(range(100), streamlines=before)
        for ends in cuts:
            piece.begin()
            for a, b in pairwise(ends):
                piece.take(batch[a:b])
        check_equal(Batch.concatenate(piece.batches), batch[before:30])


@pytest.mark.parametrize("number", [3, *at_night(1)])
def test_a_worker_is_lost_while_the_last_range_is_tracked_again(several, prepared, monkeypatch, number):
    """The number is that of a batch of it, one for each chunk."""
    expected, statistics = single(prepared, most=1200)
    several.load(Opening(prepared, SPACE, replace(SETTINGS, chunk_size=40)))
    take, taken = Piece.take, []

    def kill(piece, batch):
        if piece.most is not None:
            taken.append(batch)
            if len(taken) == number:
                for worker in several._remotes:
                    os.kill(worker.process.pid, signal.SIGKILL)
        take(piece, batch)

    monkeypatch.setattr(Piece, "take", kill)
    check_equal(Batch.concatenate(several.track(SEEDS, most=1200)), expected)
    check_counts(several.statistics, statistics)
    assert len(taken) > number


class TestLosses:
    @pytest.mark.parametrize("after", [5, *at_night(0)])
    def test_a_worker_that_is_killed(self, several, prepared, notes, after):
        """Its seeds are tracked again, and the bits are those of an undisturbed run."""
        batches = []
        for number, batch in enumerate(several.track(SEEDS)):
            if number == after:
                os.kill(several._remotes[1].process.pid, signal.SIGKILL)
            batches.append(batch)
        batch, statistics = single(prepared)
        check_equal(Batch.concatenate(batches), batch)
        check_counts(several.statistics, statistics)
        for _ in several.track(SEEDS):  # the process started anew does its part
            pass
        assert [text for text in notes if "SIGKILL" in text and "started anew" in text]

    def test_a_worker_that_hangs(self, several, prepared, notes, monkeypatch):
        """One that is asked and does not answer; one that has nothing to do answers."""
        patience = remote.SILENT
        monkeypatch.setattr(remote, "ASKED", 0.5)
        monkeypatch.setattr(remote, "SILENT", 5.0)

        def patiently(text: str) -> None:
            """Give the worker that is started anew its time."""
            notes.append(text)
            monkeypatch.setattr(remote, "SILENT", patience)

        several.note = patiently
        os.kill(several._remotes[1].process.pid, signal.SIGSTOP)
        batch, statistics = single(prepared)
        check_equal(Batch.concatenate(several.track(SEEDS)), batch)
        check_counts(several.statistics, statistics)
        assert len(notes) == 1 and "was lost (it does not answer): its worker is started anew" in notes[0]

    def test_both_workers_die_while_a_selection_is_counted(self, several, prepared, notes):
        expected, statistics = single(prepared, most=1200)
        for worker in several._remotes:
            os.kill(worker.process.pid, signal.SIGKILL)
        check_equal(Batch.concatenate(several.track(SEEDS, most=1200)), expected)
        check_counts(several.statistics, statistics)
        assert len(notes) == 2

    def plant(self, monkeypatch, prepared, notes, **fault):
        """Two workers with a fault."""
        plant_in_workers(monkeypatch, **{"at": "advance", **fault})
        return Several([choose("cpu")] * 2, notes.append).load(Opening(prepared, SPACE, SETTINGS))

    @pytest.mark.parametrize(("how", "number"), [("exit", 3), *at_night(("lost", 2))])
    def test_a_device_that_is_lost(self, monkeypatch, prepared, notes, how, number):
        several = self.plant(monkeypatch, prepared, notes, how=how, number=number, worker=1)
        batch, statistics = single(prepared)
        check_equal(Batch.concatenate(several.track(SEEDS)), batch)
        check_counts(several.statistics, statistics)
        assert [text for text in notes if "started anew" in text]
        several.close()

    @pytest.mark.nightly
    def test_a_device_that_is_lost_twice_is_left_out(self, monkeypatch, prepared, notes):
        several = self.plant(monkeypatch, prepared, notes, how="lost", number=2, worker=0, always=True)
        other = several._remotes[1].process.pid

        def hold(text: str) -> None:
            """Have the other worker wait until this one is lost again."""
            notes.append(text)
            os.kill(other, signal.SIGSTOP if len(notes) == 1 else signal.SIGCONT)

        several.note = hold
        check_equal(Batch.concatenate(several.track(SEEDS)), single(prepared)[0])
        assert [text.split(" (")[0] for text in notes] == ["cpu device 0"] * 2
        assert "goes on without it" in notes[1]
        several.close()

    @pytest.mark.nightly
    def test_no_device_is_left(self, monkeypatch, prepared, notes):
        """Nightly; by day, a command says it in a line."""
        several = self.plant(monkeypatch, prepared, notes, how="exit", number=2, always=True)
        with pytest.raises(LostDeviceError, match="no device is left"):
            list(several.track(SEEDS))
        several.close()

    def test_a_device_without_memory(self, monkeypatch, prepared, notes):
        several = self.plant(monkeypatch, prepared, notes, at="enlist", how="memory", number=2, worker=1)
        check_equal(Batch.concatenate(several.track(SEEDS)), single(prepared)[0])
        assert [text for text in notes if "ran out of memory with" in text]
        several.close()


class TestMemoryOfOneDevice:
    @pytest.mark.parametrize("number", [2, *at_night(1, 4)])
    def test_half_as_many_seeds_are_tried(self, monkeypatch, prepared, notes, number):
        """At the first chunk, in the middle and at the last one."""
        batch, statistics = single(prepared)
        settings = replace(SETTINGS, chunk_size=512)
        engine = Engine(prepared, SPACE, choose("cpu"), settings, note=notes.append)
        plant(monkeypatch.setattr, at="enlist", how="memory", number=number)
        check_equal(Batch.concatenate(engine.track(SEEDS)), batch)
        check_counts(engine.statistics, statistics)
        assert len(notes) == 1

    def test_the_end_is_an_error_in_one_line(self, monkeypatch, prepared, notes):
        engine = Engine(prepared, SPACE, choose("cpu"), SETTINGS, note=notes.append)
        plant(monkeypatch.setattr, at="enlist", how="memory", number=1, always=True)
        with pytest.raises(DeviceMemoryError, match="give a lower memory_limit or chunk_size"):
            list(engine.track(SEEDS))
        assert [text.split()[-1] for text in notes] == ["1,000", "500", "250", "125", "64"]


def gpus(*indices, arch="vulkan", software=False):
    return [Device(arch, index, f"G{index % 2}", "", 2**30, software, True, "") for index in indices]


class TestChoice:
    @pytest.fixture(autouse=True)
    def machine(self, monkeypatch):
        """Two GPUs and a software device."""
        there = [*gpus(0, 2), *gpus(1, software=True)]
        present = {"vulkan": there, "cuda": gpus(0, 1, arch="cuda")}
        monkeypatch.setattr(devices, "_probe", lambda arch: present.get(arch) or [choose_cpu(arch)])

    @pytest.mark.parametrize(("text", "indices"), [("all", [0, 2]), ("2,0", [2, 0]), (" 1 ", [1]), ("0, 1", [0, 1])])
    def test_numbers(self, text, indices):
        assert [device.index for device in devices.choose_several("vulkan", text)] == indices

    @pytest.mark.parametrize(
        ("arch", "text", "words"),
        [
            ("vulkan", "3", "no device '3'.* numbers from 0, 2, 1"), ("vulkan", "0,0", "given twice"),
            ("vulkan", "", "no device ''"), ("cpu", "0", "threads"), ("cuda", "a", "no device 'a'"),
        ],
    )
    def test_errors_say_what_to_give(self, arch, text, words):
        with pytest.raises(ts.DeviceError, match=words):
            devices.choose_several(arch, text)

    def test_software_alone(self, monkeypatch):
        monkeypatch.setattr(devices, "_probe", lambda arch: gpus(0, 1, software=True))
        assert len(devices.choose_several("vulkan", "all")) == 2

    def test_what_a_process_sees(self, monkeypatch):
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        assert devices.alone(gpus(1, arch="cuda")[0])["CUDA_VISIBLE_DEVICES"] == "1"
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5, GPU-abc")
        assert devices.alone(gpus(1, arch="cuda")[0])["CUDA_VISIBLE_DEVICES"] == "GPU-abc"
        assert devices.alone(gpus(2)[0])["TI_VISIBLE_DEVICE"] == "2"

    def test_names(self):
        assert devices.name_of(gpus(0, 1, 2)) == "2 x G0, G1"


def choose_cpu(arch):
    return Device(arch, 0, "CPU", "", None, False, True, "", "cpu")


class TestRuns:
    """Whole runs; two workers on the CPU stand for two GPUs."""

    @pytest.fixture
    def two_devices(self, monkeypatch):
        monkeypatch.setattr(setup, "choose_several", lambda arch, text: [choose("cpu")] * 2)

    def test_a_file_and_its_record(self, head, two_devices, track, tmp_path):
        before = children()
        done = track(tmp_path / "a.tck", "--devices", "all", "--verbose")
        assert done.code == 0, done.err
        assert done.err.count("Device: cpu") == 2
        assert track(tmp_path / "b.tck").code == 0
        assert (tmp_path / "a.tck").read_bytes() == (tmp_path / "b.tck").read_bytes()
        record, plain = (json.loads((tmp_path / f"{name}.json").read_text()) for name in "ab")
        assert len(record["devices"]) == 2
        assert record["result"]["stop_reasons"] == plain["result"]["stop_reasons"]
        gc.collect()
        assert children() <= before

    def test_seeds_of_a_file(self, head, two_devices, tmp_path):
        """Points with directions."""
        middle = head.phantom.affine[:3, 3] + head.phantom.affine[:3, :3] @ np.array(head.phantom.mask.shape) / 2
        rng = np.random.default_rng(0)
        directions = rng.normal(size=(400, 3))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        seeds = np.hstack([middle + rng.uniform(-20, 20, (400, 3)), directions])
        batches = (Batch.concatenate(ts.stream(**head.options, seeds=seeds, devices=n)) for n in ("all", None))
        check_equal(*batches)

    @pytest.mark.parametrize("number", [2, *at_night(1)])
    def test_one_line_if_no_device_is_left(self, two_devices, track, tmp_path, monkeypatch, number):
        """While kernels are compiled, and later."""
        plant_in_workers(monkeypatch, at="advance", number=number, how="exit", always=True)
        done = track(tmp_path / "a.tck", "--devices", "all", "--quiet")
        assert done.code == 1
        assert "no device is left" in done.err
        assert done.err.count("\n") == 1
        assert not list(tmp_path.iterdir())

    def test_the_cpu_has_no_numbers(self, track, tmp_path):
        done = track(tmp_path / "a.tck", "--devices", "0,1")
        assert done.code == 1
        assert "--threads" in done.err

    def test_a_lost_device_in_this_process(self, head, monkeypatch):
        plant(monkeypatch.setattr, at="advance", how="lost", number=2, always=True)
        with pytest.raises(LostDeviceError, match="start the run again"):
            ts.track(**head.options, nseeds=300)


def test_a_tracker_of_several_gpus(head, tmp_path, monkeypatch):
    """The drop-in for cuslines; two workers on the CPU stand for two GPUs."""
    scene = Scene(head, tmp_path)
    monkeypatch.setattr(tracker, "choose_several", lambda arch, text: [choose("cpu")] * len(text.split(",")))
    batches = (scene.tracker(ngpus=n).batches(scene.seeds, scene.image) for n in (2, 1))
    check_equal(*map(Batch.concatenate, batches))


def test_workers_end_with_a_run_that_is_killed(tmp_path):
    code = """
import time
from tistreamlines.devices import choose
from tistreamlines.workers import remote
from tistreamlines.workers.several import Several
several = Several([choose("cpu")] * 2)
print(*(worker.process.pid for worker in several._remotes), flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as run:
        workers = [Path("/proc", pid, "stat") for pid in run.stdout.readline().split()]
        os.kill(run.pid, signal.SIGKILL)
    for _ in range(200):
        if all(not status.exists() or status.read_text().split()[2] == "Z" for status in workers):
            return
        time.sleep(0.1)
    pytest.fail("a worker is still there")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("CUDA Error CUDA_ERROR_OUT_OF_MEMORY: out of memory while calling malloc_async", "memory"),
        ("Assertion failure: res == RhiResult::success && Failed to allocate ret buffer", "memory"),
        ("CUDA Error CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered while calling", "lost"),
        ("CUDA Error CUDA_ERROR_LAUNCH_TIMEOUT: the launch timed out while calling stream_synchronize", "lost"),
        ("VK_ERROR_DEVICE_LOST", "lost"),
        ("AMDGPU Error hipErrorOutOfMemory: out of memory while calling malloc_async_impl (hipMallocAsync)", "memory"),
        ("AMDGPU Error hipErrorLaunchFailure: unspecified launch failure while calling stream_synchronize", "lost"),
        ("can't start new thread", None),
    ],
)
def test_what_taichi_says_is_understood(text, meant):
    kinds = {"memory": DeviceMemoryError, "lost": LostDeviceError, None: type(None)}
    assert type(faults.understood(RuntimeError(text))) is kinds[meant]


@pytest.mark.nightly
def test_two_workers_on_vulkan(prepared, notes, monkeypatch):
    """Software devices here: the bits of the CPU, although Taichi's own call fails once. By day, workers are CPUs."""
    software = [device for device in devices.numbered_devices("vulkan") if device.software]
    if not software:
        pytest.skip("no Vulkan device in software")
    plant_in_workers(monkeypatch, worker=1, at="enlist", number=2, how="lost")
    several = Several(software[:1] * 2, notes.append).load(Opening(prepared, SPACE, SETTINGS))
    seeds = SEEDS[:100]
    expected = Batch.concatenate(Engine(prepared, SPACE, choose("cpu"), SETTINGS).track(seeds))
    check_equal(Batch.concatenate(several.track(seeds)), expected)
    assert len(notes) == 1
    several.close()
