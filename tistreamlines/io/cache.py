"""What a run worked out, kept for the next one on the same files: a folder of arrays under the hash of their causes."""

from __future__ import annotations

import hashlib
import json
import platform
import warnings
import zipfile
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from .drafts import hidden_folder

Array = npt.NDArray[Any]
T = TypeVar("T")
Entry = tuple[dict[str, Array], dict[str, Any]]
_COMPUTING = ("dipy", "llvmlite", "nibabel", "numba", "numpy", "scipy", "taichi")


class Cache:
    """A folder of results.

    Each file is named by a hash of everything that its content depends on, so an old one is never taken for a new one.
    A run can do without: what cannot be read counts as missing, what cannot be written is not kept, and both are noted.

    Parameters
    ----------
    folder : made if missing.
    note : is told of what cannot be read or written.
    """

    def __init__(self, folder: str | Path, note: Callable[[str], object] = lambda _: None) -> None:
        self.folder, self._note = Path(folder), note
        self._writable = True
        with self._unwritten(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        self._readable = self._writable  # there is nothing to read in a folder that cannot be

    def path(self, kind: str, causes: Mapping[str, Any]) -> Path:
        """Name the file of a result by what it depends on."""
        text = json.dumps({"kind": kind, "code": code_versions(), "causes": causes}, sort_keys=True)
        return self.folder / f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:32]}.npz"

    def load(
        self, kind: str, causes: Mapping[str, Any], unpack: Callable[[dict[str, Array], dict[str, Any]], T]
    ) -> T | None:
        """Return what ``unpack`` makes of the arrays and the values that were kept, or None."""
        if not self._readable:
            return None
        path = self.path(kind, causes)
        try:
            return unpack(*_read(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        # zipfile, zlib, NumPy and unpacking raise a dozen unrelated types for a damaged file, hence Exception
        except Exception as error:
            self._note(f"--cache-dir: {path} cannot be read ({_reason(error)}); its content is worked out again")
            return None

    def store(
        self, kind: str, causes: Mapping[str, Any], arrays: Mapping[str, Array], values: Mapping[str, Any]
    ) -> None:
        """Keep arrays and values that JSON can hold; the file appears whole or not at all."""
        path = self.path(kind, causes)
        packed = {**arrays, "values": np.frombuffer(json.dumps(values).encode(), np.uint8)}
        if not self._writable:
            return
        # a folder of its own, since a file that tempfile makes could be read by its owner alone
        with self._unwritten(path), hidden_folder(path) as own:
            draft = own / path.name
            with draft.open("wb") as file:
                np.savez(file, **packed)  # type: ignore[arg-type]
            draft.replace(path)

    @contextmanager
    def _unwritten(self, path: Path) -> Generator[None, None, None]:
        """Note what cannot be written, once, and write no more."""
        try:
            yield
        except (OSError, ValueError) as error:  # ValueError: a name with a NUL
            self._writable = False
            self._note(f"--cache-dir: {path} cannot be written ({_reason(error)}); nothing more is kept")


def _read(path: Path) -> Entry:
    """Arrays and values of a file; each array is read to its end, where its CRC is compared."""
    arrays = {}
    with zipfile.ZipFile(path) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of a header that is no Python
        for name in file.namelist():
            with file.open(name) as member:
                arrays[name.removesuffix(".npy")] = np.lib.format.read_array(member, allow_pickle=False)
                if member.read(1):
                    raise ValueError(f"{name} is longer than its header says")
    return arrays, json.loads(arrays.pop("values").tobytes())


def _reason(error: BaseException) -> str:
    words = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return words.splitlines()[0]


@cache
def code_versions() -> dict[str, str]:
    """Versions of whatever computes: Python and libraries by their number, our own code by its bytes."""
    folder, own = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        content = path.read_bytes()
        own.update(f"{path.relative_to(folder).as_posix()} {len(content)}\n".encode() + content)
    return {name: version(name) for name in _COMPUTING} | {"python": platform.python_version(), "code": own.hexdigest()}
