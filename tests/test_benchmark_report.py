"""Reports of a benchmark say what the results say, and nothing is lost when they cannot be written."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from tistreamlines.benchmarks import drawing, forms, page, plots, report, sweep_tables, tables
from tistreamlines.errors import InputError, OutputError

VOID = {"meta", "link", "br", "hr", "img", "input"}
EVIL = "cuslines-<b>cuda</b>"
HASH = "1495452f98e533ad43b63afc698b0f8f9784689a257fc3f9963cbedaec4ace39"


def run(dg, target, rate, **others):
    """A run that ended; ``rate`` in points a second."""
    points, streamlines = 1_629_645, 31_837
    track = points / rate
    return {
        "case": "brain", "dg": dg, "model": "opdt" if dg == "boot" else "csd", "target": target, "kind": "arch",
        "nseeds": 20_000, "threads": None, "chunk_size": None, "exact": True, "status": "ok", "reason": "",
        "seconds": {
            "compile": 2.51, "prepare": 0.7, "write": 0.123, "total": 3 * track,
            "track": track, "track_least": 0.97 * track, "track_greatest": 1.04 * track,
            "repeats": [0.97 * track, track, 1.04 * track],
            "stages": {"start": 0.3 * track, "grow": 0.6 * track, "pack": 0.1 * track},
        },
        "streamlines": streamlines, "points": points, "mean_points": 51.187, "median_points": 35.0,
        "mean_mm": 25.09, "median_mm": 17.0,
        "points_per_second": rate, "streamlines_per_second": streamlines / track,
        "crossing": 812, "commissural": 655, "sha256": HASH,
        "peak_host_bytes": 900 * 2**20, "device_bytes": 3 * 2**30, "copied_bytes": 25 * 2**20,
        "density_correlation": {"dipy": 0.99631}, "length_ks": {"dipy": 0.011}, "identical": {"cpu": 1.0, "cuda": 1.0},
        "truth": {"valid": 0.6126, "invalid": 0.1, "none": 0.2874, "bundles": 7, "overlap": 0.5, "overreach": 0.25},
        "limit_share": {"bytes": 1.32, "operations": 0.214},
        **others,
    }  # fmt: skip


def peer(dg, target, rate, **others):
    known = {"kind": "peer", "exact": None, "sha256": "", "limit_share": None, "density_correlation": {}, "threads": 1}
    return run(dg, target, rate, **(known | others))


def absent(dg, target, status, reason):
    """A peer that came to nothing: all that is known is why."""
    keys = ("case", "dg", "model", "target", "kind", "nseeds", "threads", "chunk_size", "exact")
    return {key: peer(dg, target, 1.0)[key] for key in keys} | {"status": status, "reason": reason, "seconds": None}


def sweep(target, dg, rate):
    seeds = [1000, 10_000, 100_000]
    return {
        "name": "seeds", "unit": "seeds", "case": "brain", "dg": dg, "target": target, "values": seeds,
        "seconds": [0.01 + 51 * n / rate for n in seeds], "points": [51 * n for n in seeds],
        "peak_host_bytes": [100 * 2**20, 200 * 2**20, None],
    }  # fmt: skip


@pytest.fixture
def results():
    """Two archs, a peer that ran, one that failed and one that took too long; a case with two getters."""
    rng = np.random.default_rng(1)
    targets = ("cpu", "cuda", "dipy")
    groups = ("brain boot", "brain prob")
    return {
        "schema": 1,
        "created": "2026-11-21T12:00:00Z",
        "command": "tistreamlines benchmark --case brain | tee log",
        "commit": "0c4a01e",
        "machine": {
            "cpu": "AMD EPYC 9V74",
            "cores": 2,
            "memory_bytes": 16 * 2**30,
            "system": "Linux",
            "devices": [{"arch": "cuda", "name": "NVIDIA H200", "driver": "570.1", "memory_bytes": 139 * 2**30}],
            "versions": {"numpy": "2.4.6", "taichi": "1.7.4"},
        },
        "limits": {
            arch: {"device": arch, "bytes_per_second": speed, "multiply_adds_per_second": 10 * speed}
            for arch, speed in (("cpu", 2.05e10), ("cuda", 4.11e12))
        },
        "runs": [
            run("boot", "cpu", 742_000.0, threads=2, limit_share={"bytes": None, "operations": 0.31}),
            run("boot", "cuda", 124_321_000.0),
            peer("boot", "dipy", 5_200.0, nseeds=1000),
            absent("boot", EVIL, "failed", "CUDA error: <out of memory> at __launch__"),
            absent("boot", "tckgen", "timeout", "took over 600 s"),
            run("prob", "cpu", 1_340_000.0, threads=2),
            run("prob", "cuda", 174_000_000.0, sha256="f" * 64, identical={"cpu": 0.875}),
            peer("prob", "dipy", 162_000.0),
        ],
        "sweeps": [sweep("cpu", "boot", 7e5), sweep("cuda", "boot", 1.2e8), sweep("dipy", "boot", 5e3)],
        "densities": {key: {name: rng.poisson(3, (20, 16)).tolist() for name in targets} for key in groups},
        "lengths": {
            key: {"edges_mm": list(range(0, 110, 10))} | {name: rng.poisson(50, 10).tolist() for name in targets}
            for key in groups
        },
    }


class Page(HTMLParser):
    """Checks that elements close, and collects what they hold."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.elements, self.words = [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)

    def count(self, tag):
        return sum(found == tag for found, _ in self.elements)


def cells(text, *beginning):
    """The row of a Markdown table whose cells begin so."""
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in text.splitlines()]
    return next(row for row in rows if row[: len(beginning)] == list(beginning))


def part_of(text, title):
    return text.split(f"\n## {title}\n")[1].split("\n## ")[0]


def named(text, title, *beginning):
    """The row so beginning in the first table of a section, by the names of the columns."""
    part = part_of(text, title)
    return dict(zip(cells(part, "target"), cells(part, *beginning), strict=False))


def test_markdown_has_the_numbers(results):
    row = named(report.markdown(results), "brain, boot", "cuda")
    fastest = results["runs"][1]
    assert float(row["Mpoints/s"]) == pytest.approx(fastest["points_per_second"] / 1e6, rel=5e-3)
    assert float(row["track, s"]) == pytest.approx(fastest["seconds"]["track"], rel=5e-3)
    assert float(row["least, s"]) == pytest.approx(fastest["seconds"]["track_least"], rel=5e-3)
    assert float(row["greatest, s"]) == pytest.approx(fastest["seconds"]["track_greatest"], rel=5e-3)
    assert int(row["streamlines"].replace(",", "")) == fastest["streamlines"]
    assert (row["mean, mm"], row["median, mm"]) == ("25.1", "17.0")
    assert (row["crossing"], row["commissural"]) == ("812 (2.55 %)", "655 (2.06 %)")
    assert row["density correlation with dipy"] == "0.9963"
    assert row["KS of lengths with dipy"] == "0.0110"
    assert row["sha256"] == HASH[:12]


def test_speed_up_is_over_the_cpu_or_else_the_slowest(results):
    beside = "times cpu (2 threads)"
    assert float(named(report.markdown(results), "brain, boot", "cuda")[beside]) == pytest.approx(
        124_321 / 742, rel=5e-3
    )
    results["runs"] = [run for run in results["runs"] if run["target"] != "cpu" and run["dg"] == "prob"]
    row = named(report.markdown(results), "brain, prob", "cuda")
    assert float(row["times dipy"].replace(",", "")) == pytest.approx(174_000 / 162, rel=5e-3)


def test_agreement_of_archs_is_said(results):
    text = report.markdown(results)
    assert "gave identical points." in part_of(text, "brain, boot")
    assert "did not give identical" not in part_of(text, "brain, boot")
    part = part_of(report.markdown(results), "brain, prob")
    assert "did not give identical" in part
    assert "in both: 87.5 %" in part


def test_truth_limits_and_sweeps(results):
    text = report.markdown(results)
    truth = part_of(text, "brain, prob").split("### Against the truth")[1]
    assert cells(truth, "cuda")[1:] == ["61.3 %", "10.0 %", "28.7 %", "7", "50.0 %", "25.0 %"]
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


@pytest.mark.parametrize("form", [report.markdown, page.html])
def test_reasons_are_told_and_names_escaped(results, form):
    text = form(results)
    assert "took over 600 s" in text
    if form is page.html:
        assert "<b>" not in text
        words = " ".join(Page(text).words)
        assert EVIL in words
        assert "CUDA error: <out of memory> at __launch__" in words
    else:
        assert not re.search(r"(?<!\\)<", text)
        row = cells(text, r"cuslines-\<b\>cuda\</b\>")
        assert row[1:] == ["failed", r"CUDA error: \<out of memory\> at \_\_launch\_\_"]
        assert r"brain \| tee log" in text


def test_page_is_whole_and_has_each_plot(results):
    found = Page(page.html(results))
    groups, others = 2, 3  # a plot of limits, two of one sweep
    assert found.count("svg") == found.count("figure") == 4 * groups + others
    for kind in ("throughput", "time", "lengths", "density"):
        assert {f"{kind}-{place}-figure_1" for place in (2, 3)} <= set(found.ids)
    assert {"limits-4-figure_1", "sweep-5-0-figure_1", "time-5-0-figure_1"} <= set(found.ids)
    assert len(set(found.ids)) == len(found.ids)
    shown = [table for section in tables.sections(results) for table in section.tables]
    assert found.count("table") == len(shown)
    assert found.count("tr") == sum(1 + len(table.rows) for table in shown)


def test_references_within_the_page_are_met_and_nothing_is_fetched(results):
    text = page.html(results)
    found = Page(text)
    targets = [value for _, attrs in found.elements for name, value in attrs.items() if name.endswith("href")]
    targets += [value for _, attrs in found.elements for name, value in attrs.items() if name == "src"]
    assert targets
    for value in targets:
        assert value.startswith("data:") or value[1:] in found.ids, value
    assert {name for name in re.findall(r"url\(#([^)]*)\)", text)} <= set(found.ids)
    assert not re.search(r"https?://|@import|<script", text)
    assert len(re.findall(r"url\((?!#)", text)) == 0


def test_colours_follow_light_and_dark(results):
    text = page.html(results)
    used = set(re.findall(r"var\((--[a-z0-9-]+)\)", text))
    style = text[text.index("<style>") : text.index("</style>")]
    light, dark = style.split("prefers-color-scheme:dark")
    for name in used:
        ours = re.search(rf"{name}:(#\w+)", light)[1], re.search(rf"{name}:(#\w+)", dark)[1]
        assert ours[0] != ours[1], name
    # No stand-in is left, and no colour that would not follow.
    svgs = re.sub(r"base64,[^\"]*", "", text[text.index("</style>") :])
    assert not re.findall(r"(?:fill|stroke): (#[0-9a-f]{6})", svgs)


def corners(svg, paint):
    """The x and y of the corners of each path that is painted so."""
    paths = re.findall(rf'<path d="([^"]*)"[^>]*style="[^"]*{re.escape(paint)}', svg)
    return [np.array(re.findall(r"[ML] ([\d.]+) ([\d.]+)", path), float) for path in paths]


def test_bars_of_time_have_the_lengths_of_their_shares(results):
    runs = tables.groups(results)["brain", "boot"]
    svg = plots.time_bars("time", runs)
    ended = [run["seconds"] for run in runs if run["status"] == "ok"]
    # Behind those of the bars come those of the key.
    bars = [corners(svg, f"fill: var(--part-{k})")[: len(ended)] for k in range(4)]
    widths = np.array([[np.ptp(bar[:, 0]) for bar in part] for part in bars]).T
    seconds = np.array([[run[part] for part in ("compile", "prepare", "track", "write")] for run in ended])
    shares = seconds / seconds.sum(axis=1, keepdims=True)
    assert widths / widths.sum(axis=1, keepdims=True) == pytest.approx(shares, abs=1e-4)


def test_lines_of_sweeps_go_through_the_logarithms_of_rates(results):
    looks = drawing.styles(results)
    svg = plots.sweep_lines("sweep", results["sweeps"], looks)
    drawn, rates = [], []
    for k, sweep in enumerate(results["sweeps"]):
        drawn.append(next(line for line in corners(svg, f"stroke: var(--target-{k})") if len(line) == 3))
        rates.append(np.log10(np.array(sweep["points"]) / np.array(sweep["seconds"])))
    steps = np.diff(drawn[0][:, 0])
    assert steps[0] == pytest.approx(steps[1], abs=1e-3)  # decades of seeds
    heights, logarithms = np.concatenate(drawn)[:, 1], np.concatenate(rates)
    line = np.polyfit(logarithms, heights, 1)
    assert line[0] < 0  # SVG counts downwards
    assert np.abs(np.polyval(line, logarithms) - heights).max() < 1e-3


def luminance(colour):
    """Of WCAG 2: relative, of sRGB."""
    channels = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.03928, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize(("dark", "paper"), [(False, "#ffffff"), (True, "#16161a")])
def test_colours_stand_out_from_the_paper(dark, paper):
    colours = dict(re.findall(r"--([a-z0-9-]+):(#\w{6})", drawing.colour_variables(dark)))
    for name, colour in colours.items():
        high, low = sorted((luminance(colour), luminance(paper)), reverse=True)
        least = {"ink": 7, "quiet": 4.5, "rule": 1}.get(name, 3)
        assert (high + 0.05) / (low + 0.05) >= least, name


def test_equal_results_give_equal_bytes(results):
    other = json.loads(json.dumps(copy.deepcopy(results)))
    assert page.html(results) == page.html(other)
    assert report.markdown(results) == report.markdown(other)
    code = (
        "import hashlib, json, sys; from tistreamlines.benchmarks import page; "
        "print(hashlib.sha256(page.html(json.load(sys.stdin)).encode()).hexdigest())"
    )
    call = [sys.executable, "-c", code]
    given = {"input": json.dumps(results), "text": True, "capture_output": True, "check": True}
    assert len({subprocess.run(call, **given).stdout for _ in range(2)}) == 1


@pytest.mark.parametrize("empty", [{}, {"schema": 1, "runs": [], "sweeps": [], "machine": {}, "limits": {}}])
def test_empty_results_give_a_report(empty, tmp_path):
    report.write(empty, tmp_path / "new" / "folder")
    text = (tmp_path / "new" / "folder" / "report.md").read_text(encoding="utf-8")
    words = " ".join(Page((tmp_path / "new" / "folder" / "report.html").read_text(encoding="utf-8")).words)
    for told in ("There are no runs", "No sweeps", "were not measured"):
        assert told in text
        assert told in words
    assert "<svg" not in words
    assert json.loads((tmp_path / "new" / "folder" / "results.json").read_text(encoding="utf-8")) == empty


def test_what_is_missing_is_said(results):
    results |= {"densities": {}, "lengths": {}, "sweeps": []}
    for run in results["runs"]:
        run["limit_share"] = None
        run["seconds"] = None
    found = Page(page.html(results))
    assert found.count("svg") == 2  # throughput alone
    words = " ".join(found.words)
    for told in ("No lengths", "No density maps", "not swept", "No times", "No shares of the limits"):
        assert told in words


def test_results_are_read_back(results, tmp_path):
    paths = report.write(results, tmp_path)
    assert [path.name for path in paths] == ["results.json", "report.md", "report.html"]
    assert sorted(tmp_path.iterdir()) == sorted(paths)
    assert json.loads(paths[0].read_text(encoding="utf-8")) == results
    assert paths[1].read_text(encoding="utf-8") == report.markdown(results)


def test_what_is_not_finite_becomes_null(results, tmp_path):
    results["runs"][0]["mean_mm"] = float("nan")
    results["runs"][1]["density_correlation"] = {"dipy": float("inf")}
    path = report.write(results, tmp_path)[0]
    runs = json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)["runs"]
    assert runs[0]["mean_mm"] is None
    assert runs[1]["density_correlation"] == {"dipy": None}
    assert "nan" not in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_nothing_half_written_stays(results, tmp_path, monkeypatch):
    before = {path: path.read_bytes() for path in report.write(results, tmp_path)}
    whole = Path.write_text

    def torn(path, text, **others):
        if path.name == "report.md":
            whole(path, text[: len(text) // 2], **others)
            raise OSError(28, "No space left on device")
        return whole(path, text, **others)

    monkeypatch.setattr(Path, "write_text", torn)
    results["commit"] = "fedcba9"
    with pytest.raises(OutputError, match=r"report\.md.*No space"):
        report.write(results, tmp_path)
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


def test_rows_for_readme(results):
    other = copy.deepcopy(results)
    other["machine"] = {"cpu": "other", "cores": 64, "devices": []}
    other["runs"] = other["runs"][:1]
    other["machine"]["devices"] = [{"arch": "vulkan", "name": "llvmpipe", "software": True}]
    other["runs"][0] |= {"target": "vulkan"}
    text = report.rows_for_readme([results, other])
    head = ["machine", "data", "getter", "cpu", "vulkan", "cuda", "fastest peer", "fastest of ours beside it"]
    assert cells(text, "machine") == head
    machine = "NVIDIA H200; AMD EPYC 9V74, 2 cores"
    row = cells(text, machine, "brain, 20,000 seeds", "boot")
    assert row[3:7] == ["0.742", "–", "124", "dipy (1,000 seeds) (0.00520)"]
    ratio = re.fullmatch(r"([\d,]+) times", row[7])
    assert float(ratio[1].replace(",", "")) == pytest.approx(124_321 / 5.2, rel=5e-3)
    assert cells(text, machine, "brain, 20,000 seeds", "prob")[6:] == ["dipy (1 thread) (0.162)", "1,074 times"]
    assert cells(text, "other, 64 cores")[3:] == ["–", "0.742 (software)", "–", "none ran", "–"]
    assert len(text.splitlines()) == 2 + 3


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
    for run in results["runs"][:3]:
        results["runs"].append({**run, "model": "csa", "points_per_second": 2 * run["points_per_second"]})
    results["densities"]["brain boot-csa"] = results["densities"].pop("brain prob")
    text = report.markdown(results)
    assert named(text, "brain, boot", "cuda")["Mpoints/s"] == "124"
    assert named(text, "brain, boot-csa", "cuda")["Mpoints/s"] == "249"
    assert "density-4-figure_1" in Page(page.html(results)).ids
    assert "density-3-figure_1" not in Page(page.html(results)).ids


def test_a_peer_of_another_model_is_no_peer(results):
    results["runs"] = [run("boot", "cuda", 1e8), peer("boot", "dipy", 1e4, model="csa")]
    machine = "NVIDIA H200; AMD EPYC 9V74, 2 cores"
    assert cells(report.rows_for_readme([results]), machine)[-1] == "none ran"


def test_update_between_markers(results):
    text = "# A\n\n<!-- benchmarks -->\nold | table\n<!-- /benchmarks -->\n\nrest\n"
    table = report.rows_for_readme([results])
    found = report.update_between_markers(text, table)
    assert found == f"# A\n\n<!-- benchmarks -->\n\n{table}\n\n<!-- /benchmarks -->\n\nrest\n"
    assert report.update_between_markers(found, table) == found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<!-- benchmarks -->",
        "<!-- /benchmarks --> <!-- benchmarks -->",
        2 * "<!-- benchmarks --> <!-- /benchmarks -->",
    ],
)
def test_text_without_its_markers_is_refused(text):
    with pytest.raises(InputError, match="benchmarks"):
        report.update_between_markers(text, "table")


@pytest.mark.parametrize(
    ("value", "text"),
    [(124.321, "124"), (0.0052, "0.00520"), (2.08, "2.08"), (41_100.4, "41,100"), (0, "0"), (None, "–"),
     (float("nan"), "–"), (1e-7, "0.000000100")],
)  # fmt: skip
def test_numbers(value, text):
    assert forms.number(value) == text


def test_sweeps_of_words_and_gaps_are_drawn(results):
    words = {"name": "sphere", "unit": "", "values": ["small", "full"], "seconds": [1.0, None], "points": [10**6, None]}
    results["sweeps"] = [results["sweeps"][0] | words | {"peak_host_bytes": [None, None]}]
    found = Page(page.html(results))
    assert sum(identity.endswith("figure_1") and identity.startswith("sweep") for identity in found.ids) == 1
    assert "not swept" in " ".join(found.words)


def test_importing_loads_no_plots_and_no_compiler():
    heavy = {"matplotlib", "taichi", "numba", "dipy", "nibabel"}
    code = f"import sys, tistreamlines.benchmarks.page; print(*{heavy} & set(sys.modules))"
    assert not subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
