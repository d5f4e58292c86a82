"""Benchmark results as Markdown, and the three output files of a benchmark."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from ..aliases import Json
from .forms import Section, Table
from .page import html
from .tables import sections


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
