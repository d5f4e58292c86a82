"""The page of the suite: that of the benchmark, with plots."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from tistreamlines.aliases import Json
from tistreamlines.benchmarks import report
from tistreamlines.benchmarks.tables import Section, groups

from . import drawing, plots
from .file_tables import file_groups
from .labels import labelled
from .sweep_tables import sweep_axis, sweeps
from .tables import sections

_STYLE = """.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,33rem),1fr));gap:1rem 2rem}
.plots{align-items:start}
figure{margin:.5rem 0}figcaption,.missing{color:var(--quiet);font-size:.9rem}
figcaption{margin-top:.3rem}
svg{max-width:100%;height:auto;display:block}svg *{stroke-linejoin:round;stroke-linecap:butt}
@media print{.plots{grid-template-columns:1fr 1fr}figure{break-inside:avoid}}
"""


def html(results: Json) -> str:
    """Write results as one HTML page.

    Parameters
    ----------
    results : dict
        Of schema 1. Missing values are reported as missing.

    Returns
    -------
    str
        The text depends only on the results and the version of matplotlib. The page has a light and a dark theme.
    """
    results = labelled(results)
    looks = drawing.styles(results)

    def figures(place: int, section: Section) -> Iterable[str]:
        return _FIGURES[section.kind](place, section, results, looks) if section.kind in _FIGURES else ()

    return report.html(sections(results), figures, drawing.PALETTE, _STYLE)


def _run_figures(place: int, part: Section, results: Json, looks: dict[str, drawing.Style]) -> Iterable[str]:
    runs = groups(results)[part.group]
    key = " ".join(part.group)
    lengths, densities = ((results.get(kind) or {}).get(key) or {} for kind in ("lengths", "densities"))
    bars = plots.throughput_bars(f"throughput-{place}", runs, looks)
    yield _figure(bars, "Throughput: points in the host's memory a second of tracking.", "No throughput is known.")
    times = plots.time_bars(f"time-{place}", runs)
    yield _figure(times, "Where the time of each target goes, and how much it is.", "No times are known.")
    lines = plots.length_lines(f"lengths-{place}", lengths, looks)
    yield _figure(lines, "Lengths of streamlines: each distribution has the area of 100 %.", "No lengths were kept.")
    maps = plots.density_maps(f"density-{place}", densities)
    yield _figure(maps, "Density of streamlines, the maximum along the view.", "No density maps were kept.")


def _file_figures(place: int, _: Section, results: Json, looks: dict[str, drawing.Style]) -> Iterable[str]:
    for k, ((case, getter), rows) in enumerate(file_groups(results).items()):
        bars = plots.file_bars(f"files-{place}-{k}", rows)
        yield _figure(bars, f"Time from files to a tractogram: {case}, {getter}.", "No command ended well.")


def _limit_figures(place: int, _: Section, results: Json, looks: dict[str, drawing.Style]) -> Iterable[str]:
    bars = plots.limit_bars(f"limits-{place}", results)
    words = "Counted bytes and operations a second over those of the device. Reads that stay in its caches count too."
    yield _figure(bars, words, "No shares of the limits are known.")


def _sweep_figures(place: int, _: Section, results: Json, looks: dict[str, drawing.Style]) -> Iterable[str]:
    swept = sweeps(results)
    for k, ((name, case, getter), members) in enumerate(swept.items()):
        lines = plots.sweep_lines(f"sweep-{place}-{k}", members, looks)
        words = f"Throughput against {sweep_axis(members[0])}: {case}, {getter}."
        yield _figure(lines, words, f"No throughput is known of the sweep of {name}: {case}, {getter}.")
        if times := plots.time_lines(f"time-{place}-{k}", members, looks):
            words = f"Time against {sweep_axis(members[0])}, and the straight line through it: {case}, {getter}."
            yield _figure(times, words, "")
    if not any(name == "seeds" for name, _, _ in swept):
        yield _figure(None, "", "The number of seeds was not swept.")


_FIGURES = {"runs": _run_figures, "files": _file_figures, "limits": _limit_figures, "sweeps": _sweep_figures}


def _figure(svg: str | None, caption: str, missing: str) -> str:
    if svg is None:
        return f'<p class="missing">{escape(missing)}</p>'
    return f"<figure>\n{svg}\n<figcaption>{escape(caption)}</figcaption>\n</figure>"
