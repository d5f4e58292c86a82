"""The file of a benchmark's results, and the commit that it measures."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tistreamlines.benchmarks.suite import machine


def write_record(path: Path, **entries: object) -> None:
    """Write what was measured, with the command, without the machine's folders, the commit, and the machine."""
    words = [word if not Path(word).is_absolute() else Path(word).name for word in sys.argv[1:]]
    command = f"python benchmarks/{Path(sys.argv[0]).name} {' '.join(words)}".strip()
    content = {"command": command, "commit": commit(), "machine": machine(), **entries}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def commit() -> str:
    """Return the commit of the source tree, "" outside of one; it ends with -dirty if files are changed."""
    root = Path(__file__).resolve().parents[1]
    try:
        described = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"], capture_output=True, text=True,
            check=True, timeout=20,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return described.stdout.strip()
