"""A folder for the files that Quadrants links for AMD's devices, which it would leave among the temporary files for
ever.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

FOLDER_VARIABLE = "QD_TMP_DIR"
PREFIX = "tistreamlines-hip-"
SAFE = re.compile(r"[\w./+-]+")  # Quadrants hands names to a shell as they are
MONTH = 30 * 86400.0  # seconds after which no process uses a folder any more


def object_folder(arch: str) -> str | None:
    """Return a new folder; None for other archs, if the user names one, or if none can be made.

    Then Quadrants takes another one, below /tmp. The folder is removed when Python ends. Processes that were killed leave theirs, which are removed after a month.
    """
    if arch != "amdgpu" or os.environ.get(FOLDER_VARIABLE) or not SAFE.fullmatch(place := tempfile.gettempdir()):
        return None
    with suppress(OSError):  # another process has removed it
        for left in Path(place).glob(f"{PREFIX}*"):
            if left.stat().st_mtime < time.time() - MONTH:
                shutil.rmtree(left, ignore_errors=True)
    try:
        path = tempfile.mkdtemp(prefix=PREFIX)
    except OSError:
        return None
    atexit.register(_remove, path, os.getpid())
    return path


def _remove(path: str, process: int) -> None:
    """Remove a folder when Python ends, but not in a fork of the process that uses it."""
    if os.getpid() == process:
        shutil.rmtree(path, ignore_errors=True)
