"""The hidden folders that files grow in until they are whole; all of them can be removed at any moment."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

REMOVALS = 1000  # at most, of a folder that a thread still writes to

_folders: set[Path] = set()


@contextmanager
def hidden_folder(path: Path) -> Generator[Path, None, None]:
    """Make a folder beside ``path``, so that a rename out of it stays on one disk, and remove it at the end."""
    folder = path.parent / f".{path.name}.{secrets.token_hex(4)}.part"
    _folders.add(folder)  # before it is there, so that a signal at any moment finds it
    try:
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        _remove(folder)


def discard() -> None:
    """Remove all hidden folders, though a thread may be at work in them; whatever it does there afterwards fails."""
    for folder in tuple(_folders):
        _remove(folder)


def _remove(folder: Path) -> None:
    for _ in range(REMOVALS):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            break
    _folders.discard(folder)
