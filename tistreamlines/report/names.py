"""The names of the files of a report, which are checked before the work."""

from __future__ import annotations

from pathlib import Path

SUFFIXES = (".html", ".htm")


def files_of(page: Path) -> dict[str, Path]:
    """Return the files of a report: the ``page``, the ``picture`` and the ``numbers`` for MultiQC."""
    return {
        "page": page, "picture": page.with_name(f"{page.stem}_mqc.png"),
        "numbers": page.with_name(f"{page.stem}_stats.json"),
    }
