"""Folders that tests read from: the repository, what tests share, and data beside the repository."""

from __future__ import annotations

from pathlib import Path

SUPPORT = Path(__file__).resolve().parent
ROOT = SUPPORT.parents[1]
DATA = ROOT.parent / "shared" / "data"
CROP = DATA / "sherbrooke_crop"
