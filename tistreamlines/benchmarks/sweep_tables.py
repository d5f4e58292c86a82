"""Tables of sweeps: throughput, memory, and a straight-line fit of time against seeds."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .forms import UNKNOWN, Columns, Record, Section, Table, count, getter, known, number, percent, size, tabled


def sweeps(results: Record) -> dict[tuple[str, str, str], list[Record]]:
    """Return the sweeps of each name, case and method, in order of appearance."""
    found: dict[tuple[str, str, str], list[Record]] = {}
    for sweep in results.get("sweeps") or ():
        found.setdefault((sweep["name"], sweep["case"], getter(sweep)), []).append(sweep)
    return found


def sweep_axis(sweep: Record) -> str:
    """Return the name of the varied setting, with its unit."""
    unit = sweep.get("unit")
    return f"{sweep['name']} ({unit})" if unit and unit != sweep["name"] else str(sweep["name"])


def sweep_throughput(sweep: Record) -> list[float | None]:
    """Return the throughput in Mpoints/s at each value of a sweep."""
    pairs = zip(sweep["points"], sweep["seconds"], strict=True)
    return [p / s / 1e6 if known(p) and known(s) and s > 0 else None for p, s in pairs]


class Line(NamedTuple):
    """A straight line of time against seeds: smallest fitted value, latency (s), seconds per seed, largest error."""

    least: float
    latency: float
    each: float
    departure: float

    def at(self, value: float) -> float:
        """Return the seconds on the line."""
        return self.latency + self.each * value


def straight_line(sweep: Record) -> Line | None:
    """Fit seconds = latency + each * seeds to values with at least half the maximum throughput.

    The fit minimises relative errors; the result is None with fewer than three values.
    """
    rates = sweep_throughput(sweep)
    best = max((rate for rate in rates if rate), default=0.0)
    pairs = zip(sweep["values"], sweep["seconds"], rates, strict=True)
    found = [(value, seconds) for value, seconds, rate in pairs if rate and 2 * rate >= best]
    if sweep["name"] != "seeds" or len(found) < 3:
        return None
    values, seconds = np.array(found, float).T
    (latency, each), *_ = np.linalg.lstsq(np.stack([1 / seconds, values / seconds], axis=1), np.ones(len(found)))
    departure = np.abs((latency + each * values) / seconds - 1).max()
    return Line(float(values.min()), float(latency), float(each), float(departure))


def sweeps_section(results: Record) -> Section:
    """Return the tables of each sweep: a row for each value, a column for each target."""
    tables = []
    for (name, case, way), members in sweeps(results).items():
        title = f"{sweep_axis(members[0])}: {case}, {way}"
        rates: dict[Any, dict[str, str]] = {}
        sizes: dict[Any, dict[str, str]] = {}
        for sweep in members:
            memory = sweep.get("peak_host_bytes") or [None] * len(sweep["values"])
            columns = zip(sweep["values"], sweep["seconds"], sweep_throughput(sweep), memory, strict=True)
            for value, seconds, rate, most in columns:
                word = f"{number(rate)} ({number(seconds)} s)" if known(rate) else UNKNOWN
                rates.setdefault(value, {})[sweep["target"]] = word
                sizes.setdefault(value, {})[sweep["target"]] = size(most)
        for heading, found in ((f"{title}, Mpoints/s", rates), (f"{title}, peak host memory", sizes)):
            form: Columns = {name: lambda pair: count(pair[0]) if known(pair[0]) else pair[0]}
            form |= {s["target"]: lambda pair, target=s["target"]: pair[1].get(target) for s in members}
            shown = tabled(heading, form, found.items())
            tables += [shown] * (len(shown.head) > 1)
        tables += _lines(title, members)
    return Section("sweeps", "Sweeps", [] if tables else ["No sweeps were run."], tables)


def _lines(title: str, members: list[Record]) -> list[Table]:
    """Return the table of the straight-line fits of time against seeds."""
    head = ("target", "from", "latency, s", "us a seed", "greatest departure")
    fitted = [(str(sweep["target"]), line) for sweep in members if (line := straight_line(sweep))]
    rows = [
        (target, count(int(line.least)), number(line.latency), number(1e6 * line.each), percent(line.departure))
        for target, line in fitted
    ]
    return [Table(f"{title}, straight line through the time", head, rows)] if rows else []
