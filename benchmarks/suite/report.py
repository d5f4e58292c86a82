"""The three output files of the suite."""

from __future__ import annotations

import json
import math
from pathlib import Path

from tistreamlines.aliases import Json
from tistreamlines.benchmarks.report import markdown, write_text

from . import page
from .tables import sections


def write(results: Json, folder: Path) -> None:
    """Write results.json, report.md and report.html, like :func:`tistreamlines.benchmarks.report.write`."""
    write_json(results, folder)
    write_text(folder / "report.md", markdown(sections(results)))
    write_text(folder / "report.html", page.html(results))


def write_json(results: Json, folder: Path) -> None:
    """Write only results.json."""
    write_text(folder / "results.json", _json(results))


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
