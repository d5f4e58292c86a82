"""Conversion of tables to arrays and JSON values, in which the cache stores them, and back."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt

from ..io.tractogram import Space
from ..linker.lang import Record
from .given import Prepared

Arrays = dict[str, npt.NDArray[Any]]
KERNELS = "tistreamlines.kernels."


def pack_prepared(prepared: Prepared, space: Space) -> tuple[Arrays, dict[str, Any]]:
    """Convert tables and space to arrays by name, and to values for JSON."""
    arrays: Arrays = {}
    values = {part.name: _encoded(getattr(prepared, part.name), part.name, arrays) for part in fields(Prepared)}
    return arrays, values | {"affine": space.affine.tolist(), "shape": space.shape}


def unpack_prepared(arrays: Mapping[str, npt.NDArray[Any]], values: Mapping[str, Any]) -> tuple[Prepared, Space]:
    """Undo :func:`pack_prepared`."""
    parts = {part.name: _decoded(values[part.name], arrays) for part in fields(Prepared)}
    return Prepared(**parts), Space(np.array(values["affine"]), tuple(values["shape"]))


def _encoded(value: Any, path: str, arrays: Arrays) -> Any:
    """Return a value for JSON: arrays become names, kernels and records the place of their definition."""
    if isinstance(value, np.ndarray):
        arrays[path] = value
        return {"array": path}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (int, float, str)):
        return value
    if isinstance(value, tuple):
        return [_encoded(item, path, arrays) for item in value]
    if isinstance(value, dict):
        return {"items": {name: _encoded(item, f"{path}.{name}", arrays) for name, item in value.items()}}
    if isinstance(value, Record):
        held = {name: _encoded(item, f"{path}.{name}", arrays) for name, item in vars(value).items()}
        return {"record": _place(type(value)), "fields": held}
    return {"kernel": _place(value)}


def _decoded(value: Any, arrays: Mapping[str, npt.NDArray[Any]]) -> Any:
    if isinstance(value, list):
        return tuple(_decoded(item, arrays) for item in value)
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    if "items" in value:
        return {name: _decoded(item, arrays) for name, item in value["items"].items()}
    if "record" in value:
        return _found(value["record"])(**{name: _decoded(item, arrays) for name, item in value["fields"].items()})
    return _found(value["kernel"])


def _place(thing: Any) -> str:
    """Return the module and name of a kernel function or a record."""
    return f"{getattr(thing, 'function', thing).__module__}:{thing.__name__}"


def _found(place: str) -> Any:
    module, name = place.split(":")
    if not module.startswith(KERNELS):
        raise ValueError(f"{module} is none of the kernels")
    return getattr(importlib.import_module(module), name)
