"""How benchmark results are put in tables of plain text, which the Markdown and the page share."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from .cases import METHODS

Record = Mapping[str, Any]  # results, or one of the records in them
Columns = dict[str, Callable[[Any], Any]]

UNKNOWN = "–"


class Table(NamedTuple):
    """Cells of plain text, not escaped, under a head of as many columns."""

    title: str
    head: tuple[str, ...]
    rows: list[tuple[str, ...]]

    def numeric(self, column: int) -> bool:
        """Whether a column holds numbers, which are set to the right."""
        return all(re.fullmatch(r"[\d,]+(\.\d+)?( \D*)?( \([\d.,]+ \S+\))?|–", row[column]) for row in self.rows)


class Section(NamedTuple):
    """A part of the report: what kind, its sentences and tables; of runs, their case and way of tracking."""

    kind: str
    title: str
    notes: list[str]
    tables: list[Table]
    group: tuple[str, str] = ("", "")


def at(record: Any, *keys: str) -> Any:
    """Look up nested keys; None where one is missing."""
    for key in keys:
        record = record.get(key) if isinstance(record, Mapping) else None
    return record


def known(value: Any) -> bool:
    """Whether this is a finite number."""
    return isinstance(value, int | float) and math.isfinite(value)


def number(value: Any, digits: int = 3) -> str:
    """Write a number with this many significant digits, never with an exponent."""
    if not known(value):
        return UNKNOWN
    decimals = digits - 1 - math.floor(math.log10(abs(value))) if value else 0
    return f"{value:,.{max(0, decimals)}f}"


def count(value: Any) -> str:
    """Write a whole number with its thousands apart."""
    return f"{value:,}" if isinstance(value, int) else number(value)


def percent(value: Any) -> str:
    """Write a share of one in percent."""
    return f"{number(100 * value)} %" if known(value) else UNKNOWN


def size(value: Any) -> str:
    """Write a size in MiB, or in GiB from one on."""
    if not known(value):
        return UNKNOWN
    return f"{number(value / 2**30)} GiB" if value >= 2**30 else f"{number(value / 2**20)} MiB"


def cell(*keys: str, form: Callable[[Any], str] = str) -> Callable[[Any], Any]:
    """Make what writes the value under nested keys of a record."""
    return lambda record: None if at(record, *keys) is None else form(at(record, *keys))


def tabled(title: str, columns: Columns, records: Iterable[Any]) -> Table:
    """Make a row of each record; columns in which nothing is known are left out."""
    rows = [[str(form(record) or UNKNOWN) for form in columns.values()] for record in records]
    kept = [k for k in range(len(columns)) if any(row[k] != UNKNOWN for row in rows)]
    return Table(title, tuple(list(columns)[k] for k in kept), [tuple(row[k] for k in kept) for row in rows])


def getter(record: Record) -> str:
    """Name the way of tracking of a run or sweep: the direction getter, with its model where that is not the usual."""
    pair = record.get("dg"), record.get("model")
    return next((name for name, method in METHODS.items() if (method.dg, method.model) == pair), str(pair[0]))
