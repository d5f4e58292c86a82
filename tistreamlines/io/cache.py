"""A cache of results for later runs on the same files: arrays, named by a hash of everything they depend on."""

from __future__ import annotations

import hashlib
import json
import platform
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from .drafts import hidden_folder
from .source import source_hash

Array = npt.NDArray[Any]
T = TypeVar("T")
Entry = tuple[dict[str, Array], dict[str, Any]]
SIZES_AT = 26  # of the lengths of a file's name and extra field, in its header in a ZIP file
_COMPUTING = ("dipy", "llvmlite", "nibabel", "numba", "numpy", "scipy", "taichi")


class Cache:
    """A folder of cached results.

    Each file is named by a hash of everything that its content depends on, so an outdated file is never used. A run
    does not need the cache: a file that cannot be read is computed again, and one that cannot be written is skipped,
    each with a note.

    Parameters
    ----------
    folder : str or Path
        It is created if missing.
    note : callable
        Receives a message if a file cannot be read or written.
    """

    def __init__(self, folder: str | Path, note: Callable[[str], object] = lambda _: None) -> None:
        self.folder, self._note = Path(folder), note
        self._writable = True
        with self._unwritten(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        self._readable = self._writable  # a folder that could not be created contains nothing

    def path(self, kind: str, causes: Mapping[str, Any]) -> Path:
        """Return the file of a result, named by a hash of its kind, its causes and all code versions."""
        text = json.dumps({"kind": kind, "code": code_versions(), "causes": causes}, sort_keys=True)
        return self.folder / f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:32]}.npz"

    def load(
        self, kind: str, causes: Mapping[str, Any], unpack: Callable[[dict[str, Array], dict[str, Any]], T]
    ) -> T | None:
        """Return ``unpack(arrays, values)`` of a cached result, or None if there is none."""
        if not self._readable:
            return None
        path = self.path(kind, causes)
        try:
            return unpack(*_read(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        # for a damaged file zipfile, zlib, NumPy and unpack raise a dozen unrelated types, hence Exception
        except Exception as error:
            self._note(f"--cache-dir: {path} cannot be read ({_reason(error)}); its content is computed again")
            return None

    def store(
        self, kind: str, causes: Mapping[str, Any], arrays: Mapping[str, Array], values: Mapping[str, Any]
    ) -> None:
        """Store arrays, and values that JSON can represent; the file appears only when it is complete."""
        path = self.path(kind, causes)
        packed = {**arrays, "values": np.frombuffer(json.dumps(values).encode(), np.uint8)}
        if not self._writable:
            return
        # not by tempfile, whose files only their owner can read
        with self._unwritten(path), hidden_folder(path) as own:
            draft = own / path.name
            with draft.open("wb") as file:
                np.savez(file, **packed)  # type: ignore[arg-type]
            draft.replace(path)

    @contextmanager
    def _unwritten(self, path: Path) -> Generator[None, None, None]:
        """After the first error, send one note and write nothing more."""
        try:
            yield
        except (OSError, ValueError) as error:  # ValueError: a name with a NUL
            self._writable = False
            self._note(f"--cache-dir: {path} cannot be written ({_reason(error)}); nothing more is cached")


def _read(path: Path) -> Entry:
    """Return the arrays and values of a file, and check the CRC of each array.

    Each array is read in one call, because between two calls a thread waits until others leave it Python's lock.
    """
    arrays = {}
    with path.open("rb") as raw, zipfile.ZipFile(raw) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy warns of headers that are not valid Python
        for member in file.infolist():
            file.open(member).close()  # compares what the file says of it in two places
            raw.seek(member.header_offset + SIZES_AT)
            begin = member.header_offset + SIZES_AT + 4 + sum(struct.unpack("<HH", raw.read(4)))
            raw.seek(begin)
            array = np.lib.format.read_array(raw, allow_pickle=False)
            header = member.file_size - array.nbytes
            raw.seek(begin)
            crc = zlib.crc32(array.ravel(order="K").view(np.uint8).data, zlib.crc32(raw.read(max(header, 0))))
            if member.compress_type != zipfile.ZIP_STORED or crc != member.CRC:
                raise ValueError(f"{member.filename} is damaged")
            arrays[member.filename.removesuffix(".npy")] = array
    return arrays, json.loads(arrays.pop("values").tobytes())


def _reason(error: BaseException) -> str:
    words = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return words.splitlines()[0]


@cache
def code_versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that compute, and a hash of this package's source."""
    return {name: version(name) for name in _COMPUTING} | {"python": platform.python_version(), "code": source_hash()}
