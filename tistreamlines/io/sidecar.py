"""The JSON file beside a tractogram (the sidecar), which records parameters, inputs and results."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from . import ahead
from .drafts import complete_file, completed


def sidecar_path(output: str | Path) -> Path:
    """Return the name of the sidecar of a tractogram: out.trx -> out.json."""
    return Path(output).with_suffix(".json")


def write_json(path: str | Path, content: Mapping[str, object], *, force: bool = True) -> None:
    """Write a record as JSON; the file is complete, or not there at all.

    Parameters
    ----------
    path : str or Path
        File to write.
    content : dict
        A nesting of dicts, sequences, NumPy arrays and scalars, paths and enums. NaN and infinity become null.
    force : bool
        Replace an existing file.

    Raises
    ------
    OutputError
        If the file exists and ``force`` is false, or if it cannot be written.
    """
    path = Path(path)
    text = json.dumps(_plain(content), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    with completed(path, force=force) as draft:
        # bytes of a file name that are not UTF-8 are lone surrogates in Python, which JSON can escape
        draft.write_text(text, encoding="utf-8", errors="backslashreplace")


def write_record(path: str | Path, content: Mapping[str, object], *, force: bool = True) -> None:
    """Write a record that is read back: :func:`write_json` with a checksum of the content."""
    plain = _plain(content)
    write_json(path, plain | {"checksum": checksum(plain)}, force=force)


def checksum(content: Mapping[str, object]) -> str:
    """Return the SHA-256 of the content of JSON, without the checksum itself, whatever the order and the spaces."""
    rest = {name: value for name, value in content.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def sha256(path: str | Path) -> str:
    """Return the SHA-256 of a file as 64 hexadecimal digits; raise InputError if it cannot be read."""
    try:
        with Path(path).open("rb") as file:
            return ahead.sha256(file)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from error


def file_record(path: Path, content: memoryview | None = None) -> dict[str, str]:
    """Return what a record says of a file that was written: its path and its hash, of the content if that is known."""
    known = sha256(complete_file(path)) if content is None else hashlib.sha256(content).hexdigest()
    return {"path": str(path), "sha256": known}


def _plain(value: Any) -> Any:
    if value is None or type(value) in (str, int, bool):  # most values: no other test is needed
        return value
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(_plain(item) for item in value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Path):
        return str(value)
    return value
