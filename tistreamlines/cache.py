"""What a run worked out, kept for the next one on the same files: a folder of arrays under the hash of their causes."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import OutputError
from .models import Prepared
from .tractogram import Space

Array = npt.NDArray[Any]
Entry = tuple[dict[str, Array], dict[str, Any]]
_KERNELS = "tistreamlines.kernels."
_TABLE = "table_"
# the code whose work is kept
_CAUSES = (
    "models.py", "models_pmf.py", "models_ptt.py", "cells.py", "kernels/probe.py", "volume.py", "sphere.py",
    "polynomials.py", "harmonics.py", "orientations.py", "csd.py", "backends/cholesky.py", "fits.py", "plan.py",
    "seeds.py", "cache.py",
)  # fmt: skip


class Cache:
    """A folder of results.

    Each file is named by a hash of everything that its content depends on, so an old one is never taken for a new one.
    A file that cannot be read whole counts as missing.

    Parameters
    ----------
    folder : made if missing.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"--cache-dir {folder}: cannot be made ({error.strerror}); choose another") from error
        if not os.access(self.folder, os.W_OK):
            raise OutputError(f"--cache-dir {folder}: may not be written to; choose another")

    def path(self, kind: str, causes: Mapping[str, Any]) -> Path:
        """Name the file of a result by what it depends on."""
        text = json.dumps({"kind": kind, "code": code_versions(), "causes": causes}, sort_keys=True)
        return self.folder / f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:32]}.npz"

    def load(self, kind: str, causes: Mapping[str, Any]) -> Entry | None:
        """Return the arrays and the values that were kept, or None."""
        try:
            with np.load(self.path(kind, causes), allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}  # reading to the end checks each array's CRC
            return arrays, json.loads(arrays.pop("values").tobytes())
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return None

    def store(
        self, kind: str, causes: Mapping[str, Any], arrays: Mapping[str, Array], values: Mapping[str, Any]
    ) -> None:
        """Keep arrays and values that JSON can hold; the file appears whole or not at all."""
        path = self.path(kind, causes)
        packed = {**arrays, "values": np.frombuffer(json.dumps(values).encode(), np.uint8)}
        draft = self.folder / f".{path.name}.{os.getpid()}.part"
        try:
            with draft.open("wb") as file:
                np.savez(file, **packed)  # type: ignore[arg-type]
            draft.replace(path)
        except OSError as error:
            raise OutputError(f"{path}: cannot be written ({error.strerror}); check the free space") from error
        finally:
            draft.unlink(missing_ok=True)


@cache
def code_versions() -> dict[str, str]:
    """Versions of whatever shapes the results: libraries by their number, our own code by its bytes too."""
    folder = Path(__file__).parent
    own = hashlib.sha256(b"".join((folder / name).read_bytes() for name in _CAUSES)).hexdigest()
    return {name: version(name) for name in ("dipy", "numpy", "scipy", "nibabel")} | {"code": own}


def pack_prepared(prepared: Prepared, space: Space) -> Entry:
    """Turn tables and space into arrays and values that can be kept."""
    values: dict[str, Any] = {"affine": space.affine.tolist(), "shape": space.shape}
    for part in fields(Prepared):
        if part.name != "arrays":
            values[part.name] = _encoded(getattr(prepared, part.name))
    return {_TABLE + name: array for name, array in prepared.arrays.items()}, values


def unpack_prepared(arrays: Mapping[str, Array], values: Mapping[str, Any]) -> tuple[Prepared, Space]:
    """Undo :func:`pack_prepared`."""
    parts: dict[str, Any] = {
        part.name: _decoded(values[part.name]) for part in fields(Prepared) if part.name != "arrays"
    }
    tables = {name.removeprefix(_TABLE): array for name, array in arrays.items() if name.startswith(_TABLE)}
    return Prepared(arrays=tables, **parts), Space(np.array(values["affine"]), tuple(values["shape"]))


def _encoded(value: Any) -> Any:
    """Numbers, words, tuples and dictionaries as they are, a kernel function or record by where it is defined."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (int, float, str)):
        return value
    if isinstance(value, tuple):
        return [_encoded(item) for item in value]
    if isinstance(value, dict):
        return {name: _encoded(item) for name, item in value.items()}
    return {"kernel": f"{getattr(value, 'function', value).__module__}:{value.__name__}"}


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_decoded(item) for item in value)
    if isinstance(value, dict) and set(value) != {"kernel"}:
        return {name: _decoded(item) for name, item in value.items()}
    if isinstance(value, dict):
        module, name = value["kernel"].split(":")
        if not module.startswith(_KERNELS):
            raise ValueError(f"{module} is none of the kernels")
        return getattr(importlib.import_module(module), name)
    return value
