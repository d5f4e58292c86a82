"""Benchmark results as one self-contained HTML page, without scripts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape

from .forms import Section, Table

# colours of light and dark pages
INKS = {
    "paper": ("#ffffff", "#16161a"), "ink": ("#1d1d22", "#ececf0"), "quiet": ("#6a6a74", "#9c9ca8"),
    "rule": ("#dcdce2", "#3a3a42"),
}
# the page loads nothing, whatever the results contain
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_STYLE = """
:root{color-scheme:light dark;%(light)s}
@media screen and (prefers-color-scheme:dark){:root{%(dark)s}}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main{max-width:84rem;margin:0 auto;padding:1.5rem}
h1{font-size:1.7rem}h2{font-size:1.3rem;margin:2.5rem 0 .5rem;border-bottom:1px solid var(--rule)}h3{font-size:1rem}
nav ul{columns:16rem;padding-left:1.2rem}a{color:inherit}
.scroll{overflow-x:auto;margin:.75rem 0 1.25rem}
table{border-collapse:collapse;font-size:.8rem;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .5rem;border-bottom:1px solid var(--rule);text-align:left;vertical-align:top}
th{font-weight:600}th:first-child{min-width:8rem}.number{text-align:right}td.number{white-space:nowrap}
@media screen and (max-width:60rem){th:not(.number){min-width:7rem}}
@media print{main{max-width:none;padding:0}.scroll{overflow:visible}table{font-size:7pt}th,td{padding:.15rem .3rem}
tr{break-inside:avoid}h2,h3,section>p{break-after:avoid}nav{display:none}}
"""


def html(
    sections: Sequence[Section], figures: Callable[[int, Section], Iterable[str]] = lambda place, section: (),
    colours: Mapping[str, tuple[str, str]] = INKS, style: str = "",
) -> str:
    """Write sections as one HTML page with a light and a dark theme.

    Parameters
    ----------
    sections : sequence of Section
    figures : callable
        Returns what stands between the notes and the tables of a section, from its place in the page and itself.
    colours : mapping
        Colours of light and dark pages, by the name of their variable.
    style : str
        Rules of the style sheet for the figures.

    Returns
    -------
    str
        The text depends only on the arguments.
    """
    light, dark = (colour_variables(colours, is_dark) for is_dark in (False, True))
    links = "".join(f'<li><a href="#section-{k}">{escape(part.title)}</a></li>' for k, part in enumerate(sections))
    body = "\n".join(_section(k, part, "\n".join(figures(k, part))) for k, part in enumerate(sections))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<title>Benchmarks</title>\n<link rel="icon" href="data:,">\n'
        f'<style>{_STYLE % {"light": light, "dark": dark}}{style}</style>\n</head>\n<body>\n<main>\n'
        f"<h1>Benchmarks</h1>\n<nav><ul>{links}</ul></nav>\n{body}\n</main>\n</body>\n</html>\n"
    )


def colour_variables(colours: Mapping[str, tuple[str, str]], dark: bool) -> str:
    """Return the declarations of colours as CSS variables."""
    return "".join(f"--{name}:{pair[dark]};" for name, pair in colours.items())


def _section(place: int, part: Section, figures: str) -> str:
    """Return a section: notes, figures and tables."""
    blocks = [f'<section id="section-{place}">', f"<h2>{escape(part.title)}</h2>"]
    blocks += [f"<p>{escape(note)}</p>" for note in part.notes]
    blocks += [f'<div class="plots">\n{figures}\n</div>'] * bool(figures)
    for table in part.tables:
        blocks += [f"<h3>{escape(table.title)}</h3>"] * bool(table.title) + [_table(table)]
    return "\n".join([*blocks, "</section>"])


def _table(table: Table) -> str:
    marks = [' class="number"' if k and table.numeric(k) else "" for k in range(len(table.head))]

    def row(tag: str, cells: Iterable[str]) -> str:
        inner = "".join(f"<{tag}{mark}>{escape(cell)}</{tag}>" for mark, cell in zip(marks, cells, strict=True))
        return f"<tr>{inner}</tr>"

    rows = "\n".join(row("td", cells) for cells in table.rows)
    head = row("th", table.head)
    return f'<div class="scroll" tabindex="0"><table>\n<thead>{head}</thead>\n<tbody>\n{rows}\n</tbody>\n</table></div>'
