"""Plain-text tables of benchmark results, which the Markdown report and the HTML page share."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeGuard

from ..aliases import Json
from .cases import METHODS

Columns = dict[str, Callable[[Json], "str | None"]]


UNKNOWN = "–"


class Table(NamedTuple):
    """A table of plain text, not escaped."""

    title: str
    head: tuple[str, ...]
    rows: list[tuple[str, ...]]

    def numeric(self, column: int) -> bool:
        """Whether a column contains numbers, which are right-aligned."""
        return all(re.fullmatch(r"[\d,]+(\.\d+)?( \D*)?( \([\d.,]+ \S+\))?|–", row[column]) for row in self.rows)


class Section(NamedTuple):
    """A section of the report: kind, title, notes and tables; for runs also their case and method."""

    kind: str
    title: str
    notes: list[str]
    tables: list[Table]
    group: tuple[str, str] = ("", "")


def at(record: Json, *keys: str) -> Any:
    """Return the value under nested keys; None if one is missing."""
    for key in keys[:-1]:
        record = record.get(key) or {}
    return record.get(keys[-1])


def known(value: object) -> TypeGuard[float]:
    """Whether a value is a finite number."""
    return isinstance(value, int | float) and math.isfinite(value)


def number(value: object, digits: int = 3) -> str:
    """Format a number with this many significant digits and no exponent."""
    if not known(value):
        return UNKNOWN
    decimals = digits - 1 - math.floor(math.log10(abs(value))) if value else 0
    return f"{value:,.{max(0, decimals)}f}"


def count(value: object) -> str:
    """Format an integer with thousands separators."""
    return f"{value:,}" if isinstance(value, int) else number(value)


def percent(value: object) -> str:
    """Format a fraction as a percentage."""
    return f"{number(100 * value)} %" if known(value) else UNKNOWN


def size(value: object) -> str:
    """Format a number of bytes in MiB or GiB."""
    if not known(value):
        return UNKNOWN
    return f"{number(value / 2**30)} GiB" if value >= 2**30 else f"{number(value / 2**20)} MiB"


def cell(*keys: str, form: Callable[..., str] = str) -> Callable[[Json], str | None]:
    """Return a function that formats the value under nested keys of a record."""
    return lambda record: None if at(record, *keys) is None else form(at(record, *keys))


def tabled(title: str, columns: Columns, records: Iterable[Json]) -> Table:
    """Return a table with a row for each record, without columns that are entirely unknown."""
    rows = [[str(form(record) or UNKNOWN) for form in columns.values()] for record in records]
    kept = [k for k in range(len(columns)) if any(row[k] != UNKNOWN for row in rows)]
    return Table(title, tuple(list(columns)[k] for k in kept), [tuple(row[k] for k in kept) for row in rows])


def getter(record: Json) -> str:
    """Return the method of a run or sweep: the direction getter, with its model if it is not the default."""
    pair = record.get("dg"), record.get("model")
    return next((name for name, method in METHODS.items() if (method.dg, method.model) == pair), str(pair[0]))
