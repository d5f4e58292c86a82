"""Tables from a process of their own are those of this process; its errors, notes and end are told here."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from linked import contents
from meshes import icosphere, save_gifti

import tistreamlines as ts
from tistreamlines.backends.numba import cache as caching
from tistreamlines.io.in_memory import InMemory
from tistreamlines.run import tables_process
from tistreamlines.run.log import Log, Watcher
from tistreamlines.run.plan import make_plan
from tistreamlines.run.tables import make_tables
from tistreamlines.run.tables_process import process_for
from tistreamlines.workers import session


@pytest.fixture(autouse=True)
def many_cores(monkeypatch):
    monkeypatch.setattr(tables_process, "usable_cores", lambda: 16)


def make_in_process(series, parameters, *others):
    with process_for(series, replace(parameters, arch="cuda")) as process:
        return process.make_tables(series, parameters, *others)


class Told(Watcher):
    """A watcher that remembers."""

    def __init__(self):
        self.words = []
        for kind in ("stage", "note", "warn"):
            setattr(self, kind, lambda text, kind=kind: self.words.append((kind, text)))


def planned(head, make, ahead=lambda _: None, **named):
    series = dict(zip(("dwi", "bvals", "bvecs"), head.series, strict=True))
    log = Log(Told())
    return make_plan(series, ts.Parameters.given({"mask": head.mask, **named}), log, ahead, make), log


@pytest.mark.parametrize("named", [{}, {"dg": "prob", "model": "csa"}, {"dg": "ptt", "model": "opdt"}], ids=str)
def test_tables_and_messages_are_the_same(head, named):
    here, log = planned(head, make_tables, **named)
    there, other = planned(head, make_in_process, **named)
    values, others = here.prepared.values, there.prepared.values
    assert values.keys() == others.keys()
    for name, value in values.items():
        np.testing.assert_array_equal(value, others[name], strict=True)
    assert (here.hashes, here.frames) == (there.hashes, there.frames)
    assert contents(here.prepared) == contents(there.prepared)
    np.testing.assert_array_equal(here.seeds.points(0, 5), there.seeds.points(0, 5))
    assert log.notes == other.notes
    assert log.watcher.words == other.watcher.words
    assert other.seconds["load"] > 0


def test_seeds_are_the_same(head, tmp_path):
    """The voxels of a mask, the weights of a map, balls, and a surface."""
    rng, shape = np.random.default_rng(0), head.phantom.mask.shape
    nib.save(nib.Nifti1Image(rng.uniform(size=shape).astype(np.float32), head.phantom.affine), tmp_path / "map.nii")
    middle = (*head.phantom.affine[:3, 3] + head.phantom.affine[:3, :3] @ np.array(shape) / 2, 20)
    ways = {"seed_image": tmp_path / "map.nii"}, {"seed_sphere": [middle, middle]}, {"seed_grid": 2}
    surface = save_gifti(tmp_path / "a.gii", *icosphere(2, 40.0, middle[:3]))
    for named in (*ways, {"seeds_per_voxel": 2}, {"seed_surface": surface, "surface_direction": "inward"}):
        here, there = (planned(head, make, **named)[0] for make in (make_tables, make_in_process))
        np.testing.assert_array_equal(here.seeds.points(0, 500), there.seeds.points(0, 500))
        np.testing.assert_array_equal(here.prepared.arrays["volume_index"], there.prepared.arrays["volume_index"])


def test_shapes_come_first_and_fit_the_tables(head):
    shapes = []
    plan, _ = planned(head, make_in_process, ahead=shapes.append)
    prepared, space = shapes[0]()
    assert contents(prepared) == contents(plan.prepared)
    assert {n: a.size for n, a in prepared.arrays.items() if n.startswith("method")} == {
        n: a.size for n, a in plan.prepared.arrays.items() if n.startswith("method")
    }
    np.testing.assert_allclose(space.voxel_sizes, plan.space.voxel_sizes)


def test_errors_are_those_of_this_process(head, tmp_path):
    missing = tmp_path / "nothing.nii.gz"
    for make in (make_tables, make_in_process):
        with pytest.raises(ts.InputError, match="no such file"):
            make({n: str(p) for n, p in zip(("dwi", "bvals", "bvecs"), head.series, strict=True)},
                 ts.Parameters(mask=missing), {}, None, Log(Told()), lambda _: None)


def test_a_process_that_dies_is_an_error(head, monkeypatch):
    monkeypatch.setattr(tables_process, "WORKER", "import os; os._exit(9)")
    with pytest.raises(ts.TrackingError, match="has ended"):
        planned(head, make_in_process)


def test_a_process_that_is_done_ends_without_a_word(head, capfd):
    def make(series, parameters, *others):
        with process_for(series, replace(parameters, arch="cuda")) as process:
            tables = process.make_tables(series, parameters, *others)
            assert process.start().wait(60) == 0
            return tables

    planned(head, make)
    assert capfd.readouterr().err == ""


def test_the_process_ends_with_its_parent(head):
    code = """
import os, sys, time
import tistreamlines as ts
from tistreamlines.run import tables_process
tables_process.usable_cores = lambda: 16
with tables_process.process_for({}, ts.Parameters(arch="cuda", dg="prob")) as process:
    print(os.popen("ps -o pid= --ppid %d" % os.getpid()).read().split()[0], flush=True)
    time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        child = Path("/proc", parent.stdout.readline().strip(), "stat")
        os.kill(parent.pid, signal.SIGKILL)
    for _ in range(200):
        try:
            if child.read_text().split()[2] == "Z":
                return
        except (FileNotFoundError, ProcessLookupError):
            return
        time.sleep(0.1)
    pytest.fail("the process is still there")


def test_only_files_on_a_gpu_are_read_apart(head, monkeypatch):
    series = dict(zip(("dwi", "bvals", "bvecs"), head.series, strict=True))

    def starts(series, arch):
        with process_for(series, ts.Parameters(mask=head.mask, arch=arch)) as process:
            return process is not None

    assert starts(series, "cuda")
    assert not starts(series, "cpu")
    assert not starts({**series, "bvals": InMemory("bvals", np.zeros(3))}, "cuda")
    monkeypatch.setattr(tables_process, "usable_cores", lambda: 2)
    assert not starts(series, "cuda")


@pytest.mark.parametrize("named", [{}, {"dg": "prob", "model": "csa"}, {"dg": "ptt", "model": "csa"}], ids=str)
def test_nothing_is_compiled_after_the_inputs_are_read(head, named, monkeypatch):
    """The kernels that were compiled for a few voxels are those of the run."""
    found, loaded, load = [], [], caching.Function._native

    def noted(self, kinds):
        loaded.append((self._name, kinds))
        return load(self, kinds)

    class Seen(session.Engine):
        def __init__(self, *arguments, **others):
            before = list(loaded)
            super().__init__(*arguments, **others)
            found.append((before, list(loaded)))

    caching.function.cache_clear()
    monkeypatch.setattr(caching.Function, "_native", noted)
    monkeypatch.setattr(session, "Engine", Seen)
    ts.track(*head.series, mask=head.mask, nseeds=50, arch="cpu", **named)
    _, (before, after) = found  # the first compiles ahead
    assert before == after
    assert {name for name, _ in after} >= {"run_start", "run_advance", "run_unpack", "run_place_seed"}
