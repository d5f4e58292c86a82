"""Whole commands from files to a tractogram: rows, peers, failures, the report; and pyAFQ's asymmetric case."""

from __future__ import annotations

import importlib.machinery
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from reports import Page
from suite import cuslines, drawing, files, page
from suite.files import files_to_file
from suite.schedule import FullSchedule, scaled
from suite.tables import sections
from suite.targets import TARGETS

from tistreamlines.benchmarks import report, worker
from tistreamlines.benchmarks.cases import CASES, METHODS
from tistreamlines.benchmarks.problem import Problem, save_problem
from tistreamlines.space.sphere import load_sphere

TINY = scaled(CASES["demo"], 0.45)
ALL = ("cold", "warm", "cached")
PEERS = ("dipy-threads", "tckgen", "cuslines-numba")


def timed(target: str, kinds=ALL, method: str = "prob", **others) -> list[dict]:
    """The rows of a target on the tiny phantom."""
    if reason := TARGETS[target].missing():
        pytest.skip(reason)
    rows: list[dict] = []
    schedule = FullSchedule([TINY], [METHODS[method]], [TARGETS[target]], 100, repeat=1, whole=kinds, **others)
    files_to_file(schedule, lambda text: None, rows.append)
    return rows


def sound(row: dict) -> bool:
    """Whether stages fill the seconds, and streamlines were counted."""
    return row["status"] == "ok" and row["points"] > row["streamlines"] > 50 and (
        sum(row["stages"].values()) == pytest.approx(row["seconds"], abs=0.01)
    )


@pytest.mark.nightly
def test_a_command_is_faster_with_its_caches():
    """Nightly, since the first of these commands compiles all kernels."""
    cold, warm, cached = timed("cpu")
    assert [row["kind"] for row in (cold, warm, cached)] == list(ALL)
    assert all(map(sound, (cold, warm, cached)))
    assert cold["seconds"] > warm["seconds"] > cached["seconds"]
    assert "fit" in warm["stages"]
    assert "fit" not in cached["stages"]
    assert cold["points"] == warm["points"] == cached["points"]
    assert cold["device"]
    json.dumps(cold)


def markdown(results: dict) -> str:
    return report.markdown(sections(results))


@pytest.mark.nightly
@pytest.mark.parametrize("peer", ["dipy", *PEERS])
def test_a_peer_reads_files_and_writes_a_file(peer):
    """Nightly, since each is two commands, with fits of its own."""
    rows = timed(peer)
    assert [(row["kind"], row["arch"]) for row in rows] == [("cold", ""), ("warm", "")]
    for row in rows:
        assert sound(row), row["reason"]
        assert {"load", "fit", "track"} <= set(row["stages"])
        assert row["version"][0].isdigit()


@pytest.mark.parametrize(("target", "kinds"), [("dipy", ALL), ("dipy", ("warm",)), ("cpu", ALL)])
def test_the_first_process_has_empty_caches_and_the_next_those_of_the_first(monkeypatch, target, kinds):
    """Of CUDA, Numba and this package; a peer's first process is always reported."""
    contents: list[dict[str, int]] = []  # number of files in each cache of each process

    def run(module, time_limit, environment):
        caches = [Path(environment[name]) for name in ("XDG_CACHE_HOME", "CUDA_CACHE_PATH", "NUMBA_CACHE_DIR")]
        contents.append({cache.name: len(list(cache.glob("*"))) for cache in caches})
        for cache in caches:
            cache.mkdir(exist_ok=True)
            (cache / str(len(contents))).touch()
        (caches[0].parent / "stats.json").write_text('{"seconds": {}}')
        return "ok", ""

    monkeypatch.setattr(files, "run_module", run)
    monkeypatch.setattr(files, "counted", lambda _: (60, 70))
    monkeypatch.setitem(TARGETS, target, replace(TARGETS[target], missing=lambda: ""))
    rows: list[dict] = []
    schedule = FullSchedule([TINY], [METHODS["prob"]], [TARGETS[target]], 10, repeat=2, whole=kinds)
    files_to_file(schedule, lambda text: None, rows.append)
    assert [row["kind"] for row in rows] == (["cold", "warm", "cached"] if target == "cpu" else ["cold", "warm"])
    assert len({*contents[0]}) == 3
    assert [set(each.values()) for each in contents] == [{k} for k in range(len(contents))]
    assert [len(row["repeats"]) for row in rows[:2]] == [1, 2]


def test_both_processes_find_the_corrected_cuslines_at_one_place(monkeypatch, tmp_path):
    """Since compilers' caches go by the path of what is compiled."""
    published = tmp_path / "published" / "cuslines"
    (published / "cuda_c").mkdir(parents=True)
    (published / "__init__.py").touch()
    (published / "cuda_c" / "boot.cu").write_text("; ".join(cuslines.NARROW))
    spec = importlib.machinery.ModuleSpec("cuslines", None, origin=str(published / "__init__.py"))
    monkeypatch.setattr(cuslines.importlib.util, "find_spec", lambda _: spec)
    places = []
    for _ in range(2):
        monkeypatch.setattr(sys, "path", [*sys.path])
        cuslines.import_patched(tmp_path / "run")
        places.append(sys.path[0])
    assert places == [str(tmp_path / "run")] * 2
    assert (tmp_path / "run" / "cuslines" / "cuda_c" / "boot.cu").read_text() == "; ".join(cuslines.WIDE)


def test_a_command_that_fails_says_why(monkeypatch):
    monkeypatch.setattr(files, "run_module", lambda *_: ("failed", "no device (exit code 1)"))
    (row,) = timed("cpu", ("warm",))
    assert (row["status"], row["reason"]) == ("failed", "no device (exit code 1)")
    monkeypatch.setitem(TARGETS, "dipy", replace(TARGETS["dipy"], missing=lambda: "it is not installed"))
    rows: list[dict] = []
    schedule = FullSchedule([TINY], [METHODS["det"]], [TARGETS["dipy"]], 10, whole=ALL)
    files_to_file(schedule, lambda text: None, rows.append)
    assert (rows[0]["status"], rows[0]["reason"]) == ("missing", "it is not installed")


def test_the_report_has_a_table_and_bars():
    row = {
        "case": "brain", "dg": "prob", "model": "csd", "target": "cuda", "arch": "cuda", "kind": "warm",
        "nseeds": 20_000, "status": "ok", "reason": "", "seconds": 3.25, "streamlines": 31_837, "points": 1_629_645,
        "stages": {"load": 1.0, "fit": 1.5, "start and exit": 0.75},
    }
    failed = {**row, "target": "dipy", "arch": "", "status": "timeout", "reason": "stopped after 600 s"}
    del failed["stages"]
    results = {"schema": 1, "files": [row, failed]}
    text = markdown(results)
    assert "| cuda, warm | 3.25 | 0.750 | 1.00 | 1.50 | 31,837 | 1,629,645 |" in text
    slow = {**row, "target": "tckgen", "arch": "", "kind": "cold", "seconds": 200, "repeats": [200]}
    assert "| tckgen, cold | 200 |" in markdown({"schema": 1, "files": [row, slow]})
    assert "| dipy, warm | prob | timeout | stopped after 600 s |" in text
    assert "There are no runs" not in text
    drawn = Page(page.html(results))
    assert any(identity.startswith("files-") for identity in drawn.ids)
    assert "start and exit" in " ".join(drawn.words)
    assert set(drawing.FILE_PARTS) <= set(drawing.STAND_INS)


# ------------------------------------------------------------------------------------------------ asymmetric PMF
@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    save_problem(TINY, folder)
    return folder


def test_the_asymmetric_pmf_is_greater_along_z(tiny):
    problem = Problem(tiny, METHODS["prob-asymmetric"], 10)
    vertices = load_sphere("full")[0]
    assert problem.pmf.shape == (*problem.mask.shape, 724)
    up, opposite = vertices[:, 2].argmax(), (vertices @ vertices[vertices[:, 2].argmax()]).argmin()
    row = problem.pmf[problem.white]
    row = row[row[:, up] > 1e-6]
    assert len(row)
    assert row[:, up] / row[:, opposite] == pytest.approx(np.full(len(row), 3.0), rel=0.01)
    inside = problem.pmf[problem.white].sum(axis=-1)
    assert inside == pytest.approx(np.ones(len(inside)), rel=1e-4)


@pytest.mark.parametrize("target", ["cpu", "cuslines-numba"])
def test_the_asymmetric_case_is_tracked(tiny, tmp_path, target):
    if reason := TARGETS[target].missing():
        pytest.skip(reason)
    request = worker.Request(str(tiny), str(tmp_path), target, "prob-asymmetric", 200, repeat=1)
    row = worker.measure_target(request, TARGETS[target])
    assert row["streamlines"] > 100
    assert row["mean_mm"] > 10
