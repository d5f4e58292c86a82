"""The benchmark suite: runs, sweeps, what fails, planted faults, the command."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from commands import python
from dipy.data import default_sphere
from places import ROOT
from suite import comparison, mrtrix, schedule, sweeping
from suite import worker as suite_worker
from suite.compare import committed, compare
from suite.limits import shares
from suite.schedule import SWEEPS, Folders, FullSchedule, scaled
from suite.tables import sections
from suite.targets import TARGETS

from tistreamlines.benchmarks import report, suite, targets, worker
from tistreamlines.benchmarks.cases import CASES, METHODS
from tistreamlines.benchmarks.problem import Problem, save_problem
from tistreamlines.benchmarks.suite import machine
from tistreamlines.benchmarks.targets import Target
from tistreamlines.devices import choose
from tistreamlines.errors import InputError
from tistreamlines.space.harmonics import order_of, sampling_matrix
from tistreamlines.tracking.products.points.points import PointsOnHost

pytestmark = pytest.mark.filterwarnings("ignore:The legacy:PendingDeprecationWarning")
RESULTS = ROOT / "benchmarks" / "results"


# ------------------------------------------------------------------------------------------------------------ runs
@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The demo case: folder of the problem, and the phantom."""
    folder = tmp_path_factory.mktemp("problem")
    return folder, save_problem(CASES["demo"], folder)


def run_here(small, folder: Path, target: str, method: str, nseeds: int = 2000, **others) -> dict:
    """Results of one run in this process, as the suite puts them together."""
    request = worker.Request(str(small[0]), str(folder), target, method, nseeds, **others)
    answer = worker.measure_target(request, TARGETS[target])
    row = {"case": "demo", "dg": METHODS[method].dg, "model": METHODS[method].model, "target": target, "kind": "arch",
           "nseeds": nseeds, "threads": None, "chunk_size": None, "exact": True, "status": "ok", "reason": "",
           "density_correlation": {}}
    return {"schema": 1, "machine": machine(), "runs": [row | answer]}


@pytest.mark.parametrize("target", ["dipy", "dipy-threads"])
def test_peers_track_what_archs_track(small, tmp_path, target):
    theirs = run_here(small, tmp_path, target, "det", 300, repeat=1)["runs"][0]
    ours = run_here(small, tmp_path, "cpu", "det", 300, repeat=2)["runs"][0]
    assert ours["streamlines"] == pytest.approx(theirs["streamlines"], rel=0.01)
    assert ours["mean_mm"] == pytest.approx(theirs["mean_mm"], rel=0.02)
    assert len(ours["seconds"]["repeats"]) == 2
    assert ours["seconds"]["track"] == ours["seconds"]["repeats"][1]
    assert theirs["sha256"] == ""


def test_devices_that_share_the_seeds(small, tmp_path, monkeypatch):
    """What is known of one device only is unknown; two workers on the CPU stand for two GPUs."""
    one = run_here(small, tmp_path, "cpu", "det", 300)["runs"][0]
    for module in (targets, worker):
        monkeypatch.setattr(module, "devices_of", lambda arch, problem: [choose("cpu")] * 2)
    results = run_here(small, tmp_path, "cpu", "det", 300)
    two = results["runs"][0]
    assert two["sha256"] == one["sha256"]
    assert (one["devices"], two["devices"]) == (None, 2)
    assert two["device"].startswith("2 x ")
    unknown = {"work", "peak_host_bytes", "device_bytes", "copied_bytes"}
    assert {name for name, value in two.items() if value is None and name in unknown} == unknown
    assert one["work"]
    assert two["seconds"]["stages"] == {}
    assert "2 devices" in report.markdown(sections(results))


def test_a_planted_slowdown_is_found(small, tmp_path, monkeypatch):
    clean = run_here(small, tmp_path, "cpu", "boot", 500)
    assert not compare(clean, clean)
    place = PointsOnHost._gather

    def slowly(*arguments):
        time.sleep(0.3)
        return place(*arguments)

    monkeypatch.setattr(PointsOnHost, "_gather", slowly)
    findings = compare(run_here(small, tmp_path, "cpu", "boot", 500), clean)
    assert findings
    assert {finding.kind for finding in findings} == {"slower"}
    assert any("pack" in str(finding) for finding in findings)


def test_a_planted_wrong_result_is_found_against_the_committed_results(small, tmp_path, monkeypatch):
    """On another machine tables may be rounded otherwise, and the bits with them; figures may not."""
    before = committed(RESULTS)
    clean = run_here(small, tmp_path, "cpu", "det", repeat=1)
    cpus = {results["machine"]["cpu"] for results in before}
    allowed = {"slower"} if clean["machine"]["cpu"] in cpus else {"slower", "other bits"}
    assert {finding.kind for finding in compare(clean, *before)} <= allowed
    monkeypatch.setitem(METHODS, "det", replace(METHODS["det"], max_angle=30.0))
    kinds = {finding.kind for finding in compare(run_here(small, tmp_path, "cpu", "det", repeat=1), *before)}
    assert kinds >= {"other bits", "other figures"}


@pytest.mark.parametrize(
    "found", [found for found in committed(RESULTS) if not found.get("files")], ids=lambda found: found["command"][:60]
)
def test_archs_agree_in_committed_results(found):
    assert any(run["status"] == "ok" for run in found["runs"])
    for key in {(run["case"], run["dg"], run["model"]) for run in found["runs"]}:
        hashes = {
            run["sha256"] for run in found["runs"]
            if run["kind"] == "arch" and run["status"] == "ok" and (run["case"], run["dg"], run["model"]) == key
        }
        assert len(hashes) <= 1


# -------------------------------------------------------------------------------------------------- what goes wrong
def test_runs_that_crash_hang_or_are_missing_are_told_and_the_rest_goes_on(monkeypatch):
    asked = []

    def ran(module, time_limit):
        asked.append(json.loads(Path(module[1]).read_text())["target"])
        if asked[-1] == "dipy":
            return "timeout", f"stopped after {time_limit:g} s."
        if asked[-1] == "tckgen":
            return "failed", "illegal instruction (signal 4)"
        return run(module, time_limit)

    run = suite.run_module
    monkeypatch.setattr(suite, "run_module", ran)
    absent = Target("absent", "nobody", "peer", ("prob",), lambda: "it is not installed", TARGETS["dipy"].open)
    targets = [TARGETS["dipy"], replace(TARGETS["tckgen"], missing=lambda: ""), absent, TARGETS["cpu"]]
    monkeypatch.setattr(comparison, "device_limits", lambda targets, time_limit, report: {})
    told, kept = [], []
    schedule = FullSchedule([CASES["demo"]], [METHODS["prob"]], targets, 200, repeat=1, time_limit=300)
    results = comparison.benchmark(schedule, told.append, keep=lambda found: kept.append(len(found["runs"])))
    assert kept == [4]
    assert asked == ["dipy", "tckgen", "cpu"]
    assert [r["status"] for r in results["runs"]] == ["timeout", "failed", "missing", "ok"]
    assert "signal 4" in results["runs"][1]["reason"]
    assert results["runs"][3]["truth"]["bundles"] > 5
    assert any("nobody" in line for line in told)
    json.dumps(results)


@pytest.fixture
def run_instead(tmp_path, monkeypatch):
    """Put a program of one's own in the worker's place."""

    def put(body: str) -> None:
        script = tmp_path / "python"
        script.write_text(f"#!{sys.executable}\n{body}\n")
        script.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(script))

    return put


@pytest.mark.parametrize(("body", "status", "said"), [
    ("import time; time.sleep(60)", "timeout", "stopped after 1 s"),
    ("import os; print('no device', file=__import__('sys').stderr, flush=True); os.abort()", "failed", "no device"),
    ("raise SystemExit('bad driver')", "failed", "bad driver (exit code 1)"),
])
def test_a_process_that_ends_badly_says_how(run_instead, body, status, said):
    run_instead(body)
    answer = suite.run_module(["tistreamlines.benchmarks.worker", "request.json"], 1.0)
    assert answer[0] == status
    assert said in answer[1]


def test_limits_that_cannot_be_measured_say_why(run_instead):
    run_instead("raise SystemExit('cpu: gets 5 values wrong')")
    limits = comparison.device_limits([TARGETS["cpu"], TARGETS["dipy"]], 10.0, print)
    assert limits == {"cpu": {"reason": "cpu: gets 5 values wrong"}}
    assert shares({"points_per_second": 1.0}, limits["cpu"], 1.0, 1.0) is None
    assert "cpu: gets 5 values wrong" in report.markdown(sections({"limits": limits}))


def test_what_a_process_started_ends_with_it(tmp_path, run_instead):
    beats = tmp_path / "beats"
    child = f"""import time, pathlib
while True:
    pathlib.Path({str(beats)!r}).write_text(str(time.time()))
    time.sleep(0.05)
"""
    run_instead(f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {child!r}])")
    assert suite.run_module(["suite.worker", "request.json"], 2.0)[0] == "timeout"
    last = beats.read_text()
    time.sleep(0.3)
    assert beats.read_text() == last


# ---------------------------------------------------------------------------------------------------------- sweeps
def test_sweeps_are_runs_of_their_own(small, monkeypatch):
    """What varies is what a worker is asked for; what cannot vary here is left out."""
    asked = []

    def ran(module, time_limit):
        request = suite_worker.SweepRequest(**json.loads(Path(module[1]).read_text()))
        asked.append(request)
        rows = {"sweep": [[count, 0.1, 50 * count, 2**20] for count in request.counts]}
        (Path(request.folder) / "run.json").write_text(json.dumps(rows))
        return "ok", ""

    monkeypatch.setattr(sweeping, "run_module", ran)
    monkeypatch.setattr(sweeping, "usable_cores", lambda: 4)
    schedule = FullSchedule([CASES["demo"]], [METHODS["prob"]], [TARGETS["cpu"]], 5000)
    folders = Folders(small[0], CASES["demo"], schedule)
    folders._made[1.0] = small

    def values(name: str) -> list:
        asked.clear()
        return sweeping.swept(SWEEPS[name], METHODS["prob"], TARGETS["cpu"], folders, schedule)[0]["values"]

    assert values("seeds") == [1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000]
    assert [request.nseeds for request in asked] == [1_000_000]
    assert values("threads") == [request.threads for request in asked] == [1, 2, 4]
    assert values("chunk") == [request.chunk_size for request in asked] == [64, 256, 1024, 4096]
    assert values("sphere") == [181, 362, 724]
    assert [request.changes for request in asked] == [{"sphere": name} for name in ("small", "default", "full")]
    assert values("order") == [request.changes["order"] for request in asked] == [2, 4, 6, 8]
    assert all(request.nseeds == 5000 for request in asked)
    own = replace(CASES["demo"], phantom=None)
    assert not sweeping.swept(SWEEPS["voxels"], METHODS["prob"], TARGETS["cpu"],
                              Folders(small[0], own, schedule), schedule)


def test_a_sweep_is_in_rising_order_of_memory_and_stops_in_time(small, tmp_path, monkeypatch):
    """Seconds are said to be a thousandth of the seeds, so that the machine's speed does not matter."""

    def opened(asked):
        session = cpu.open(asked)
        return lambda count, keep: replace(session(count, keep), seconds=count / 1000)

    cpu = TARGETS["cpu"]
    monkeypatch.setitem(TARGETS, "cpu", replace(cpu, open=opened))
    request = suite_worker.SweepRequest(str(small[0]), str(tmp_path), "cpu", "prob", 100_000, seconds=90.0,
                                        counts=(100, 1000, 100_000))
    rows = suite_worker.swept(request)["sweep"]
    assert [row[0] for row in rows] == [100, 1000]
    assert rows[0][2] < rows[1][2]
    assert 2**26 < rows[0][3] <= rows[1][3]
    small_sphere = replace(request, changes={"sphere": "small"}, counts=(1000,), nseeds=1000)
    other = suite_worker.swept(small_sphere)["sweep"][0]
    assert other[2] != rows[1][2]


def test_the_phantom_of_a_sweep_over_voxels_is_the_same_head():
    half = scaled(CASES["phantom"], 0.5)
    assert half.phantom["shape"] == (40, 53, 38)
    assert half.phantom["voxel_mm"] == 4.0
    assert half.name == "phantom"


def test_a_failed_download_is_one_line(monkeypatch):
    from dipy.data import fetcher

    def fails(**_):
        raise fetcher.FetcherError("Failed to download dwi.nii.gz")

    monkeypatch.setattr("dipy.data.get_fnames", fails)
    with pytest.raises(InputError, match=r"stanford: DIPY cannot download it .*name other cases"):
        schedule.stanford()


# ----------------------------------------------------------------------------------------------------- the command
USERS, DEVELOPERS = ("-m", "tistreamlines", "benchmark"), (ROOT / "benchmarks" / "suite",)


def command(program: tuple, *arguments: str, folder: Path):
    return python(*program, *arguments, "--out", folder / "found", timeout=600)


@pytest.mark.parametrize("program", [USERS, DEVELOPERS])
def test_the_command_writes_three_reports(tmp_path, program):
    """With a software Vulkan device, where there is one, beside the CPU."""
    archs = [name for name in ("cpu", "vulkan") if not TARGETS[name].missing()]
    more = ("--sweeps", "threads") if program is DEVELOPERS else ()
    done = command(program, "--nseeds", "40", "--archs", ",".join(archs), "--peers", "dipy-threads", "--dg", "det",
                   *more, "--repeat", "1", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "found").iterdir()} == {"results.json", "report.md", "report.html"}
    results = json.loads((tmp_path / "found" / "results.json").read_text())
    assert [(run["dg"], run["target"], run["status"]) for run in results["runs"]] == [
        ("det", name, "ok") for name in (*archs, "dipy-threads")
    ]
    assert all(run["identical"] == {"cpu": 1.0} for run in results["runs"] if run["target"] == "vulkan")
    assert all((run["copied_bytes"] or 0) > 0 for run in results["runs"] if run["target"] == "vulkan")
    assert "dipy-threads" in done.stdout
    if more:
        assert set(results["limits"]) == set(archs)
        threads = [sweep for sweep in results["sweeps"] if sweep["name"] == "threads"]
        assert {sweep["target"] for sweep in threads} == {"cpu", "dipy-threads"}
        assert all(points > 1000 for sweep in threads for points in sweep["points"])
        assert results["limits"]["cpu"]["bytes_per_second"] > 0


@pytest.mark.parametrize(("program", "arguments", "said"), [
    (USERS, ("--cases", "nowhere"), "choose from demo, phantom (python benchmarks/suite, in a copy"),
    (USERS, ("--dg", "magic"), "choose from boot"),
    (USERS, ("--peers", "tckgen"), "choose from dipy, dipy-threads (python benchmarks/suite, in a copy"),
    (USERS, ("one.nii.gz",), "give all of DWI, BVALS and BVECS"),
    (USERS, ("--sweeps", "seeds"), "--sweeps is an option of the developers' benchmark: python benchmarks/suite, in a"),
    (USERS, ("--files-to-file", "cold"), "--files-to-file is an option of the developers' benchmark: python"),
    (USERS, ("--against", "results"), "--against is an option of the developers' benchmark: python benchmarks/suite"),
    (USERS, ("--fetch",), "--fetch is an option of the developers' benchmark: python benchmarks/suite"),
    (DEVELOPERS, ("--cases", "nowhere"), "choose from demo, phantom, stanford"),
    (DEVELOPERS, ("--sweeps", "moons"), "choose from seeds"),
    (DEVELOPERS, ("--peers", "someone"), "choose from dipy"),
    (DEVELOPERS, ("--cases", "stanford"), "add --fetch"),
    (DEVELOPERS, ("--files-to-file", "hot"), "choose from cold, warm, cached"),
    (DEVELOPERS, ("--files-to-file", "cold", "--dg", "prob-asymmetric"), "leave it out of --dg"),
    (DEVELOPERS, ("--against", "nowhere"), "give --against a folder that does"),
])
def test_what_cannot_be_is_one_line(tmp_path, program, arguments, said):
    done = command(program, *arguments, folder=tmp_path)
    assert done.returncode in (1, 2)
    assert said in " ".join(done.stderr.split())
    assert not list(tmp_path.iterdir())


def test_harmonics_are_turned_to_the_axes_of_the_world(small):
    problem = Problem(small[0], METHODS["det"], 10)
    vertices = default_sphere.vertices
    turn = problem.space.affine[:3, :3] / problem.space.voxel_sizes
    assert turn[0, 0] == -1  # the phantom's x axis points to the left
    order = order_of(problem.csd.shape[-1])
    white = problem.fa > 0.4
    here, there = problem.csd[white], mrtrix.in_world(problem)[white]
    expected = here @ sampling_matrix(vertices, order, "descoteaux07_legacy").T
    got = there @ sampling_matrix(vertices @ turn.T, order, "descoteaux07_legacy").T
    assert np.abs(got - expected).max() < 1e-5 * np.abs(expected).max()
