"""The JSON file beside a tractogram: what was done, with what, and what came of it."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from .drafts import hidden_folder
from .writer import check_target, explained

HASH_BYTES = 1 << 20


def sidecar_path(output: str | Path) -> Path:
    """Name the JSON file that goes with an output: out.trx -> out.json."""
    return Path(output).with_suffix(".json")


def write_json(path: str | Path, content: Mapping[str, Any], *, force: bool = True) -> None:
    """Write a record as JSON, whole or not at all.

    Parameters
    ----------
    path : str or Path
        File to write.
    content : dict
        Any nesting of dicts, sequences, NumPy arrays and scalars, paths and enums. What is not finite becomes null.
    force : bool
        Whether a file of that name may be replaced.
    """
    path = Path(path)
    check_target(path, force=force)
    text = json.dumps(_plain(content), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    with explained(path), hidden_folder(path) as folder:
        draft = folder / path.name
        # a byte of a file's name that is no UTF-8 is a lone surrogate in Python, and escaped as JSON has it
        draft.write_text(text, encoding="utf-8", errors="backslashreplace")
        os.replace(draft, path)  # noqa: PTH105  (one atomic call on every system)


def sha256(path: str | Path) -> str:
    """Hash a file, a megabyte at a time; returns 64 hexadecimal digits."""
    digest = hashlib.sha256()
    try:
        with Path(path).open("rb") as file:
            while block := file.read(HASH_BYTES):
                digest.update(block)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    return digest.hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {_key(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(_plain(item) for item in value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Path):
        return str(value)
    return value


def _key(key: Any) -> str:
    return str(_plain(key))
