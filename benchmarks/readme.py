"""Update the README's benchmark table: python benchmarks/readme.py."""

from __future__ import annotations

from pathlib import Path

from tistreamlines.benchmarks.compare import committed
from tistreamlines.benchmarks.report import rows_for_readme, update_between_markers

ROOT = Path(__file__).resolve().parents[1]


def renewed(text: str) -> str:
    """Return the README with its table recreated from ``benchmarks/results``."""
    return update_between_markers(text, rows_for_readme(committed(ROOT / "benchmarks" / "results", "suite-*.json")))


if __name__ == "__main__":
    readme = ROOT / "README.md"
    readme.write_text(renewed(readme.read_text()))
