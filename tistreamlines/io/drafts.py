"""Hidden folders in which files are written until they are complete, which can be removed at any moment, and locks.

A lock ends with the process that holds it. Where a system has none (Windows, some network disks), nothing is locked.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from .regular import open_regular

REMOVALS = 1000  # attempts to remove a folder to which a thread may still write

_hidden: set[Path] = set()  # folders, and files that reserve others


@contextmanager
def hidden_folder(path: Path) -> Generator[Path, None, None]:
    """Create a folder beside ``path``, on the same disk so that files can be renamed out of it, and remove it after."""
    folder = path.parent / f".{path.name}.{secrets.token_hex(4)}.part"
    _hidden.add(folder)  # before it exists, so that a signal at any moment finds it
    try:
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        _remove(folder)


@contextmanager
def locked(path: Path) -> Generator[int | None, None, None]:
    """Hold the lock on a file, which is created if it is missing; hand out its descriptor, or None without locks.

    Raises
    ------
    BlockingIOError
        If another process, or another thread of this one, holds it.
    OSError
        If it is a link, a pipe or anything else than a file of this user.
    """
    if sys.platform == "win32":
        yield None
        return
    descriptor = open_regular(path, os.O_RDWR | os.O_CREAT, own=True)
    try:
        yield descriptor if _lock(descriptor) else None
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:  # a file system without locks
        return False
    return True


@contextmanager
def reserved(path: Path) -> Generator[None, None, None]:
    """Keep other processes from writing a file, by the lock on a hidden one beside it, which is removed at the end.

    Raises
    ------
    BlockingIOError, OSError
        As :func:`locked`.
    """
    beside = path.with_name(f".{path.name}.lock")
    while True:
        with locked(beside) as held:
            if held is not None and not _is_at(beside, held):
                continue  # whoever held it before has removed it since it was opened
            _hidden.add(beside)
            try:
                yield
            finally:
                _remove(beside)
            return


def allow_open(more: int) -> None:
    """Let this process open so many files more, if the system does: often, 256 are allowed on macOS, 1024 on Linux."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY and 2 * more > soft:
            most = soft + more if hard == resource.RLIM_INFINITY else min(soft + more, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def discard() -> None:
    """Remove all that is hidden, even if a thread still writes to a folder; its further writes fail."""
    for path in tuple(_hidden):
        _remove(path)


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()  # once only, since another process may reserve the same at once
    for _ in range(REMOVALS):
        if not path.is_dir():
            break
        shutil.rmtree(path, ignore_errors=True)
    _hidden.discard(path)
