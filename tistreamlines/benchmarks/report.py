"""Benchmark results as Markdown and as one self-contained HTML page, without scripts, and the files of a benchmark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template

from ..aliases import Json
from .tables import Section, Table, sections

# colours of light and dark pages
INKS = {
    "paper": ("#ffffff", "#16161a"), "ink": ("#1d1d22", "#ececf0"), "quiet": ("#6a6a74", "#9c9ca8"),
    "rule": ("#dcdce2", "#3a3a42"),
}
# the page loads nothing, whatever the results contain
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_STYLE = Template((Path(__file__).parent / "page.css").read_text(encoding="utf-8"))


def markdown(sections: Iterable[Section]) -> str:
    """Write sections as Markdown; the text depends only on them."""
    blocks = ["# Benchmarks"]
    for section in sections:
        blocks += [f"## {_escaped(section.title)}", *map(_escaped, section.notes)]
        for table in section.tables:
            blocks += [f"### {_escaped(table.title)}"] * bool(table.title) + [markdown_table(table)]
    return "\n\n".join(blocks) + "\n"


def write(results: Json, folder: Path) -> None:
    """Write results.json, report.md and report.html into a folder; each file appears only when it is complete.

    Parameters
    ----------
    results : dict
        Of schema 1. NaN and infinity become null in results.json.
    folder : Path
        Existing files are replaced.

    Raises
    ------
    OutputError
        If a file cannot be written. Files written before it remain; results.json is the first.
    """
    from ..io.sidecar import write_json

    write_json(folder / "results.json", results)
    parts = sections(results)
    write_text(folder / "report.md", markdown(parts))
    write_text(folder / "report.html", html(parts))


def write_text(path: Path, text: str) -> None:
    """Write a file, which replaces an existing one once it is complete."""
    from ..io.drafts import completed

    with completed(path, force=True) as draft:
        draft.write_text(text, encoding="utf-8")


def markdown_table(table: Table) -> str:
    """Write a table as Markdown, without its title."""
    rules = ["---:" if k and table.numeric(k) else "---" for k in range(len(table.head))]
    rows = [map(_escaped, table.head), rules, *(map(_escaped, row) for row in table.rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _escaped(text: str) -> str:
    """Escape a text for Markdown, in one line."""
    text = re.sub(r"([\\`*\[\]<>|~&])", r"\\\1", " ".join(text.split()))
    # an underscore within a word needs no escape
    return re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", text)


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
        f'<style>\n{_STYLE.substitute(light=light, dark=dark)}{style}</style>\n</head>\n<body>\n<main>\n'
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
