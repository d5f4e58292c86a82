"""The contents of one program: kernels, the parts that fill their holes, and the memory of a team.

A part is a frozen dataclass. Its field ``choose`` fills the hole ``choose`` of kernels, ``carried`` the constant CARRIED,
and ``state`` the hole State, with a record or, where the field holds the values of a record, with its type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from .lang import Func, Record

Filled = bool | int | float | tuple | Func | type | None  # what fills a hole or a constant
Arrays = Mapping[str, tuple[str, int]]  # kind, 'reals' or 'ints', and number of elements, by flat name
Filling = Mapping[str, Filled]  # by the names of holes and constants in small letters


def host(**options: Any) -> Any:
    """Return a field of a part that the host reads and kernels do not; options are those of ``dataclasses.field``."""
    return field(metadata={"host": True}, **options)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Part:
    """Base of the parts of kernels: a field for each hole and each constant that it fills."""

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


@dataclass(frozen=True, eq=False, repr=False)
class Load:
    """The numbers that kernels hold of a half; devices share out their registers by them.

    Parameters
    ----------
    carries : whether a half carries numbers from step to step.
    recovers : whether it may go back and look for another way.
    has_bits : whether its points are looked up in regions.
    """

    carries: bool = False
    recovers: bool = False
    has_bits: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class Source:
    """Kernels that are linked, compiled and run together.

    Parameters
    ----------
    roots : kernels that are run by name.
    parts : what fills their holes and constants.
    scratch : team memory: arrays that each team has for itself.
    shares : arrays of ``scratch`` that may lie within another one where memory is scarce, since no stage uses both: the
        name of the other one and the first element.
    tables : arrays that are read most, in the order of a GPU's gain from holding them in shared memory.
    load : what kernels hold of a half; None for kernels that do not work on halves.
    """

    roots: Sequence[Func]
    parts: Sequence[Part] = ()
    scratch: Arrays = field(default_factory=dict)
    shares: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    tables: Arrays = field(default_factory=dict)
    load: Load | None = None

    @cached_property
    def filling(self) -> dict[str, Filled]:
        """The values of holes and constants, by their names in small letters."""
        return filling(self.parts)
