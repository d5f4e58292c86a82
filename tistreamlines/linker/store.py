"""The cache of linked and compiled code: a folder that only the user can write to.

A user who can write there decides which code runs.  So the cache uses no folder that others can write to, or can
replace because they can write to a folder above it.  A module is run from the linked text, never from its file, which
is for readers and debuggers only.  Code that cannot be written is compiled again in each run.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import linecache
import os
import stat
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import IO

ADVICE = "let XDG_CACHE_HOME name a folder that you alone can write to"
_loading = threading.RLock()
_numbers = itertools.count()
_notes: list[str] = []
_told = 0


def notes() -> list[str]:
    """Return the notes about the cache that the user has not seen; each line once in a process."""
    global _told
    new, _told = _notes[_told:], len(_notes)
    return new


def tell(text: str) -> None:
    """Keep a note for the user, once."""
    if text not in _notes:
        _notes.append(text)


def _note(reason: str) -> None:
    if not any(text.endswith(ADVICE) for text in _notes):
        tell(f"kernels are compiled again in each run, since {reason}: {ADVICE}")


def folder() -> Path | None:
    """Return the user's folder for compiled code, in the cache or among the temporary files; None if neither can be used."""
    places: list[Callable[[], Path]] = [_in_cache, _among_temporary_files]
    tried, exposed = [], ""
    for place in places:
        # there may be no home or no folder for temporary files, and Numba fails if a name is not UTF-8
        with suppress(OSError, RuntimeError, UnicodeError):
            path = place()
            str(path).encode()
            tried.append(str(path))
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            path.mkdir(mode=0o700, exist_ok=True)
            if not is_of_user(path.lstat(), stat.S_ISDIR):
                continue
            path = path.resolve()  # which stays the same if a link above it is replaced
            if (above := open_folder_above(path)) is not None:
                tried[-1] += f", which others can replace in {above}"
                exposed = exposed or tried[-1]
                continue
            with tempfile.TemporaryFile(dir=path):
                if exposed:
                    tell(f"compiled kernels are kept in {path}, not in {exposed}: {ADVICE}")
                return path
    _note(f"no folder for them can be written by this user alone (tried: {'; '.join(tried)})")
    return None


def _in_cache() -> Path:
    if place := os.environ.get("XDG_CACHE_HOME"):  # on every system, since ADVICE names it
        return Path(place) / "tistreamlines" / "kernels"
    from platformdirs import user_cache_path

    return user_cache_path("tistreamlines", appauthor=False) / "kernels"


def _among_temporary_files() -> Path:
    if tempfile.gettempdir() == os.getcwd():  # noqa: PTH109  (Python's last resort, where the user's own files are)
        raise FileNotFoundError
    return Path(tempfile.gettempdir()) / f"tistreamlines-{os.geteuid() if hasattr(os, 'geteuid') else 'user'}"


def is_of_user(status: os.stat_result, is_kind: Callable[[int], bool]) -> bool:
    """Whether what was found is of a kind, belongs to this user, and cannot be written by others."""
    if not hasattr(os, "geteuid"):  # Windows has no such bits, but both folders are in the user's profile
        return is_kind(status.st_mode)
    return is_kind(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022


def open_folder_above(path: Path) -> Path | None:
    """Return a folder above a path in which other users can put another folder in the path's place, if there is one.

    The folders above must belong to this user or to root, and others must not be able to write to them, but to sticky
    ones, where they can replace only what is theirs. As for sshd, the search ends with the home: where this lies is the
    administrator's choice. A container may give / to another user, who is as good as root then.

    Parameters
    ----------
    path : Path
        A folder of this user, without links.
    """
    if not hasattr(os, "geteuid"):  # on Windows, the folders are in the user's profile
        return None
    trusted, home = {0, os.geteuid(), Path("/").stat().st_uid}, None
    with suppress(OSError, RuntimeError):
        home = Path.home().resolve()
    for above in path.parents:
        status = above.stat()
        writable = status.st_mode & 0o002 or (status.st_mode & 0o020 and not _is_private(status.st_gid))
        if status.st_uid not in trusted or (writable and not status.st_mode & stat.S_ISVTX):
            return above
        if above == home:
            break
    return None


@functools.cache
def _is_private(number: int) -> bool:
    """Whether only this user and root are in a group: root's, or one with the user's name, as many systems make."""
    import grp
    import pwd

    with suppress(KeyError):
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(number)
        personal = number == user.pw_gid and group.gr_name == user.pw_name
        return (personal or number == 0) and {*group.gr_mem} <= {user.pw_name, "root"}
    return False


def open_plain(path: Path) -> IO[bytes]:
    """Open a file to read it, but follow no link, and never wait for a writer, as of a FIFO; OSError if there is none."""
    names = ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY")  # of which no system has all
    return os.fdopen(os.open(path, sum(getattr(os, name, 0) for name in names)), "rb")


def stem_of(text: str) -> str:
    """Return the name of a module's files, which depends on its text alone."""
    return f"tistreamlines_{hashlib.sha256(text.encode()).hexdigest()[:24]}"


def load(text: str, fresh: bool = False) -> ModuleType:
    """Make a module from its text; any thread may call this.

    Parameters
    ----------
    text : of the module; its file, beside which compiled code is stored, is named after a hash of it.
    fresh : make a new module even if the text was loaded before, since Taichi's kernels belong to one initialisation.
    """
    stem = stem_of(text)
    with _loading:
        name = f"{stem}_{next(_numbers)}" if fresh else stem
        if name not in sys.modules:
            place = folder()
            sys.modules[name] = module = ModuleType(name)
            try:
                _execute(module, text, None if place is None else place / f"{stem}.py")
            except BaseException:
                del sys.modules[name]
                raise
        return sys.modules[name]


def _execute(module: ModuleType, text: str, path: Path | None) -> None:
    """Run a module's text, and show this text to debuggers and to Taichi, which reads the source of functions."""
    shown = f"<{module.__name__}>" if path is None else str(path)
    if path is not None:
        module.__file__ = shown
        content = text.encode()
        if read(path) != content:
            write(path, content)
    linecache.cache[shown] = (len(text), None, text.splitlines(keepends=True), shown)
    exec(compile(text, shown, "exec", dont_inherit=True), vars(module))


def read(path: Path) -> bytes | None:
    """Return a file's content, or None if it cannot be read or belongs to another user."""
    with suppress(OSError), open_plain(path) as file:
        return file.read() if is_of_user(os.fstat(file.fileno()), stat.S_ISREG) else None
    return None


def read_sealed(path: Path) -> bytes | None:
    """Return the content of a file that ``write_sealed`` wrote, or None if it is damaged or was another file's."""
    held = read(path)
    return None if held is None or held[:32] != seal(path, held[32:]) else held[32:]


def write_sealed(path: Path, content: bytes) -> None:
    """Write a file that begins with a hash of its name and of the rest, or note that it cannot be written."""
    write(path, seal(path, content) + content)


def seal(path: Path, content: bytes) -> bytes:
    """Return a hash of a file's name and content."""
    return hashlib.sha256(path.name.encode() + b"\0" + content).digest()


def write(path: Path, content: bytes) -> None:
    """Write a file completely or not at all; if it cannot be written, note that."""
    try:
        descriptor, draft = tempfile.mkstemp(prefix=path.stem, suffix=".tmp", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
            os.replace(draft, path)
        finally:
            Path(draft).unlink(missing_ok=True)
    except OSError as error:
        _note(f"{path.parent} cannot be written ({error.strerror or error})")
