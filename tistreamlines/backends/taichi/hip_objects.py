"""A folder for what Quadrants links for AMD's devices, which it would leave among the temporary files for ever.

Processes may end in any way, so a folder is locked as long as its process lives, and the next one removes those that are
not locked.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

FOLDER_VARIABLE = "QD_TMP_DIR"
PREFIX = "tistreamlines-hip-"
SAFE = re.compile(r"[\w./+-]+")  # Quadrants hands names to a shell as they are
_folders: dict[str, int] = {}  # of this process, with the descriptors that lock them


def object_folder(arch: str) -> str | None:
    """Return a new folder; None for other archs, if the user names one, or if none can be made.

    Then Quadrants takes one of its own, below /tmp.
    """
    if arch != "amdgpu" or os.environ.get(FOLDER_VARIABLE):
        return None
    with suppress(OSError):
        place = tempfile.gettempdir()
        if not SAFE.fullmatch(place):
            return None
        _remove_left(place)
        path = tempfile.mkdtemp(prefix=PREFIX, dir=place)
        if (descriptor := _locked(path)) is not None:
            _folders[path] = descriptor
            atexit.register(remove_objects, os.getpid())
            return path
    return None


def remove_objects(process: int | None = None) -> None:
    """Remove this process's folders, when the compiler has stopped or Python ends, but not in a fork of ``process``."""
    while _folders and process in (None, os.getpid()):
        path, descriptor = _folders.popitem()
        shutil.rmtree(path, ignore_errors=True)
        os.close(descriptor)


def _remove_left(place: str) -> None:
    """Remove the folders of processes that have ended."""
    for path in Path(place).glob(f"{PREFIX}*"):
        with suppress(OSError):  # another user's, or removed meanwhile
            descriptor = _locked(str(path))
            if descriptor is not None:
                shutil.rmtree(path, ignore_errors=True)
                os.close(descriptor)


def _locked(path: str) -> int | None:
    """Return a descriptor that locks a folder; None if another process has locked it."""
    import fcntl  # not on Windows, where nothing compiles for AMD's devices

    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
