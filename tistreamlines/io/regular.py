"""Opening of files that may have been replaced: a pipe, a device, a link or a folder is refused, never waited for."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

MOST = 1 << 26  # bytes of a record at most
_KINDS = {
    stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFLNK: "a link", stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
}
_WAITING_FOR_NOTHING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # one of them on each system
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


def open_regular(path: Path, flags: int = os.O_RDONLY, *, links: bool = True, private: bool = False) -> int:
    """Open a regular file and return its descriptor.

    Parameters
    ----------
    path : Path
        The file.
    flags : int
        Those of ``os.open``.
    links : bool
        Follow links; else they are refused.
    private : bool
        Refuse links, and files that do not belong to this user; see :func:`is_of_this_user`.

    Raises
    ------
    OSError
        If it is something else than a regular file, or cannot be opened.
    """
    links = links and not private
    # before it is opened, since that alone can move a tape, and once more, since it may be replaced in between
    with suppress(FileNotFoundError):
        _check(path.stat() if links else path.lstat())
    descriptor = os.open(path, flags | _WAITING_FOR_NOTHING | (0 if links else _NO_LINK), 0o666)
    try:
        status = os.fstat(descriptor)
        _check(status)
        if private and not is_of_this_user(status, path.parent):
            raise PermissionError(errno.EPERM, f"it belongs to another user ({name_of_user(status.st_uid)})")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_regular(path: Path, *, private: bool = False) -> bytes:
    """Return the content of a regular file of moderate size; see :func:`open_regular`."""
    with os.fdopen(open_regular(path, private=private), "rb") as file:
        content = file.read(MOST + 1)
    if len(content) > MOST:
        raise OSError(errno.EFBIG, f"it has more than {MOST} bytes")
    return content


def is_of_this_user(status: os.stat_result, folder: Path) -> bool:
    """Whether what was found in a folder belongs to the user of this process, whoever the folder belongs to.

    Some disks give what a process writes to another owner, as NFS does with files of root: then a file of that owner is
    this user's too.
    """
    if not hasattr(os, "geteuid") or status.st_uid == os.geteuid():  # Windows has no such owners
        return True
    with suppress(OSError), tempfile.TemporaryFile(dir=folder) as new:
        return status.st_uid == os.fstat(new.fileno()).st_uid
    return False


def may_replace(path: Path) -> bool:
    """Whether this user may replace a file: in a sticky folder, its owner may, and the folder's, and root."""
    folder = path.parent.stat()
    if not folder.st_mode & stat.S_ISVTX or not hasattr(os, "geteuid") or os.geteuid() in (0, folder.st_uid):
        return True
    return is_of_this_user(path.lstat(), path.parent)


def name_of_user(number: int) -> str:
    """Return the name of a user, or the number of one without a name."""
    with suppress(ImportError, KeyError):
        import pwd

        return pwd.getpwuid(number).pw_name
    return str(number)


def _check(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, f"it is {_KINDS.get(stat.S_IFMT(status.st_mode), 'something else')}, not a file")
