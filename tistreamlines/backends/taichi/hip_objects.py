"""A folder for what Quadrants links for AMD's devices, which it would leave among the temporary files for ever."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile

VARIABLE = "QD_TMP_DIR"
SAFE = re.compile(r"[\w./+-]+")  # Quadrants hands names to a shell as they are


def object_folder(arch: str) -> str | None:
    """Return a new folder, removed when the process ends; None for other archs, or if the user names one.

    Without it, Quadrants takes a folder of its own below /tmp.
    """
    if arch != "amdgpu" or os.environ.get(VARIABLE):
        return None
    try:
        path = tempfile.mkdtemp(prefix="tistreamlines-hip-")
    except OSError:
        return None
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path if SAFE.fullmatch(path) else None
