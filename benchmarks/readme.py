"""Make the README's table from the suite's results: python benchmarks/readme.py."""

from __future__ import annotations

import json
from pathlib import Path

from tistreamlines.benchmarks import SCHEMA
from tistreamlines.benchmarks.report import rows_for_readme, update_between_markers

ROOT = Path(__file__).resolve().parents[1]


def renewed(text: str) -> str:
    """The README with its table made anew from ``benchmarks/results``."""
    found = [json.loads(path.read_text()) for path in sorted((ROOT / "benchmarks" / "results").glob("suite-*.json"))]
    return update_between_markers(text, rows_for_readme([results for results in found if results["schema"] == SCHEMA]))


if __name__ == "__main__":
    readme = ROOT / "README.md"
    readme.write_text(renewed(readme.read_text()))
