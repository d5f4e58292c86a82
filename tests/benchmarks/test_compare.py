"""Benchmark results beside earlier ones: each finding, and what is no finding."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from suite.compare import committed, compare


def device(arch: str, name: str, driver: str) -> dict[str, Any]:
    return {"arch": arch, "name": name, "driver": driver, "memory_bytes": 2**34}


DEVICES = [device("cpu", "AMD EPYC", ""), device("cuda", "NVIDIA H200", "580")]


def run(target: str = "cpu", **changes: Any) -> dict[str, Any]:
    """A run of the phantom that went well; names of its seconds change these."""
    seconds = {
        "compile": 1.0, "prepare": 2.0, "write": 0.3, "total": 5.0, "track": 1.2, "track_least": 1.18,
        "track_greatest": 1.22, "repeats": [1.18, 1.2, 1.22], "stages": {"grow": 1.0, "pack": 0.002},
    }
    fields = {
        "case": "phantom", "dg": "boot", "model": "opdt", "target": target, "kind": "arch", "nseeds": 1000,
        "threads": 2 if target == "cpu" else None, "chunk_size": None, "exact": True, "status": "ok", "reason": "",
        "streamlines": 2000, "mean_points": 80.0, "sha256": "aa" * 32, "density_correlation": {"dipy": 0.95},
    }
    seconds |= {name: changes.pop(name) for name in list(changes) if name in seconds}
    return fields | {"seconds": seconds} | changes


def results(*runs: dict[str, Any], cpu: str = "AMD EPYC", cores: int = 2, devices: Any = DEVICES) -> dict[str, Any]:
    return {
        "schema": 1, "created": "2026-01-01T00:00:00Z", "machine": {"cpu": cpu, "cores": cores, "devices": devices},
        "runs": list(runs),
    }


def findings(new: Any, old: Any, **options: Any) -> list[tuple[str, str]]:
    """Kinds and lines of the findings between runs, or whole results."""
    new, old = (r if "runs" in r else results(r) for r in (new, old))
    return [(finding.kind, str(finding)) for finding in compare(new, old, **options)]


def slow_run(target: str = "cpu", **changes: Any) -> dict[str, Any]:
    return run(target, **{"track": 1.93, "repeats": [1.9, 1.93, 1.95], **changes})


# ---------------------------------------------------------------------------------------------------------- times
def test_equal_runs_have_no_finding():
    assert findings(run(), run()) == []


def test_slower_tracking_is_found():
    assert findings(slow_run(), run()) == [("slower", "phantom boot cpu: track 1.93 s, was 1.20 s (1.6 times)")]
    assert findings(run(), slow_run()) == []


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"prepare": 4.0}, "phantom boot cpu: prepare 4.00 s, was 2.00 s (2 times)"),
        ({"write": 0.45}, "phantom boot cpu: write 0.45 s, was 0.30 s (1.5 times)"),
        ({"stages": {"grow": 1.4, "pack": 0.002}}, "phantom boot cpu: grow 1.40 s, was 1.00 s (1.4 times)"),
        ({"stages": {"grow": 1.0, "pack": 0.05}}, "phantom boot cpu: pack 50 ms, was 2 ms (25 times)"),
    ],
)
def test_a_slower_stage_is_found(changes, line):
    assert findings(run(**changes), run()) == [("slower", line)]


@pytest.mark.parametrize(
    "changes",
    [
        {"compile": 30.0, "total": 35.0},
        {"stages": {"grow": 1.2, "pack": 0.0049}},
        {"stages": {"grow": 1.0, "pack": 0.006}},
        {"stages": {"grow": 1.0, "pack": 0.002, "sort": 3.0}},
        {"track": 1.45},
        {"track": None, "prepare": None},
    ],
    ids=["compile", "short stage", "hardly long enough", "a new stage", "below the factor", "unknown"],
)
def test_what_is_no_slower(changes):
    assert findings(run(**changes), run()) == []


def test_the_factor_is_the_callers():
    assert findings(slow_run(), run(), slower=1.7) == []
    assert len(findings(run(track=1.45), run(), slower=1.1)) == 1


@pytest.mark.parametrize("noisy", ["new", "old"])
def test_noise_within_the_spread_is_no_finding(noisy):
    if noisy == "new":
        new, old = slow_run(repeats=[1.1, 1.93, 2.2]), run()
    else:
        new, old = slow_run(), run(repeats=[1.0, 1.2, 2.0])
    assert findings(new, old) == []
    # what is beyond it is
    new["seconds"] |= {"track": 9.0, "repeats": [8.0, 9.0, 10.0]}
    assert [kind for kind, _ in findings(new, old)] == ["slower"]


def test_a_noisy_runs_stages_waver_as_much():
    noisy = {"repeats": [0.9, 1.2, 1.7], "stages": {"grow": 1.5, "pack": 0.002}}
    assert findings(run(**noisy), run()) == []


@pytest.mark.parametrize(
    "other",
    [
        {"cpu": "Intel Xeon"},
        {"cores": 96},
        {"devices": [device("cpu", "AMD EPYC 9654", "")]},
    ],
)
def test_other_machines_speeds_are_not_judged(other):
    assert findings(results(slow_run()), results(run(), **other)) == []
    # their bits and figures are
    changed = slow_run(sha256="bb" * 32, streamlines=2100)
    kinds = [kind for kind, _ in findings(results(changed), results(run(), **other))]
    assert kinds == ["other bits", "other figures"]


def test_another_gpu_matters_to_what_runs_on_it():
    other = [DEVICES[0], device("cuda", "NVIDIA A100", "580")]
    peer = {"kind": "peer", "exact": None, "sha256": ""}
    for target, changes, count in (("cpu", {}, 1), ("cuda", {}, 0), ("cuslines-cuda", peer, 0)):
        new, old = results(slow_run(target, **changes)), results(run(target, **changes), devices=other)
        assert len(findings(new, old)) == count, target
        assert len(findings(new, results(*old["runs"]))) == 1, target


def test_a_new_driver_is_no_other_machine():
    updated = [DEVICES[0], device("cuda", "NVIDIA H200", "590")]
    assert len(findings(results(slow_run("cuda")), results(run("cuda"), devices=updated))) == 1


def test_times_with_other_threads_are_not_judged():
    assert findings(slow_run(threads=1), run()) == []
    both = results(run(threads=1, track=9.0, repeats=[9.0]), run())
    assert len(findings(slow_run(), both)) == 1
    chunks = results(run(chunk_size=137, track=9.0, repeats=[9.0]), run(chunk_size=5000))
    assert findings(slow_run(chunk_size=137), chunks) == []
    assert findings(slow_run(devices=2), run()) == []
    # another size by itself may be what has made it slower
    assert len(findings(slow_run(chunk_size=5000), chunks)) == 1
    assert len(findings(slow_run(chunk_size=600), run())) == 1


# ---------------------------------------------------------------------------------------------- bits and figures
def test_other_bits_are_found():
    line = "phantom boot cpu: other bits, sha256 bbbbbbbb, was aaaaaaaa"
    assert findings(run(sha256="bb" * 32), run()) == [("other bits", line)]


@pytest.mark.parametrize("changes", [{"exact": False}, {"exact": None, "sha256": ""}, {"sha256": ""}])
def test_bits_of_inexact_runs_and_peers_are_not_judged(changes):
    assert findings(run(**{"sha256": "bb" * 32} | changes), run(**changes)) == []


@pytest.mark.parametrize("changes", [{"nseeds": 500}, {"model": "csa"}, {"dg": "prob"}, {"case": "brain"}])
def test_other_problems_are_not_compared(changes):
    assert findings(slow_run(sha256="bb" * 32, **changes), run()) == []


def test_archs_that_differ_are_found():
    new = results(run(), run("vulkan"), run("cuda", sha256="bb" * 32))
    line = "phantom boot: bits of cpu and vulkan differ from those of cuda"
    assert findings(new, new) == [("archs differ", line)]
    assert [str(finding) for finding in compare(new)] == [line]
    assert findings(results(run(), run("cuda", sha256="bb" * 32, exact=False)), {"runs": []}) == []
    assert findings(results(run(), run("cuda", sha256="bb" * 32, nseeds=5)), {"runs": []}) == []
    assert findings(results(run(), run("cuda", sha256="bb" * 32, status="failed")), {"runs": []}) == []


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"streamlines": 2031}, "streamlines 2,031, was 2,000 (+1.6 %)"),
        ({"streamlines": 2_000_000}, "streamlines 2,000,000, was 2,000 (+99900.0 %)"),
        ({"mean_points": 78.0}, "mean points 78, was 80 (-2.5 %)"),
        ({"density_correlation": {"dipy": 0.92}}, "density correlation with dipy 0.920, was 0.950"),
    ],
)
def test_other_figures_are_found(changes, what):
    assert findings(run(**changes), run()) == [("other figures", f"phantom boot cpu: {what}")]


@pytest.mark.parametrize(
    "changes",
    [
        {"streamlines": 2019, "mean_points": 79.0, "density_correlation": {"dipy": 0.94, "tckgen": 0.1}},
        {"streamlines": None, "mean_points": None, "density_correlation": None},
        {"density_correlation": {}},
    ],
)
def test_figures_close_to_the_old_ones_or_unknown_are_no_finding(changes):
    assert findings(run(**changes), run()) == []


# ----------------------------------------------------------------------------------------------------- lost runs
def test_a_lost_run_is_found():
    failed = {"status": "failed", "reason": "out of memory", "seconds": None, "sha256": "", "streamlines": None}
    assert findings(run(**failed), run()) == [("lost", "phantom boot cpu: failed (out of memory), was ok")]
    assert findings(run(status="timeout"), run()) == [("lost", "phantom boot cpu: timeout, was ok")]
    assert findings(run(**failed), run(**failed)) == []
    assert findings(run(**failed | {"status": "missing"}), run()) == []
    assert findings(run(), run(**failed)) == []


@pytest.mark.parametrize("old", [{}, {"runs": []}, results()])
def test_nothing_to_compare_with_is_no_finding(old):
    assert compare(results(slow_run(), run("cuda")), old) == []
    assert compare(results(), results(run())) == []


def test_names_say_in_what_runs_differ():
    runs = [run(), run(model="csa"), run(exact=False, sha256=""), run("dipy", exact=None, sha256="", model=None)]
    slow = copy.deepcopy(runs)
    for each in slow:
        each["seconds"]["track"] = 2.4
    names = [finding.where for finding in compare(results(*slow), results(*runs))]
    assert names == ["phantom boot cpu opdt exact", "phantom boot cpu csa exact", "phantom boot cpu opdt fast",
                     "phantom boot dipy"]


# ---------------------------------------------------------------------------------------- which one is set beside
def test_the_earlier_run_is_the_most_alike_and_the_newest():
    here, there = results(run()), results(slow_run(sha256="f" * 64))
    there["machine"] = there["machine"] | {"cpu": "another"}
    old = results(run()) | {"created": "2025-01-01"}
    old["runs"][0]["streamlines"] = 5
    assert compare(results(run()), old, here | {"created": "2026-01-01"}, there | {"created": "2027-01-01"}) == []
    kinds = {finding.kind for finding in compare(results(run()), there | {"created": "2027-01-01"})}
    assert kinds == {"other bits"}  # another machine's times are not judged
    kinds = {finding.kind for finding in compare(results(run()), old | {"created": "2027-01-01"}, here)}
    assert kinds == {"other figures"}


def test_committed_results_are_all_of_the_schema(tmp_path):
    assert committed(tmp_path) == []
    for name, created in {"b": "2026-01-02", "a": "2026-03-01"}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(results() | {"created": created}))
    (tmp_path / "other.json").write_text(json.dumps({"what": "bandwidth", "created": "2027-01-01"}))
    (tmp_path / "later.json").write_text(json.dumps(results() | {"schema": 2, "created": "2027-01-01"}))
    (tmp_path / "list.json").write_text("[1, 2]")
    (tmp_path / "torn.json").write_text('{"schema": 1, "created": "2028')
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    assert [results["created"] for results in committed(tmp_path)] == ["2026-03-01", "2026-01-02"]
    assert committed(tmp_path / "nowhere") == []
