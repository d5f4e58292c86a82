"""A cache of results for later runs on the same files: arrays, named by a hash of everything they depend on.

A user who can write files there decides what is tracked. So the folder and its files must belong to the user and not be
writable by others, unless these are trusted. Each file has a seal, a hash of its name and of the check sums of its
content, by which an array that was exchanged and a file with another's name are found.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import platform
import stat
import struct
import warnings
import zipfile
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO, Protocol, TypeVar

import numpy as np

from ..aliases import Array, Json
from ..installed import version_of
from ..linker.store import is_of_user, open_plain
from ..plugins import digests
from .checksums import crc32
from .drafts import hidden_folder
from .regular import is_of_this_user

T = TypeVar("T")
Unpack = Callable[[dict[str, Array], Json], T]
SEAL = "seal"  # a member of each file
SIZES_AT = 26  # of the lengths of a file's name and extra field, in its header in a ZIP file
IDLE = ("cli", "benchmarks", "phantom")  # folders that compute no streamline
_COMPUTING = ("dipy", "llvmlite", "nibabel", "numba", "numpy", "scipy")


class Results(Protocol):
    """Results that are known from runs before."""

    def load(self, kind: str, causes: Mapping[str, object], unpack: Unpack[T]) -> T | None:
        """Return ``unpack(arrays, values)`` of a result, or None if it is not known."""

    def store(
        self, kind: str, causes: Mapping[str, object], arrays: Mapping[str, Array], values: Mapping[str, object]
    ) -> None:
        """Keep arrays, and values that JSON can represent."""


class Cache:
    """A folder of cached results.

    Each file is named by a hash of everything that its content depends on, so an outdated file is never used. A run
    does not need the cache: it computes again what it cannot read, and goes on if it cannot write, each time with a
    note.

    Parameters
    ----------
    folder : str or Path
        It is created if missing.
    note : callable
        Receives a message if a file cannot be read or written.
    shared : bool
        Whether others may write to the folder, and their files are read.
    """

    def __init__(
        self, folder: str | Path, note: Callable[[str], object] = lambda _: None, shared: bool = False
    ) -> None:
        self.folder, self._note, self._shared = Path(folder), note, shared
        self._writable = True
        with self._unwritten(self.folder):
            self.folder.mkdir(0o777 if shared else 0o755, parents=True, exist_ok=True)
            if reason := self._distrust(self.folder.lstat(), stat.S_ISDIR, "folder"):
                self._writable = False
                note(f"--cache-dir: {self.folder} {reason}; nothing is read from it or kept in it")
        self._readable = self._writable  # a folder that could not be created contains nothing

    def path(self, kind: str, causes: Mapping[str, object]) -> Path:
        """Return the file of a result, named by a hash of its kind, its causes and all code versions."""
        all_causes = {"kind": kind, "causes": causes, "code": code_versions(), "plugins": digests()}
        text = json.dumps(all_causes, sort_keys=True)
        return self.folder / f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:32]}.npz"

    def load(self, kind: str, causes: Mapping[str, object], unpack: Unpack[T]) -> T | None:
        """Return ``unpack(arrays, values)`` of a cached result, or None if there is none."""
        if not self._readable:
            return None
        path = self.path(kind, causes)
        try:
            with self._open(path) as raw:
                return unpack(*_read(raw, path.name))
        except (FileNotFoundError, NotADirectoryError):
            return None
        # for a damaged file zipfile, zlib, NumPy and unpack raise a dozen unrelated types, hence Exception
        except Exception as error:
            self._note(f"--cache-dir: {path} cannot be used ({_reason(error)}); its content is computed again")
            return None

    def store(
        self, kind: str, causes: Mapping[str, object], arrays: Mapping[str, Array], values: Mapping[str, object]
    ) -> None:
        """Store arrays, and values that JSON can represent; the file appears only when it is complete."""
        path = self.path(kind, causes)
        packed = {**arrays, "values": np.frombuffer(json.dumps(values).encode(), np.uint8)}
        if not self._writable:
            return
        # not by tempfile, whose files only their owner can read
        with self._unwritten(path), hidden_folder(path) as folder:
            draft, mode = folder / path.name, 0o666 if self._shared else 0o644
            with open(draft, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
                np.savez(file, **packed)  # type: ignore[arg-type]
            with zipfile.ZipFile(draft, "a") as file:
                # undated, as NumPy leaves the others: the same content is the same file
                file.writestr(zipfile.ZipInfo(SEAL), _seal(path.name, file.infolist()))
            draft.replace(path)

    def _open(self, path: Path) -> IO[bytes]:
        """Open a file of the folder if it can be trusted."""
        try:
            raw = open_plain(path)
        except OSError as error:
            raise ValueError("is a link") if error.errno == errno.ELOOP else error from None
        if reason := self._distrust(os.fstat(raw.fileno()), stat.S_ISREG, "file"):
            raw.close()
            raise ValueError(f"it {reason}")
        return raw

    def _distrust(self, status: os.stat_result, is_kind: Callable[[int], bool], kind: str) -> str:
        """Return why a file or the folder is not used, or nothing."""
        if not is_kind(status.st_mode):
            return "is a link: give the folder itself" if stat.S_ISLNK(status.st_mode) else f"is no {kind}"
        if self._shared or is_of_user(status, is_kind):
            return ""
        is_owner = is_of_this_user(status, self.folder)
        if is_owner and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):  # where a disk gives files another owner
            return ""
        reason = "can be written by other users (chmod go-w takes that away)" if is_owner else "belongs to another user"
        return f"{reason}; if you trust all who can write there, give --shared-cache"

    @contextmanager
    def _unwritten(self, path: Path) -> Generator[None, None, None]:
        """After the first error, send one note and write nothing more."""
        try:
            yield
        except (OSError, ValueError) as error:  # ValueError: a name with a NUL
            self._writable = False
            self._note(f"--cache-dir: {path} cannot be written ({_reason(error)}); nothing more is cached")


def _read(raw: IO[bytes], name: str) -> tuple[dict[str, Array], Json]:
    """Return the arrays and values of a file, and check its seal and the CRC of each array.

    Each array is read in one call, because between two calls a thread waits until others leave it Python's lock.
    """
    arrays = {}
    with zipfile.ZipFile(raw) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy warns of headers that are not valid Python
        members = [member for member in file.infolist() if member.filename != SEAL]
        if file.read(SEAL) != _seal(name, members):
            raise ValueError("its content is not what was written under this name")
        for member in members:
            file.open(member).close()  # compares what the file says of it in two places
            raw.seek(member.header_offset + SIZES_AT)
            begin = member.header_offset + SIZES_AT + 4 + sum(struct.unpack("<HH", raw.read(4)))
            raw.seek(begin)
            array = np.lib.format.read_array(raw, allow_pickle=False)
            header = member.file_size - array.nbytes
            raw.seek(begin)
            crc = crc32(array.ravel(order="K").view(np.uint8).data, crc32(raw.read(max(header, 0))))
            if member.compress_type != zipfile.ZIP_STORED or crc != member.CRC:
                raise ValueError(f"{member.filename} is damaged")
            arrays[member.filename.removesuffix(".npy")] = array
    return arrays, json.loads(arrays.pop("values").tobytes())


def _seal(name: str, members: Iterable[zipfile.ZipInfo]) -> bytes:
    """Return a hash of a file's name and of the check sums of its content."""
    content = [(member.filename, member.file_size, member.CRC) for member in members]
    return hashlib.sha256(repr((name, content)).encode()).hexdigest().encode()


def _reason(error: BaseException) -> str:
    words = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return words.splitlines()[0]


@cache
def code_versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that compute, and a hash of this package's source."""
    libraries = {name: version_of(name) for name in _COMPUTING}
    return libraries | {"python": platform.python_version(), "code": source_hash()}


@cache
def source_hash() -> str:
    """Return the SHA-256 of the source that computes, as 64 hexadecimal digits."""
    folder, digest = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        place = path.relative_to(folder)
        if place.parts[0] not in IDLE:
            content = path.read_bytes()
            digest.update(f"{place.as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def with_plugins(digest: str) -> str:
    """Return a hash of this package's source, an argument, and of the modules that extend it, if any."""
    others = digests()
    return hashlib.sha256(repr((digest, others)).encode()).hexdigest() if others else digest
