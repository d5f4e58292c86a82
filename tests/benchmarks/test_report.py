"""Reports of a benchmark say what the results say, and nothing is lost when they cannot be written."""

from __future__ import annotations

import copy
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT
from reports import EVIL, HASH, Page, cells, made_up, named, part_of, sweep
from suite import page, report, sweep_tables
from suite.tables import sections

from tistreamlines import benchmarks
from tistreamlines.benchmarks import tables
from tistreamlines.benchmarks.report import markdown as markdown_of
from tistreamlines.errors import OutputError


def markdown(results: dict) -> str:
    return markdown_of(sections(results))


@pytest.fixture
def results():
    return made_up()


@pytest.fixture
def undrawn():
    """Results whose page has few plots."""
    return made_up() | {"densities": {}, "lengths": {}, "sweeps": []}


@pytest.fixture(scope="module")
def html():
    """The page of all these results."""
    return page.html(made_up())


def test_markdown_has_the_numbers(results):
    row = named(markdown(results), "brain, boot", "cuda")
    fastest = results["runs"][1]
    assert float(row["Mpoints/s"]) == pytest.approx(fastest["points_per_second"] / 1e6, rel=5e-3)
    assert float(row["track, s"]) == pytest.approx(fastest["seconds"]["track"], rel=5e-3)
    assert float(row["least, s"]) == pytest.approx(fastest["seconds"]["track_least"], rel=5e-3)
    assert float(row["greatest, s"]) == pytest.approx(fastest["seconds"]["track_greatest"], rel=5e-3)
    assert int(row["streamlines"].replace(",", "")) == fastest["streamlines"]
    assert (row["mean, mm"], row["median, mm"]) == ("25.1", "17.0")
    assert row["density correlation with dipy"] == "0.9963"
    assert row["KS of lengths with dipy"] == "0.0110"
    assert row["sha256"] == HASH[:12]


def test_speed_up_is_over_the_cpu_or_else_the_slowest(results):
    beside = "times cpu (2 threads)"
    assert float(named(markdown(results), "brain, boot", "cuda")[beside]) == pytest.approx(
        124_321 / 742, rel=5e-3
    )
    results["runs"] = [run for run in results["runs"] if run["target"] != "cpu" and run["dg"] == "prob"]
    row = named(markdown(results), "brain, prob", "cuda")
    assert float(row["times dipy"].replace(",", "")) == pytest.approx(174_000 / 162, rel=5e-3)


def test_agreement_of_archs_is_said(results):
    text = markdown(results)
    assert "gave identical points." in part_of(text, "brain, boot")
    assert "did not give identical" not in part_of(text, "brain, boot")
    part = part_of(markdown(results), "brain, prob")
    assert "did not give identical" in part
    assert "in both: 87.5 %" in part


def test_truth_limits_and_sweeps(results):
    text = markdown(results)
    truth = part_of(text, "brain, prob").split("### Connections")[1]
    crossing = ["812 (2.55 %)", "655 (2.06 %)"]
    assert cells(truth, "cuda")[1:] == [*crossing, "61.3 %", "10.0 %", "28.7 %", "7", "50.0 %", "25.0 %"]
    limits = part_of(text, "Limits of the devices")
    assert cells(limits, "cuda", "cuda")[2:] == ["4,110", "41,100"]
    assert cells(limits, "brain", "boot", "cpu (2 threads)")[3:] == ["–", "31.0 %"]
    rates, sizes = part_of(text, "Sweeps").split("peak host memory")
    assert cells(rates, "seeds") == ["seeds", "cpu", "cuda", "dipy"]
    seconds = 0.01 + 51e5 / 1.2e8
    rate = re.fullmatch(r"([\d.]+) \(([\d.]+) s\)", cells(rates, "100,000")[2])
    assert float(rate[1]) == pytest.approx(51e5 / seconds / 1e6, rel=5e-3)
    assert float(rate[2]) == pytest.approx(seconds, rel=5e-3)
    assert cells(sizes, "10,000")[1:] == 3 * ["200 MiB"]
    assert cells(sizes, "100,000")[1:] == 3 * ["–"]


def test_reasons_are_told_and_names_escaped_in_markdown(results):
    text = markdown(results)
    assert "took over 600 s" in text
    assert not re.search(r"(?<!\\)<", text)
    row = cells(text, r"cuslines-\<b\>cuda\</b\>")
    assert row[1:] == ["failed", r"CUDA error: \<out of memory\> at \_\_launch\_\_"]
    assert r"brain \| tee log" in text


def test_reasons_are_told_and_names_escaped_on_the_page(html):
    assert "took over 600 s" in html
    assert "<b>" not in html
    words = " ".join(Page(html).words)
    assert EVIL in words
    assert "CUDA error: <out of memory> at __launch__" in words


@pytest.mark.nightly
def test_equal_results_give_equal_bytes(results, html):
    """In this process and in another one."""
    other = json.loads(json.dumps(copy.deepcopy(results)))
    assert html == page.html(other)
    assert markdown(results) == markdown(other)
    code = (
        f"import hashlib, json, sys; sys.path.append({str(ROOT / 'benchmarks')!r}); from suite import page; "
        "print(hashlib.sha256(page.html(json.load(sys.stdin)).encode()).hexdigest())"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(results), text=True, capture_output=True, check=True
    )
    assert outcome.stdout.strip() == hashlib.sha256(html.encode()).hexdigest()


@pytest.mark.parametrize("empty", [{}, {"schema": 1, "runs": [], "sweeps": [], "machine": {}, "limits": {}}])
def test_empty_results_give_a_report(empty, tmp_path):
    report.write(empty, tmp_path)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    words = " ".join(Page((tmp_path / "report.html").read_text(encoding="utf-8")).words)
    for sentence in ("There are no runs", "No sweeps", "were not measured"):
        assert sentence in text
        assert sentence in words
    assert "<svg" not in words
    assert json.loads((tmp_path / "results.json").read_text(encoding="utf-8")) == empty


def test_what_is_missing_is_said(undrawn):
    for each in undrawn["runs"]:
        each["limit_share"] = None
        each["seconds"] = None
    drawn = Page(page.html(undrawn))
    assert drawn.count("svg") == 2  # throughput alone
    words = " ".join(drawn.words)
    for sentence in ("No lengths", "No density maps", "not swept", "No times", "No shares of the limits"):
        assert sentence in words


@pytest.mark.parametrize(("writer", "parts"), [(report, sections), (benchmarks.report, tables.sections)])
def test_results_are_read_back(results, tmp_path, writer, parts):
    writer.write(results, tmp_path)
    paths = [tmp_path / name for name in ("results.json", "report.md", "report.html")]
    assert sorted(tmp_path.iterdir()) == sorted(paths)
    assert json.loads(paths[0].read_text(encoding="utf-8")) == results
    assert paths[1].read_text(encoding="utf-8") == markdown_of(parts(results))
    page = Page(paths[2].read_text(encoding="utf-8"))
    assert page.count("table") == sum(len(part.tables) for part in parts(results))
    assert EVIL in " ".join(page.words)


@pytest.mark.parametrize("writer", [report, benchmarks.report])
def test_what_is_not_finite_becomes_null(undrawn, tmp_path, writer):
    undrawn["runs"][0]["mean_mm"] = float("nan")
    undrawn["runs"][1]["density_correlation"] = {"dipy": float("inf")}
    writer.write(undrawn, tmp_path)
    runs = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)["runs"]
    assert runs[0]["mean_mm"] is None
    assert runs[1]["density_correlation"] == {"dipy": None}
    assert "nan" not in (tmp_path / "report.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("writer", [report, benchmarks.report])
def test_nothing_half_written_stays(undrawn, tmp_path, monkeypatch, writer):
    writer.write(undrawn, tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    whole = Path.write_text

    def torn(path, text, **others):
        if path.name == "report.md":
            whole(path, text[: len(text) // 2], **others)
            raise OSError(28, "No space left on device")
        return whole(path, text, **others)

    monkeypatch.setattr(Path, "write_text", torn)
    undrawn["commit"] = "fedcba9"
    with pytest.raises(OutputError, match=r"report\.md.*No space"):
        writer.write(undrawn, tmp_path)
    assert set(tmp_path.iterdir()) == set(before)
    assert json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))["commit"] == "fedcba9"
    for name in ("report.md", "report.html"):
        assert (tmp_path / name).read_bytes() == before[tmp_path / name]


def test_results_are_kept_where_a_plot_cannot_be_drawn(results, tmp_path, monkeypatch):
    def fail(results):
        raise RuntimeError

    monkeypatch.setattr(page, "html", fail)
    with pytest.raises(RuntimeError):
        report.write(results, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"results.json", "report.md"}


def test_the_straight_line_through_times_is_that_of_the_busy_device():
    exact = sweep("cuda", "boot", 1e8)
    exact["values"] = [100, *exact["values"]]
    exact["points"] = [51 * 100, *exact["points"]]
    exact["seconds"] = [0.5, *exact["seconds"]]  # idle most of it
    line = sweep_tables.straight_line(exact)
    assert line is None  # 1,000 and 10,000 seeds are no work either
    slow = sweep("cpu", "boot", 5.1e4)
    slow["seconds"] = [0.02 + n / 1e3 for n in slow["values"]]
    line = sweep_tables.straight_line(slow)
    assert (line.latency, line.each, line.departure) == pytest.approx((0.02, 1e-3, 0.0), abs=1e-9)
    assert line.at(2000) == pytest.approx(2.02)
    slow["seconds"][1] *= 1.3
    assert 0.05 < sweep_tables.straight_line(slow).departure < 0.3


def test_models_of_one_getter_are_kept_apart(results):
    for each in results["runs"][:3]:
        results["runs"].append({**each, "model": "csa", "points_per_second": 2 * each["points_per_second"]})
    results["densities"]["brain boot-csa"] = results["densities"].pop("brain prob")
    text = markdown(results)
    assert named(text, "brain, boot", "cuda")["Mpoints/s"] == "124"
    assert named(text, "brain, boot-csa", "cuda")["Mpoints/s"] == "249"
    drawn = Page(page.html(results)).ids
    assert "density-4-figure_1" in drawn
    assert "density-3-figure_1" not in drawn


@pytest.mark.parametrize(
    ("value", "text"),
    [(124.321, "124"), (0.0052, "0.00520"), (2.08, "2.08"), (41_100.4, "41,100"), (0, "0"), (None, "–"),
     (float("nan"), "–"), (1e-7, "0.000000100")],
)
def test_numbers(value, text):
    assert tables.number(value) == text


def test_importing_loads_no_plots_and_no_compiler():
    heavy = {"matplotlib", "taichi", "numba", "dipy", "nibabel"}
    code = f"import sys; sys.path.append({str(ROOT / 'benchmarks')!r}); import suite.page; "
    code += f"print(*{heavy} & set(sys.modules))"
    assert not subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
