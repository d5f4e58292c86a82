"""Conversion of tables to arrays and JSON values, in which the cache stores them, and back.

These arrays decide which memory kernels read and write, so they are checked: each array against the record and the
constants with which the kernels are linked, and the index of the volume against its rows.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from ... import plugins
from ...aliases import Array, Json
from ...kernels.interpolate import Volume
from ...linker.lang import Func, Reals, Record, fields_of
from ...linker.parts import Part
from ...space.batch import Space
from .inputs import KernelTables

Arrays = dict[str, Array]
ROOMS = "tistreamlines.kernels.", "tistreamlines.tracking.", "tistreamlines.space.", "tistreamlines.linker.lang"


def pack_tables(prepared: KernelTables, space: Space) -> tuple[Arrays, Json]:
    """Convert tables and space to arrays by name, and to values for JSON."""
    arrays: Arrays = {}
    values = {part.name: _encode(getattr(prepared, part.name), part.name, arrays) for part in fields(KernelTables)}
    return arrays, values | {"affine": space.affine.tolist(), "shape": space.shape}


def unpack_tables(arrays: Mapping[str, Array], values: Mapping[str, Any]) -> tuple[KernelTables, Space]:
    """Undo :func:`pack_tables`.

    Raises
    ------
    ValueError, TypeError, KeyError
        If that is not what it has made, or if kernels would read or write beyond the arrays.
    """
    prepared = KernelTables(**{part.name: _decode(values[part.name], arrays) for part in fields(KernelTables)})
    space = Space(np.array(values["affine"]), tuple(values["shape"]))
    getter, rule = prepared.getter, prepared.rule
    _check_sizes("method", getter.method, getter)
    _check_sizes("stopping", rule.stopping, rule)
    _check_volume(prepared.volume, space.shape, 32 * getter.row.row_chunks)
    return prepared, space


def _check_sizes(name: str, record: Record, owner: Part) -> None:
    """Check the arrays of a record of a part against what kernels take them for."""
    sizes = record.elements(owner)
    for field, note in fields_of(type(record)).items():
        value, place = getattr(record, field), f"{name}.{field}"
        if isinstance(value, Record):
            _check_sizes(place, value, owner)
        elif isinstance(value, np.ndarray):
            _check_array(place, value, note is Reals, sizes[field])


def _check_volume(volume: Volume, shape: tuple[int, ...], width: int) -> None:
    """Check that each voxel has a row of ``width`` numbers within the table."""
    sides, index, rows = (vars(volume)[name] for name in ("shape", "index", "rows"))
    _check_array("volume.shape", sides, False, len(shape))
    _check_array("volume.index", index, False, math.prod(shape))
    _check_array("volume.rows", rows, True, rows.size)
    if tuple(sides) != shape:
        raise ValueError(f"volume.shape is {sides}, not {shape}")
    if index.min() < 0 or 32 * int(index.max()) + width > rows.size:
        raise ValueError("volume.index names rows that do not exist")


def _check_array(place: str, array: Array, real: bool, size: int) -> None:
    """Check type and size of an array."""
    if array.dtype.kind not in ("f" if real else "iu") or array.shape != (size,):
        raise ValueError(f"{place} is {array.dtype} {array.shape}, not {size} {'reals' if real else 'integers'}")


def _encode(value: object, path: str, arrays: Arrays) -> object:
    """Return a value for JSON: arrays become names, kernels and records the place of their definition."""
    if isinstance(value, np.ndarray):
        arrays[path] = value
        return {"array": path}
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (int, float, str)):
        return value
    if isinstance(value, tuple):
        return [_encode(item, path, arrays) for item in value]
    if isinstance(value, dict):
        return {"items": {name: _encode(item, f"{path}.{name}", arrays) for name, item in value.items()}}
    if isinstance(value, (Record, Part)):
        held = {name: _encode(item, f"{path}.{name}", arrays) for name, item in vars(value).items()}
        return {"record": _place(type(value)), "fields": held}
    assert isinstance(value, (Func, type))
    return {"kernel": _place(value)}


def _decode(value: Any, arrays: Mapping[str, Array]) -> Any:
    if isinstance(value, list):
        return tuple(_decode(item, arrays) for item in value)
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    if "items" in value:
        return {name: _decode(item, arrays) for name, item in value["items"].items()}
    if "record" in value:
        return _look_up(value["record"])(**{name: _decode(item, arrays) for name, item in value["fields"].items()})
    return _look_up(value["kernel"])


def _place(thing: Func | type) -> str:
    """Return the module and name of a kernel function or a record."""
    return f"{plugins.module_name(getattr(thing, 'function', thing).__module__)}:{thing.__name__}"


def _look_up(place: str) -> Any:
    module, name = place.split(":")
    if module.startswith(ROOMS):
        home = importlib.import_module(module)
    elif plugins.is_known(module) and module in sys.modules:  # which is never imported because a file names it
        home = sys.modules[module]
    else:
        raise ValueError(f"{module} has no kernels and no parts")
    thing = getattr(home, name)
    if not isinstance(thing, Func) and not (isinstance(thing, type) and issubclass(thing, (Record, Part))):
        raise ValueError(f"{place} is no kernel function, no record and no part")
    return thing
