"""The page of a benchmark: every plot, in light and dark, with nothing to fetch."""

from __future__ import annotations

import re

import numpy as np
import pytest
from reports import Page, made_up
from suite import drawing, labels, page, plots, tables

from tistreamlines.benchmarks.report import colour_variables
from tistreamlines.benchmarks.tables import groups


@pytest.fixture
def results():
    return made_up()


@pytest.fixture(scope="module")
def text():
    """The page of all these results."""
    return page.html(made_up())


def test_page_is_whole_and_has_each_plot(results, text):
    drawn = Page(text)
    cases, others = 2, 3  # a plot of limits, two of one sweep
    assert drawn.count("svg") == drawn.count("figure") == 4 * cases + others
    for kind in ("throughput", "time", "lengths", "density"):
        assert {f"{kind}-{place}-figure_1" for place in (2, 3)} <= set(drawn.ids)
    assert {"limits-4-figure_1", "sweep-5-0-figure_1", "time-5-0-figure_1"} <= set(drawn.ids)
    assert len(set(drawn.ids)) == len(drawn.ids)
    shown = [table for section in tables.sections(results) for table in section.tables]
    assert drawn.count("table") == len(shown)
    assert drawn.count("tr") == sum(1 + len(table.rows) for table in shown)


def test_references_within_the_page_are_met_and_nothing_is_fetched(text):
    drawn = Page(text)
    targets = [value for _, attrs in drawn.elements for name, value in attrs.items() if name.endswith("href")]
    targets += [value for _, attrs in drawn.elements for name, value in attrs.items() if name == "src"]
    assert targets
    for value in targets:
        assert value.startswith("data:") or value[1:] in drawn.ids, value
    assert {name for name in re.findall(r"url\(#([^)]*)\)", text)} <= set(drawn.ids)
    assert not re.search(r"https?://|@import|<script", text)
    assert len(re.findall(r"url\((?!#)", text)) == 0


def test_colours_follow_light_and_dark(text):
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
    runs = groups(labels.labelled(results))["brain", "boot"]
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
    colours = dict(re.findall(r"--([a-z0-9-]+):(#\w{6})", colour_variables(drawing.PALETTE, dark)))
    assert colours.pop("paper") == paper
    for name, colour in colours.items():
        high, low = sorted((luminance(colour), luminance(paper)), reverse=True)
        least = {"ink": 7, "quiet": 4.5, "rule": 1}.get(name, 3)
        assert (high + 0.05) / (low + 0.05) >= least, name


def test_sweeps_of_words_and_gaps_are_drawn(results):
    words = {"name": "sphere", "unit": "", "values": ["small", "full"], "seconds": [1.0, None], "points": [10**6, None]}
    results["sweeps"] = [results["sweeps"][0] | words | {"peak_host_bytes": [None, None]}]
    drawn = Page(page.html(results))
    assert sum(identity.endswith("figure_1") and identity.startswith("sweep") for identity in drawn.ids) == 1
    assert "not swept" in " ".join(drawn.words)
