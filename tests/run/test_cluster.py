"""Runs on a cluster of dask: the bytes of one run, whatever happens to the workers."""

import os
import pickle
import random
import signal
import threading
import time
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

import tistreamlines as ts

pytest.importorskip("distributed", reason='dask is not installed: pip install ".[distributed]"')
from dask import config
from distributed import Client, LocalCluster

from tistreamlines.devices import ARCHS, list_devices
from tistreamlines.distributed import track, track_many
from tistreamlines.run import cluster

KILLS = int(os.environ.get("TISTREAMLINES_KILLS", "1"))  # more of them take longer
SEEDS = 12_000 * KILLS  # so that the run outlasts the kills
FEW = 400


@pytest.fixture(scope="module")
def client():
    """Two workers, each a process with one thread."""
    common = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "protocol": "tcp"}
    with (
        config.set({"distributed.scheduler.allowed-failures": 1}),
        LocalCluster(**common, processes=True) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def options(head):
    """Arguments of a run."""
    return head.options | {"nseeds": FEW}


@pytest.fixture(scope="module")
def whole(options, tmp_path_factory):
    """The run in one process."""
    return ts.track(output=tmp_path_factory.mktemp("whole") / "a.trx", **options)


class Kills(threading.Thread):
    """Kills a worker at random moments, and counts how often."""

    def __init__(self, client, times):
        super().__init__()
        self.client, self.left, self.done, self.ended = client, times, 0, threading.Event()

    def run(self):
        draw = random.Random(KILLS)
        while self.left and not self.ended.wait(draw.uniform(0.2, 1.2)):
            pids = list(self.client.run(os.getpid, on_error="ignore").values())
            if pids:
                os.kill(draw.choice(pids), signal.SIGKILL)
                self.left, self.done = self.left - 1, self.done + 1

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.join()


class Progress(ts.Watcher):
    """Keeps what it is told."""

    def __init__(self):
        self.seen, self.warned = [], []

    def progress(self, seeds, of, streamlines):
        self.seen.append((seeds, of, streamlines))

    def warn(self, text):
        self.warned.append(text)


def left_in(folder):
    """Names of the files, once the tasks that were running at an error have ended."""
    until = time.monotonic() + 20
    while any(folder.glob(".*.part")) and time.monotonic() < until:
        time.sleep(0.1)
    return {path.name for path in folder.iterdir()}


@pytest.mark.nightly
def test_killed_workers_change_no_byte(client, options, tmp_path_factory, tmp_path):
    """Nightly: by day, test_several.py has killed workers, and the other tests the bytes of a cluster."""
    long, parts = options | {"nseeds": SEEDS}, max(8, 3 * KILLS)
    whole = ts.track(output=tmp_path_factory.mktemp("long") / "a.trx", **long)
    watcher = Progress()
    with Kills(client, KILLS) as kills:
        counts = track(client, **long, output=tmp_path / "a.trx", parts=parts, retries=KILLS, watcher=watcher)
    assert kills.done == KILLS
    assert (tmp_path / "a.trx").read_bytes() == whole.path.read_bytes()
    assert (counts["seeds"], counts["streamlines"]) == (SEEDS, whole.n_streamlines)
    assert counts["stop_reasons"] == whole.stop_reasons
    assert watcher.seen[-1] == (SEEDS, SEEDS, whole.n_streamlines)
    assert len(watcher.seen) == parts
    assert left_in(tmp_path) == {"a.json", "a.trx"}


def test_a_worker_tracks_one_part_at_a_time_in_one_process(options, whole, tmp_path):
    common = {"n_workers": 1, "threads_per_worker": 3, "dashboard_address": ":0"}
    with LocalCluster(**common, processes=True) as cluster, Client(cluster) as client:
        track(client, **options, output=tmp_path / "b.trk", parts=3)
        (before,) = client.run(os.getpid).values()
        track(client, **options, output=tmp_path / "a.trx", parts=5)
        assert (before,) == tuple(client.run(os.getpid).values())
    assert (tmp_path / "a.trx").read_bytes() == whole.path.read_bytes()
    assert len(nib.streamlines.load(tmp_path / "b.trk").streamlines) == whole.n_streamlines


def test_arrays_images_and_objects(client, options, whole, tmp_path):
    dwi, mask = nib.load(options["dwi"]), nib.load(options["mask"])
    in_memory = {
        "dwi": np.asarray(dwi.dataobj), "bvals": np.loadtxt(options["bvals"]), "bvecs": np.loadtxt(options["bvecs"]),
        "mask": mask,
    }
    map_of_all = ts.Density(tmp_path / "map.nii.gz", voxel=5)
    track(client, **{**options, **in_memory}, dg=ts.Boot(), products=[map_of_all], output=tmp_path / "a.trx", parts=2)
    assert np.asarray(nib.load(map_of_all.options["path"]).dataobj).sum() > whole.n_streamlines
    assert (tmp_path / "a.trx").read_bytes() == whole.path.read_bytes()


def test_many_subjects(client, options, whole, tmp_path):
    seeds, lost = (300, FEW, 200), tmp_path / "lost.nii.gz"
    subjects = [options | {"nseeds": n, "output": tmp_path / f"{n}.trx"} for n in seeds]
    subjects += [options | {"mask": lost, "output": tmp_path / "lost.trx"}]
    subjects += [options | {"select": 150, "nseeds": None, "output": tmp_path / "select.trx", "include": "0,0,0,30"}]
    outcomes = dict(track_many(client, subjects))
    assert [outcomes[k]["seeds"] for k in range(3)] == list(seeds)
    assert isinstance(outcomes[3], ts.InputError)
    assert "lost.nii.gz" in str(outcomes[3])
    assert outcomes[4]["streamlines"] == 150
    assert (tmp_path / f"{FEW}.trx").read_bytes() == whole.path.read_bytes()
    names = {*map(str, seeds), "select"}
    assert left_in(tmp_path) == {f"{n}{s}" for n in names for s in (".trx", ".json")}


def test_errors_come_back_as_their_own_types(client, options, tmp_path):
    output = tmp_path / "a.trx"
    with pytest.raises(ts.InputError, match=r"no\.bval"):
        track(client, **options | {"bvals": tmp_path / "no.bval"}, output=output)
    missing = [arch for arch in ARCHS if not any(device.arch == arch and device.available for device in list_devices())]
    with pytest.raises(ts.DeviceError, match=missing[0]):  # no computer has all
        track(client, **options | {"arch": missing[0]}, output=output, retries=0)
    assert not left_in(tmp_path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"output": ""}, "output is missing"),
        ({"parts": 0}, "parts is 0: give a whole number"),
        ({"part": "1/2"}, "part is chosen for each worker"),
        ({"select": 10, "nseeds": None, "parts": 2}, "select takes the seeds in turn"),
        ({"max_angle": 100}, "max_angle"),
        ({"rejected": "r.nii", "parts": 2}, "rejected is made of one run, and not of its parts"),
        ({"parameters": ts.Parameters(density="map.nii")}, "density is within parameters"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_tracked(client, options, tmp_path, changes, words):
    with pytest.raises(ts.ParameterError, match=words):
        track(client, **{"output": tmp_path / "a.trx", **options, **changes})
    with pytest.raises(ts.OutputError, match="force"):
        (tmp_path / "b.trx").touch()
        track(client, **options, output=tmp_path / "b.trx")


class Planted:
    """Leaves a file when it is unpickled."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return open, (str(self.trace), "w")


def test_workers_unpickle_only_what_the_client_has_written(client, options, tmp_path, monkeypatch):
    trace, folder_of = tmp_path / "trace", cluster._Job.open

    def planted(job):
        folder_of(job)
        (Path(job.task[0]) / cluster.TASK).write_bytes(pickle.dumps(Planted(trace)))

    monkeypatch.setattr(cluster._Job, "open", planted)
    with pytest.raises(ts.TrackingError, match=r"task\.pickle was changed by someone else"):
        track(client, **options, output=tmp_path / "a.trx", parts=2, retries=0)
    assert not trace.exists()
    assert not left_in(tmp_path)


@pytest.mark.parametrize("kind", [ts.ParameterError, ts.InputError, ts.OutputError, ts.DeviceError])
def test_errors_can_be_sent(kind):
    error = pickle.loads(pickle.dumps(kind("--max-angle is 0: give more")))
    assert type(error) is kind
    assert str(error) == "max_angle is 0: give more"
    assert error.on_command_line == "--max-angle is 0: give more"


def test_an_output_that_a_lost_worker_still_writes_is_waited_for(monkeypatch):
    from tistreamlines.errors import BusyError
    from tistreamlines.run import cluster

    slept, calls = [], iter([BusyError("busy"), BusyError("busy"), {"seeds": 3}])

    def call():
        outcome = next(calls)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(cluster.time, "sleep", slept.append)
    assert cluster._when_free(call) == {"seeds": 3}
    assert len(slept) == 2
