"""Parts: what fills the holes and constants of kernels, as records that can be read.

A part is a frozen dataclass. Its field ``choose`` fills the hole ``choose`` of kernels, ``carried`` the constant CARRIED,
and ``state`` the hole State, with a record or, where the field holds the values of a record, with its type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from .lang import Func, Record

Filled = bool | int | float | tuple | Func | type | None  # what fills a hole or a constant
Filling = Mapping[str, Filled]  # by the names of holes and constants in small letters


def host(**options: Any) -> Any:
    """Return a field of a part that the host reads and kernels do not; options are those of ``dataclasses.field``."""
    return field(metadata={"host": True}, **options)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Part:
    """Base of what kernels are linked with: a field for each hole and each constant that it fills."""

    def filling(self) -> dict[str, Filled]:
        """Return what fills holes and constants, by their names in small letters; parts of this part among it.

        Raises
        ------
        TypeError
            If a field holds what kernels cannot be linked with.
        """
        values: dict[str, Filled] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if each.metadata.get("host"):
                continue
            if isinstance(value, Part):
                values |= value.filling()
            elif isinstance(value, Record):
                values[each.name] = type(value)
            elif isinstance(value, Filled):
                values[each.name] = value
            else:
                raise TypeError(f"{type(self).__name__}.{each.name} is {type(value).__name__}, which fills no hole")
        return values


def filling(parts: Iterable[Part]) -> dict[str, Filled]:
    """Return what fills holes and constants, by their names in small letters.

    Raises
    ------
    ValueError
        If two parts fill one hole or constant, unless both do so with the same.
    """
    whole: dict[str, Filled] = {}
    for part in parts:
        more = part.filling()
        for name in whole.keys() & more.keys():
            if whole[name] is not more[name] and whole[name] != more[name]:
                raise ValueError(f"{name} is filled with {whole[name]} and, by {type(part).__name__}, with {more[name]}")
        whole |= more
    return whole
