"""Hidden folders in which files are written until they are complete; they can be removed at any moment."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

REMOVALS = 1000  # attempts to remove a folder to which a thread may still write

_folders: set[Path] = set()


@contextmanager
def hidden_folder(path: Path) -> Generator[Path, None, None]:
    """Create a folder beside ``path``, on the same disk so that files can be renamed out of it, and remove it after."""
    folder = path.parent / f".{path.name}.{secrets.token_hex(4)}.part"
    _folders.add(folder)  # before it exists, so that a signal at any moment finds it
    try:
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        _remove(folder)


def discard() -> None:
    """Remove all hidden folders, even if a thread still writes to them; its further writes fail."""
    for folder in tuple(_folders):
        _remove(folder)


def _remove(folder: Path) -> None:
    for _ in range(REMOVALS):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            break
    _folders.discard(folder)
