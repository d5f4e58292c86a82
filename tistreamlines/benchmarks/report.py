"""Benchmark results as Markdown, and as the three output files of a benchmark."""

from __future__ import annotations

import json
import math
import os
import re
from pathlib import Path

from ..aliases import Json
from .forms import Table
from .tables import sections


def markdown(results: Json) -> str:
    """Write results as Markdown.

    Parameters
    ----------
    results : dict
        Of schema 1; see `tistreamlines.benchmarks`. Missing values are omitted or reported as missing.

    Returns
    -------
    str
        The text depends only on the results.
    """
    blocks = ["# Benchmarks"]
    for section in sections(results):
        blocks += [f"## {_escaped(section.title)}", *map(_escaped, section.notes)]
        for table in section.tables:
            blocks += [f"### {_escaped(table.title)}"] * bool(table.title) + [markdown_table(table)]
    return "\n\n".join(blocks) + "\n"


def write(results: Json, folder: str | Path) -> list[Path]:
    """Write results.json, report.md and report.html; each file appears only when it is complete.

    Parameters
    ----------
    results : dict
        Of schema 1. NaN and infinity become null in results.json.
    folder : str or Path
        It is created if missing. Existing files are replaced.

    Returns
    -------
    list of Path
        The three files.

    Raises
    ------
    OutputError
        If a file cannot be written. Files written before it remain; results.json is the first.
    """
    from .page import html

    first, folder = write_json(results, folder), Path(folder)
    return [first, _put(folder / "report.md", markdown(results)), _put(folder / "report.html", html(results))]


def write_json(results: Json, folder: str | Path) -> Path:
    """Write only results.json, like :func:`write`; return its path."""
    from ..io.writer import explained

    folder = Path(folder)
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return _put(folder / "results.json", _json(results))


def _put(path: Path, text: str) -> Path:
    from ..io.drafts import hidden_folder
    from ..io.writer import check_target, explained

    check_target(path, force=True)
    with explained(path), hidden_folder(path) as hidden:
        draft = hidden / path.name
        draft.write_text(text, encoding="utf-8")
        os.replace(draft, path)  # noqa: PTH105  (one atomic call on every system)
    return path


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


def _json(results: Json) -> str:
    """Return JSON with each entry of a list or record on its own line, which suits line-based diffs."""
    entries = [f" {_dumped(name)}: {_entries(_finite(value))}" for name, value in results.items()]
    return "{\n" + ",\n".join(entries) + "\n}\n"


def _entries(value: object) -> str:
    if isinstance(value, dict) and value:
        lines = [f"{_dumped(key)}: {_dumped(item)}" for key, item in value.items()]
        return "{\n  " + ",\n  ".join(lines) + "\n }"
    if isinstance(value, list) and value:
        return "[\n  " + ",\n  ".join(map(_dumped, value)) + "\n ]"
    return _dumped(value)


def _dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _finite(value: object) -> object:
    """Replace NaN and infinity by null."""
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
