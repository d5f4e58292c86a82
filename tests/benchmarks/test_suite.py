"""The benchmark suite: runs, sweeps, what fails, planted faults, the command."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
import pytest
from commands import python
from dipy.data import default_sphere
from places import ROOT
from suite import comparison, mrtrix, schedule, sweeping
from suite import worker as suite_worker
from suite.__main__ import command as developers_command
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


@pytest.mark.nightly
def test_peers_track_what_archs_track(small, tmp_path):
    """Nightly: by day, the command runs beside DIPY."""
    ours = run_here(small, tmp_path, "cpu", "det", 300, repeat=2)["runs"][0]
    for target in ("dipy", "dipy-threads"):
        theirs = run_here(small, tmp_path, target, "det", 300, repeat=1)["runs"][0]
        assert ours["streamlines"] == pytest.approx(theirs["streamlines"], rel=0.01)
        assert ours["mean_mm"] == pytest.approx(theirs["mean_mm"], rel=0.02)
        assert theirs["sha256"] == ""
    assert len(ours["seconds"]["repeats"]) == 2
    assert ours["seconds"]["track"] == ours["seconds"]["repeats"][1]


@pytest.mark.nightly
def test_devices_that_share_the_seeds(small, tmp_path, monkeypatch):
    """What is known of one device only is unknown; two workers on the CPU stand for two GPUs.

    Nightly, since it seldom fails.
    """
    single = run_here(small, tmp_path, "cpu", "det", 300)["runs"][0]
    for module in (targets, worker):
        monkeypatch.setattr(module, "devices_of", lambda arch, problem: [choose("cpu")] * 2)
    results = run_here(small, tmp_path, "cpu", "det", 300)
    two = results["runs"][0]
    assert two["sha256"] == single["sha256"]
    assert (single["devices"], two["devices"]) == (None, 2)
    assert two["device"].startswith("2 x ")
    unknown = {"work", "peak_host_bytes", "device_bytes", "copied_bytes"}
    assert {name for name, value in two.items() if value is None and name in unknown} == unknown
    assert single["work"]
    assert two["seconds"]["stages"] == {}
    assert "2 devices" in report.markdown(sections(results))


@pytest.mark.nightly
def test_a_planted_slowdown_is_found(small, tmp_path, monkeypatch):
    clean = run_here(small, tmp_path, "cpu", "det", 300)
    assert not compare(clean, clean)
    place = PointsOnHost._gather

    def slowly(*arguments):
        time.sleep(0.3)
        return place(*arguments)

    monkeypatch.setattr(PointsOnHost, "_gather", slowly)
    findings = compare(run_here(small, tmp_path, "cpu", "det", 300), clean)
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


def test_archs_agree_in_committed_results():
    for results in (results for results in committed(RESULTS) if not results.get("files")):
        ended = [run for run in results["runs"] if run["status"] == "ok"]
        assert ended, results["command"]
        hashes: dict[tuple, set[str]] = {}
        for run in (run for run in ended if run["kind"] == "arch"):
            hashes.setdefault((run["case"], run["dg"], run["model"]), set()).add(run["sha256"])
        assert all(len(each) == 1 for each in hashes.values()), (results["command"], hashes)


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
    lines, kept = [], []
    schedule = FullSchedule([CASES["demo"]], [METHODS["prob"]], targets, 200, repeat=1, time_limit=300)
    results = comparison.benchmark(schedule, lines.append, keep=lambda results: kept.append(len(results["runs"])))
    assert kept == [4]
    assert asked == ["dipy", "tckgen", "cpu"]
    assert [r["status"] for r in results["runs"]] == ["timeout", "failed", "missing", "ok"]
    assert "signal 4" in results["runs"][1]["reason"]
    assert results["runs"][3]["truth"]["bundles"] > 5
    assert any("nobody" in line for line in lines)
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


@pytest.mark.parametrize(("body", "status", "words"), [
    ("import time; time.sleep(60)", "timeout", "stopped after 1 s"),
    ("import os; print('no device', file=__import__('sys').stderr, flush=True); os.abort()", "failed", "no device"),
    ("raise SystemExit('bad driver')", "failed", "bad driver (exit code 1)"),
])
def test_a_process_that_ends_badly_says_how(run_instead, body, status, words):
    run_instead(body)
    answer = suite.run_module(["tistreamlines.benchmarks.worker", "request.json"], 1.0)
    assert answer[0] == status
    assert words in answer[1]


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
    measured = replace(CASES["demo"], phantom=None)
    assert not sweeping.swept(SWEEPS["voxels"], METHODS["prob"], TARGETS["cpu"],
                              Folders(small[0], measured, schedule), schedule)


@pytest.mark.nightly
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
    return python(*program, *arguments, "--out", folder / "results", timeout=600)


def test_the_command_writes_three_reports(tmp_path):
    """On the CPU, beside DIPY."""
    results = reported(USERS, ("cpu",), folder=tmp_path)
    assert "limits" not in results


@pytest.mark.nightly
def test_the_developers_benchmark_writes_three_reports(tmp_path):
    """With a software Vulkan device, where there is one, and with sweeps; nightly, since each run starts a process."""
    archs = tuple(name for name in ("cpu", "vulkan") if not TARGETS[name].missing())
    results = reported(DEVELOPERS, archs, "--sweeps", "threads", folder=tmp_path)
    assert set(results["limits"]) == set(archs)
    threads = [sweep for sweep in results["sweeps"] if sweep["name"] == "threads"]
    assert {sweep["target"] for sweep in threads} == {"cpu", "dipy-threads"}
    assert all(points > 1000 for sweep in threads for points in sweep["points"])
    assert results["limits"]["cpu"]["bytes_per_second"] > 0


def reported(program: tuple, archs: tuple[str, ...], *more: str, folder: Path) -> dict:
    """Results that a command writes beside two reports, of each arch and of DIPY."""
    outcome = command(program, "--nseeds", "40", "--archs", ",".join(archs), "--peers", "dipy-threads", "--dg", "det",
                      *more, "--repeat", "1", folder=folder)
    assert outcome.returncode == 0, outcome.stderr
    assert {path.name for path in (folder / "results").iterdir()} == {"results.json", "report.md", "report.html"}
    results = json.loads((folder / "results" / "results.json").read_text())
    assert [(run["dg"], run["target"], run["status"]) for run in results["runs"]] == [
        ("det", name, "ok") for name in (*archs, "dipy-threads")
    ]
    assert all(run["identical"] == {"cpu": 1.0} for run in results["runs"] if run["target"] == "vulkan")
    assert all((run["copied_bytes"] or 0) > 0 for run in results["runs"] if run["target"] == "vulkan")
    assert "dipy-threads" in outcome.stdout
    return results


@pytest.mark.parametrize(("arguments", "words"), [
    (("--cases", "nowhere"), "choose from demo, phantom (python benchmarks/suite, in a copy"),
    (("--dg", "magic"), "choose from boot"),
    (("--peers", "tckgen"), "choose from dipy, dipy-threads (python benchmarks/suite, in a copy"),
    (("one.nii.gz",), "give all of DWI, BVALS and BVECS"),
    *(((name, *value), f"{name} is an option of the developers' benchmark: python benchmarks/suite, in a")
      for name, *value in (("--sweeps", "seeds"), ("--files-to-file", "cold"), ("--against", "results"), ("--fetch",))),
])
def test_what_cannot_be_is_one_line(tmp_path, run, arguments, words):
    outcome = run("benchmark", *arguments, "--out", tmp_path / "results")
    assert outcome.code in (1, 2)
    assert words in " ".join(outcome.err.split())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("arguments", "words"), [
    (("--cases", "nowhere"), "choose from demo, phantom, stanford"),
    (("--sweeps", "moons"), "choose from seeds"),
    (("--peers", "someone"), "choose from dipy"),
    (("--cases", "stanford"), "add --fetch"),
    (("--files-to-file", "hot"), "choose from cold, warm, cached"),
    (("--files-to-file", "cold", "--dg", "prob-asymmetric"), "leave it out of --dg"),
    (("--against", "nowhere"), "contains no benchmark results"),
])
def test_what_the_developers_benchmark_cannot_do_is_one_line(tmp_path, arguments, words):
    with pytest.raises((click.ClickException, InputError)) as raised:
        developers_command([*arguments, "--out", str(tmp_path / "results")], standalone_mode=False)
    assert words in str(raised.value)
    assert not list(tmp_path.iterdir())


def test_the_developers_benchmark_is_a_program(tmp_path):
    outcome = command(DEVELOPERS, "--cases", "nowhere", folder=tmp_path)
    assert outcome.returncode == 2
    assert "choose from demo, phantom, stanford" in outcome.stderr


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
