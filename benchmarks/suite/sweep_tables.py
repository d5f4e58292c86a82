"""Tables of sweeps: throughput, memory, and a straight-line fit of time against seeds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tistreamlines.aliases import Json
from tistreamlines.benchmarks.tables import (
    UNKNOWN,
    Columns,
    Section,
    Table,
    cell,
    count,
    getter,
    is_known,
    number,
    percent,
    rows_table,
    size,
)


def sweeps(results: Json) -> dict[tuple[str, str, str], list[Json]]:
    """Return the sweeps of each name, case and method, in order of appearance."""
    groups: dict[tuple[str, str, str], list[Json]] = {}
    for sweep in results.get("sweeps") or ():
        groups.setdefault((sweep["name"], sweep["case"], getter(sweep)), []).append(sweep)
    return groups


def sweep_axis(sweep: Json) -> str:
    """Return the name of the varied setting, with its unit."""
    unit = sweep.get("unit")
    return f"{sweep['name']} ({unit})" if unit and unit != sweep["name"] else str(sweep["name"])


def sweep_throughput(sweep: Json) -> list[float | None]:
    """Return the throughput in Mpoints/s at each value of a sweep."""
    pairs = zip(sweep["points"], sweep["seconds"], strict=True)
    return [p / s / 1e6 if is_known(p) and is_known(s) and s > 0 else None for p, s in pairs]


class Line(NamedTuple):
    """A straight line of time against seeds: smallest fitted value, latency (s), seconds per seed, largest error."""

    least: float
    latency: float
    each: float
    departure: float

    def at(self, value: float) -> float:
        """Return the seconds on the line."""
        return self.latency + self.each * value


def straight_line(sweep: Json) -> Line | None:
    """Fit seconds = latency + each * seeds to values with at least half the maximum throughput.

    The fit minimises relative errors; the result is None with fewer than three values.
    """
    rates = sweep_throughput(sweep)
    best = max((rate for rate in rates if rate), default=0.0)
    pairs = zip(sweep["values"], sweep["seconds"], rates, strict=True)
    busy = [(value, seconds) for value, seconds, rate in pairs if rate and 2 * rate >= best]
    if sweep["name"] != "seeds" or len(busy) < 3:
        return None
    values, seconds = np.array(busy, float).T
    (latency, each), *_ = np.linalg.lstsq(np.stack([1 / seconds, values / seconds], axis=1), np.ones(len(busy)))
    departure = np.abs((latency + each * values) / seconds - 1).max()
    return Line(float(values.min()), float(latency), float(each), float(departure))


def sweeps_section(results: Json) -> Section:
    """Return the tables of each sweep: a row for each value, a column for each target."""
    tables = []
    for (name, case, way), members in sweeps(results).items():
        title = f"{sweep_axis(members[0])}: {case}, {way}"
        rates: dict[object, Json] = {}
        sizes: dict[object, Json] = {}
        for sweep in members:
            memory = sweep.get("peak_host_bytes") or [None] * len(sweep["values"])
            columns = zip(sweep["values"], sweep["seconds"], sweep_throughput(sweep), memory, strict=True)
            for value, seconds, rate, most in columns:
                row = {name: count(value) if is_known(value) else value}
                word = f"{number(rate)} ({number(seconds)} s)" if is_known(rate) else UNKNOWN
                rates.setdefault(value, dict(row))[sweep["target"]] = word
                sizes.setdefault(value, dict(row))[sweep["target"]] = size(most)
        form: Columns = {column: cell(column) for column in (name, *(sweep["target"] for sweep in members))}
        for heading, rows in ((f"{title}, Mpoints/s", rates), (f"{title}, peak host memory", sizes)):
            table = rows_table(heading, form, rows.values())
            tables += [table] * (len(table.head) > 1)
        tables += _lines(title, members)
    return Section("sweeps", "Sweeps", [] if tables else ["No sweeps were run."], tables)


def _lines(title: str, members: list[Json]) -> list[Table]:
    """Return the table of the straight-line fits of time against seeds."""
    head = ("target", "from", "latency, s", "us a seed", "greatest departure")
    fitted = [(str(sweep["target"]), line) for sweep in members if (line := straight_line(sweep))]
    rows: list[tuple[str, ...]] = [
        (target, count(int(line.least)), number(line.latency), number(1e6 * line.each), percent(line.departure))
        for target, line in fitted
    ]
    return [Table(f"{title}, straight line through the time", head, rows)] if rows else []
