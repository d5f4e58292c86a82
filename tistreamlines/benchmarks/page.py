"""Benchmark results as one self-contained HTML page with plots and tables, without scripts."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from ..aliases import Json
from . import drawing, plots
from .file_tables import file_groups
from .forms import Section, Table
from .sweep_tables import sweep_axis, sweeps
from .tables import groups, sections

# the page loads nothing, whatever the results contain
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_STYLE = """
:root{color-scheme:light dark;--paper:#fff;%(light)s}
@media screen and (prefers-color-scheme:dark){:root{--paper:#16161a;%(dark)s}}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main{max-width:84rem;margin:0 auto;padding:1.5rem}
h1{font-size:1.7rem}h2{font-size:1.3rem;margin:2.5rem 0 .5rem;border-bottom:1px solid var(--rule)}h3{font-size:1rem}
nav ul{columns:16rem;padding-left:1.2rem}a{color:inherit}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%%,33rem),1fr));gap:1rem 2rem;align-items:start}
figure{margin:.5rem 0}figcaption,.missing{color:var(--quiet);font-size:.9rem}
figcaption{margin-top:.3rem}
svg{max-width:100%%;height:auto;display:block}svg *{stroke-linejoin:round;stroke-linecap:butt}
.scroll{overflow-x:auto;margin:.75rem 0 1.25rem}
table{border-collapse:collapse;font-size:.8rem;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .5rem;border-bottom:1px solid var(--rule);text-align:left;vertical-align:top}
th{font-weight:600}th:first-child{min-width:8rem}.number{text-align:right}td.number{white-space:nowrap}
@media screen and (max-width:60rem){th:not(.number){min-width:7rem}}
@media print{main{max-width:none;padding:0}.scroll{overflow:visible}table{font-size:7pt}th,td{padding:.15rem .3rem}
.plots{grid-template-columns:1fr 1fr}figure,tr{break-inside:avoid}h2,h3,section>p{break-after:avoid}nav{display:none}}
"""


def html(results: Json) -> str:
    """Write results as one HTML page.

    Parameters
    ----------
    results : dict
        Of schema 1; see `tistreamlines.benchmarks`. Missing values are reported as missing.

    Returns
    -------
    str
        The text depends only on the results and the version of matplotlib. The page has a light and a dark theme.
    """
    parts = sections(results)
    looks = drawing.styles(results)
    style = _STYLE % {"light": drawing.colour_variables(False), "dark": drawing.colour_variables(True)}
    links = "".join(f'<li><a href="#section-{k}">{escape(part.title)}</a></li>' for k, part in enumerate(parts))
    body = "\n".join(_section(k, part, results, looks) for k, part in enumerate(parts))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>Benchmarks</title>\n<link rel="icon" href="data:,">\n<style>{style}</style>\n</head>\n<body>\n<main>\n'
        f"<h1>Benchmarks</h1>\n<nav><ul>{links}</ul></nav>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _section(place: int, part: Section, results: Json, looks: dict[str, drawing.Style]) -> str:
    """Return a section: notes, plots and tables."""
    figures = _FIGURES.get(part.kind)
    blocks = [f'<section id="section-{place}">', f"<h2>{escape(part.title)}</h2>"]
    blocks += [f"<p>{escape(note)}</p>" for note in part.notes]
    blocks += ['<div class="plots">', *figures(place, part, results, looks), "</div>"] if figures else ()
    for table in part.tables:
        blocks += [f"<h3>{escape(table.title)}</h3>"] * bool(table.title) + [_table(table)]
    return "\n".join([*blocks, "</section>"])


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
    found = sweeps(results)
    for k, ((name, case, getter), members) in enumerate(found.items()):
        lines = plots.sweep_lines(f"sweep-{place}-{k}", members, looks)
        words = f"Throughput against {sweep_axis(members[0])}: {case}, {getter}."
        yield _figure(lines, words, f"No throughput is known of the sweep of {name}: {case}, {getter}.")
        if times := plots.time_lines(f"time-{place}-{k}", members, looks):
            words = f"Time against {sweep_axis(members[0])}, and the straight line through it: {case}, {getter}."
            yield _figure(times, words, "")
    if not any(name == "seeds" for name, _, _ in found):
        yield _figure(None, "", "The number of seeds was not swept.")


_FIGURES = {"runs": _run_figures, "files": _file_figures, "limits": _limit_figures, "sweeps": _sweep_figures}


def _figure(svg: str | None, caption: str, missing: str) -> str:
    if svg is None:
        return f'<p class="missing">{escape(missing)}</p>'
    return f"<figure>\n{svg}\n<figcaption>{escape(caption)}</figcaption>\n</figure>"


def _table(table: Table) -> str:
    marks = [' class="number"' if k and table.numeric(k) else "" for k in range(len(table.head))]

    def row(tag: str, cells: Iterable[str]) -> str:
        inner = "".join(f"<{tag}{mark}>{escape(cell)}</{tag}>" for mark, cell in zip(marks, cells, strict=True))
        return f"<tr>{inner}</tr>"

    rows = "\n".join(row("td", cells) for cells in table.rows)
    head = row("th", table.head)
    return f'<div class="scroll" tabindex="0"><table>\n<thead>{head}</thead>\n<tbody>\n{rows}\n</tbody>\n</table></div>'
