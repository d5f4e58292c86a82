"""Files that appear when they are complete: hidden folders for drafts, which can be removed at any moment, and locks.

A lock ends with the process that holds it. Where a system has none (Windows, some network disks), nothing is locked.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Collection, Generator, Iterable
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Lock

from ..errors import OutputError
from .regular import is_of_this_user, may_replace, name_of_user, open_regular

TOKEN = 4  # random bytes in the name of a folder
REMOVALS = 1000  # attempts to remove a folder to which a thread may still write

_DRAFT = re.compile(rf"\.(.+)\.[0-9a-f]{{{2 * TOKEN}}}\.part", re.DOTALL)
_hidden: set[Path] = set()  # folders, and files that reserve others
_together: dict[Path, _Together] = {}  # of files that get their names together


@contextmanager
def hidden_folder(path: Path) -> Generator[Path, None, None]:
    """Create a folder beside ``path``, on the same disk so that files can be renamed out of it, and remove it after."""
    folder = path.parent / f".{path.name}.{secrets.token_hex(TOKEN)}.part"
    _hidden.add(folder)  # before it exists, so that a signal at any moment finds it
    try:
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        _remove(folder)


class ForeignLock(PermissionError):
    """The file of a lock belongs to another user, and cannot be used."""

    def __init__(self, user: int) -> None:
        self.owner = name_of_user(user)
        super().__init__(errno.EPERM, f"it belongs to another user ({self.owner})")


@contextmanager
def locked(path: Path) -> Generator[int | None, None, None]:
    """Hold the lock on a file until the end of the block, which removes it; hand out its descriptor.

    The file is created if it is missing. One that another user has left is used too, if the system lets this user open
    it, but not in a sticky folder, where that user alone may remove it. None is handed out if there are no locks.

    Raises
    ------
    BlockingIOError
        If another process, or another thread of this one, holds it.
    ForeignLock
        If it belongs to another user and cannot be used.
    OSError
        If it is a link, a pipe or anything else than a file.
    """
    if sys.platform == "win32":
        yield None
        return
    with ExitStack() as files:
        while True:
            descriptor = _lock_file(path)
            files.callback(os.close, descriptor)
            locks = _lock(descriptor)
            with suppress(FileNotFoundError):
                if not locks or os.path.samestat(path.lstat(), os.fstat(descriptor)):
                    break
            files.close()  # whoever held it before has removed it since it was opened
        if path.parent.stat().st_mode & stat.S_ISVTX:
            _check_owner(path, os.fstat(descriptor))
        _hidden.add(path)
        try:
            yield descriptor if locks else None
        finally:
            _remove(path)


def _lock_file(path: Path) -> int:
    """Open a file for a lock, or create it; others may create and remove it at any moment."""
    while True:
        known = path in _hidden  # another thread holds it
        _hidden.add(path)  # before it exists, so that a signal at any moment finds it
        with suppress(FileExistsError):
            return open_regular(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, links=False)
        if not known:
            _hidden.discard(path)
        with suppress(FileNotFoundError):
            for flags in (os.O_RDWR, os.O_RDONLY):
                with suppress(PermissionError):
                    return open_regular(path, flags, links=False)
            _check_owner(path, path.lstat())
            raise PermissionError(errno.EACCES, f"no permission to open {path.name}")


def _check_owner(path: Path, status: os.stat_result) -> None:
    """Raise ForeignLock if a file belongs to another user."""
    if not is_of_this_user(status, path.parent):
        raise ForeignLock(status.st_uid)


def _lock(descriptor: int) -> bool:
    """Take the lock on an open file; return whether the disk has locks."""
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError as error:
        if error.errno == errno.EBADF:  # NFS, if a file is open for reading alone
            raise ForeignLock(os.fstat(descriptor).st_uid) from None
        return False
    return True


@contextmanager
def reserved(path: Path) -> Generator[None, None, None]:
    """Keep other processes from writing a file, by the lock on a hidden one beside it, which is removed at the end.

    Removes drafts of the file that killed processes have left.

    Raises
    ------
    BlockingIOError, OSError
        As :func:`locked`.
    """
    with locked(lock_of(path)) as held:
        if held is not None:
            remove_drafts([path])
        yield


def remove_drafts(paths: Iterable[Path]) -> None:
    """Remove the drafts of some files whose locks are held: killed processes have left them."""
    names: dict[Path, set[str]] = {}
    for path in paths:
        names.setdefault(path.parent, set()).add(path.name)
    for folder, files in names.items():
        with suppress(OSError), os.scandir(folder) as there:  # glob takes ten times as long
            for entry in there:
                if (draft := _DRAFT.fullmatch(entry.name)) and draft[1] in files:
                    shutil.rmtree(entry.path, ignore_errors=True)


def lock_of(path: Path) -> Path:
    """Return the name of the hidden file that reserves another one."""
    return path.with_name(f".{path.name}.lock")


def allow_open(more: int) -> None:
    """Let this process open so many files more, if the system does: often, 256 are allowed on macOS, 1024 on Linux."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY and 2 * more > soft:
            most = soft + more if hard == resource.RLIM_INFINITY else min(soft + more, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


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


class _Together:
    """Files that get their names together, and their complete drafts.

    Threads of a block may write at the same time. Drafts of files in one folder share a hidden one, which has the name
    of the first of them: one for each takes longer.

    Attributes
    ----------
    drafts : of complete files.
    hidden : files that are under other names until the end. A file of their name before that is of another program.
    forced : those that may replace existing files.
    """

    def __init__(self, files: Collection[Path], hidden: Iterable[Path], stack: ExitStack) -> None:
        self.drafts: dict[Path, Path] = {}
        self.hidden, self.forced = {*hidden}, set[Path]()
        self._files = files
        self._folders: dict[Path, Path] = {}
        self._stack, self._lock = stack, Lock()

    def draft_of(self, path: Path) -> Path:
        """Return the name under which a file is written."""
        with self._lock:
            if path.parent not in self._folders:
                first = next(file for file in self._files if file.parent == path.parent)
                self._folders[path.parent] = self._stack.enter_context(hidden_folder(first))
            return self._folders[path.parent] / path.name

    def finish(self) -> None:
        """Give all files their names."""
        for path in self.drafts:  # others may have written meanwhile
            check_target(path, force=path in self.forced)
        for path, draft in self.drafts.items():
            with explained(path):
                os.replace(draft, path)  # noqa: PTH105  (one atomic call on every system)
            self.hidden.discard(path)


@contextmanager
def completed(path: Path, *, force: bool) -> Generator[Path, None, None]:
    """Hand out the name of a hidden file, which gets the name ``path`` at the end of the block.

    A file of an :func:`all_or_none` gets its name at the end of that.

    Raises
    ------
    OutputError
        If the file exists and ``force`` is false, or if it cannot be written.
    """
    together = _together.get(path)
    if together is not None:
        together.hidden.add(path)
    check_target(path, force=force)
    with explained(path), ExitStack() as stack:
        draft = stack.enter_context(hidden_folder(path)) / path.name if together is None else together.draft_of(path)
        yield draft
        place(draft, path, force=force)


def place(draft: Path, path: Path, *, force: bool) -> None:
    """Give a complete draft its name, or keep it until all files of an :func:`all_or_none` get theirs."""
    check_target(path, force=force)
    together = _together.get(path)
    target = path if together is None else together.draft_of(path)
    os.replace(draft, target)  # noqa: PTH105  (one atomic call on every system)
    if together is not None:
        together.drafts[path] = target
        if force:
            together.forced.add(path)


def complete_file(path: Path) -> Path:
    """Return where the content of a file is that is complete: perhaps under a hidden name, see :func:`all_or_none`."""
    together = _together.get(path)
    return path if together is None else together.drafts.get(path, path)


@contextmanager
def completed_folder(path: Path, replaced: Collection[str], *, force: bool) -> Generator[Path, None, None]:
    """Hand out a hidden folder, which gets the name ``path`` at the end of the block and replaces an earlier one.

    If ``path`` is a link, the folder is where it points to.

    Raises
    ------
    OutputError
        As :func:`check_folder_target`, or if the folder cannot be written.
    """
    check_folder_target(path, replaced, force=force)
    place = real_path(path)
    with explained(path), hidden_folder(place) as hidden:
        draft, earlier = hidden / place.name, hidden / "earlier"
        draft.mkdir()
        yield draft
        check_folder_target(path, replaced, force=force)
        if place.exists():
            place.rename(earlier)
        try:
            draft.rename(place)
        except OSError:
            if earlier.exists():
                earlier.rename(place)
            raise


def check_folder_target(path: Path, replaced: Collection[str], *, force: bool) -> None:
    """Raise OutputError unless a folder can be written at this path; ``replaced`` names files that may be lost."""
    check_folder_name(path)
    if not path.is_dir():
        check_target(path, force=False)
        return
    with explained(path):
        there = sorted(file.name for file in path.iterdir())
    if there and not force:
        raise OutputError(f"{path}: is not empty; give another name, or --force to replace it")
    if others := [name for name in there if name not in replaced]:
        raise OutputError(f"{path}: has {others[0]}, which is not replaced; remove it, or give another name")
    place = real_path(path)
    if not os.access(place.parent, os.W_OK) or not may_replace(place):
        raise OutputError(f"{path}: no permission to replace it in folder {place.parent}; give another name")


def check_folder_name(path: Path) -> None:
    """Raise OutputError if a path names no folder, or if it is new and has the name of an image."""
    from .images import ENDINGS  # whose libraries are not needed for a draft

    if not path.name:
        raise OutputError(f"{path}: is no name of a folder; name one")
    ending = next((ending for ending in ENDINGS if path.name.lower().endswith(ending)), None)
    if ending is not None and not path.exists():
        raise OutputError(f"{path}: images are written to a folder; give its name, without {ending}")


def real_path(path: Path) -> Path:
    """Return the path without links and ``..``; a link to itself stays."""
    return Path(os.path.realpath(path))


@contextmanager
def all_or_none(paths: Iterable[Path], hidden: Iterable[Path] = ()) -> Generator[None, None, None]:
    """Give some files their names together at the end of the block; if it fails, there is none that is new.

    The names of files of a block around this one follow at the end of that one. A file that is not written by
    :func:`completed` is removed if it is new and the block fails.

    Parameters
    ----------
    paths : all files.
    hidden : those of them that only :func:`completed` and :func:`place` write.

    Raises
    ------
    OutputError
        If another program has written one meanwhile that may not be replaced, or if one cannot be written.
    """
    files = [path for path in dict.fromkeys(paths) if path not in _together]
    new = [path for path in files if not path.exists()]
    with ExitStack() as stack:
        together = _Together(files, hidden, stack)
        _together.update(dict.fromkeys(files, together))
        try:
            yield
            together.finish()
        except BaseException:
            for path in set(new) - together.hidden:
                with suppress(OSError):
                    path.unlink()
            raise
        finally:
            for path in files:
                del _together[path]


def check_target(path: Path, *, force: bool) -> None:
    """Raise OutputError unless a file can be written at this path."""
    try:
        if not path.parent.is_dir():
            raise OutputError(f"{path}: no folder {path.parent}; make it first")
        if path.is_dir():
            raise OutputError(f"{path}: is a folder; give the name of a file")
        if path.exists() and not path.is_file():
            raise OutputError(f"{path}: is a pipe or a device, and is not replaced; give the name of a file")
        if path.exists() and not force:
            raise OutputError(f"{path}: exists already; give another name, or --force to replace it")
        if not os.access(path.parent, os.W_OK):
            raise OutputError(f"{path}: no permission to write to folder {path.parent}; choose another")
        if path.exists() and not may_replace(path):
            owner = name_of_user(path.lstat().st_uid)
            raise OutputError(f"{path}: belongs to another user ({owner}), who alone can replace it; give another name")
    except (OSError, ValueError) as error:  # a name that is too long, or has a NUL
        reason = error.strerror if isinstance(error, OSError) else error
        raise OutputError(f"{path}: cannot be written ({reason}); give another name") from error


@contextmanager
def explained(path: Path) -> Generator[None, None, None]:
    """Turn an OSError into an OutputError that names the file."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(f"{path}: cannot be written ({reason}); check the free space and the folder") from error
