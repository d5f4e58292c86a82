"""Opening of files that may have been replaced: a pipe, a device, a link or a folder is refused, never waited for."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

MOST = 1 << 26  # bytes of a record at most
_KINDS = {
    stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFLNK: "a link", stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
}  # fmt: skip
_WAITING_FOR_NOTHING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # one of them on each system
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


def open_regular(path: Path, flags: int = os.O_RDONLY, *, own: bool = False) -> int:
    """Open a regular file and return its descriptor.

    Parameters
    ----------
    path : Path
        The file.
    flags : int
        Those of ``os.open``. A file that is created can be read by its owner only.
    own : bool
        Refuse links, and files that belong to another user than their folder.

    Raises
    ------
    OSError
        If it is something else than a regular file, or cannot be opened.
    """
    # before it is opened, since that alone can move a tape, and once more, since it may be replaced in between
    with suppress(FileNotFoundError):
        _check(path.lstat() if own else path.stat())
    descriptor = os.open(path, flags | _WAITING_FOR_NOTHING | (_NO_LINK if own else 0), 0o600)
    try:
        found = os.fstat(descriptor)
        _check(found)
        if own and found.st_uid != path.parent.stat().st_uid:
            raise PermissionError(errno.EPERM, "it belongs to another user")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_regular(path: Path, *, own: bool = False) -> bytes:
    """Return the content of a regular file of moderate size; see :func:`open_regular`."""
    with os.fdopen(open_regular(path, own=own), "rb") as file:
        content = file.read(MOST + 1)
    if len(content) > MOST:
        raise OSError(errno.EFBIG, f"it has more than {MOST} bytes")
    return content


def _check(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, f"it is {_KINDS.get(stat.S_IFMT(found.st_mode), 'something else')}, not a file")
