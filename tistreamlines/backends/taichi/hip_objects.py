"""A folder for the files that Quadrants links for AMD's devices, which it would leave among the temporary files for
ever.

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
        if SAFE.fullmatch(place):
            for left in Path(place).glob(f"{PREFIX}*"):
                with suppress(OSError):  # of a process that lives or of another user, or removed meanwhile
                    _remove(str(left), _locked(str(left)))
            path = tempfile.mkdtemp(prefix=PREFIX, dir=place)
            _folders[path] = _locked(path)
            atexit.register(remove_objects, os.getpid())
            return path
    return None


def remove_objects(process: int | None = None) -> None:
    """Remove this process's folders, when the compiler has stopped or Python ends, but not in a fork of ``process``."""
    while _folders and process in (None, os.getpid()):
        _remove(*_folders.popitem())


def _remove(path: str, descriptor: int) -> None:
    shutil.rmtree(path, ignore_errors=True)
    os.close(descriptor)


def _locked(path: str) -> int:
    """Return a descriptor that locks a folder; OSError if another process has locked it."""
    import fcntl  # not on Windows, where nothing compiles for AMD's devices

    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
