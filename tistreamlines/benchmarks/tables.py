"""Benchmark results as sections of sentences and tables of plain text, which the Markdown and the page share."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .cases import METHODS

Record = Mapping[str, Any]  # results, or one of the records in them
Columns = dict[str, Callable[[Any], Any]]

UNKNOWN = "–"
PARTS = ("compile", "prepare", "track", "write")
# How a setting is put where all runs of a table share it, or differ in it.
_SETTINGS: Columns = {
    "model": lambda model: f"model {model}",
    "nseeds": lambda seeds: f"{count(seeds)} seeds",
    "threads": lambda threads: f"{threads} thread{'s' if threads != 1 else ''}",
    "exact": lambda exact: "exact mode" if exact else "not in exact mode",
    "chunk_size": lambda seeds: f"chunks of {count(seeds)} seeds",
}


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


def sections(results: Record) -> list[Section]:
    """Sort results into the sections that the report has in any form, in their order."""
    found = [_machine_section(results)]
    table = summary([results])
    if table.rows:
        found.append(Section("summary", "Summary", [], [table]))
    found += [_runs_section(group, runs) for group, runs in groups(results).items()]
    if not results.get("runs"):
        found.append(Section("none", "Runs", ["There are no runs in these results."], []))
    found += [_limits_section(results), _sweeps_section(results)]
    return [section._replace(tables=[table for table in section.tables if table.rows]) for section in found]


def groups(results: Record) -> dict[tuple[str, str], list[Record]]:
    """Runs of each case and way of tracking in order of appearance, each with its ``label``."""
    found: dict[tuple[str, str], list[Record]] = {}
    for run in results.get("runs") or ():
        found.setdefault((str(run.get("case")), getter(run)), []).append(run)
    return {group: [{**run, "label": _label(run, runs)} for run in runs] for group, runs in found.items()}


def getter(record: Record) -> str:
    """Name the way of tracking of a run or sweep: the direction getter, with its model where that is not the usual."""
    pair = record.get("dg"), record.get("model")
    return next((name for name, method in METHODS.items() if (method.dg, method.model) == pair), str(pair[0]))


def _usual(runs: Sequence[Record]) -> dict[str, Any]:
    """Settings of most of the runs that they apply to; of as many, the first."""
    found = {key: [run[key] for run in runs if run.get(key) is not None] for key in _SETTINGS}
    return {key: max(dict.fromkeys(values), key=values.count) for key, values in found.items() if values}


def _label(run: Record, runs: Sequence[Record]) -> str:
    """Name a run by its target, and by the settings that differ from those of most."""
    own = [other for other in runs if other["target"] == run["target"]]
    # Devices take chunks of unlike size: that only tells runs of one target apart.
    usual = _usual(runs) | {"chunk_size": _usual(own).get("chunk_size")}
    words = [word(run[key]) for key, word in _SETTINGS.items() if run.get(key) not in (None, usual.get(key))]
    return f"{run['target']} ({', '.join(words)})" if words else str(run["target"])


def at(record: Any, *keys: str) -> Any:
    """Look up nested keys; None where one is missing."""
    for key in keys:
        record = record.get(key) if isinstance(record, Mapping) else None
    return record


def done(runs: Iterable[Record]) -> list[Record]:
    """Keep the runs that came to their end."""
    return [run for run in runs if run.get("status") == "ok"]


def throughput(run: Record) -> float | None:
    """Throughput of a run in Mpoints/s, None if unknown."""
    points = run.get("points_per_second")
    return points / 1e6 if known(points) and points is not None else None


def sweep_throughput(sweep: Record) -> list[float | None]:
    """Throughput in Mpoints/s at each value of a sweep."""
    pairs = zip(sweep["points"], sweep["seconds"], strict=True)
    return [p / s / 1e6 if known(p) and known(s) and s > 0 else None for p, s in pairs]


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


def summary(list_of_results: Iterable[Record]) -> Table:
    """Throughput of each run of an arch, beside the fastest peer of the same case and way of tracking."""
    rows = []
    for results in list_of_results:
        for (case, way), runs in groups(results).items():
            for run in done(runs):
                if run.get("kind") == "arch" and throughput(run):
                    peers = [other for other in done(runs) if other.get("kind") == "peer"]
                    peers = [peer for peer in peers if peer.get("model") in (None, run.get("model"))]
                    data = f"{case}, {count(run.get('nseeds'))} seeds"
                    names = (_device_name(results, run), data, way, run["label"])
                    rows.append((*names, number(throughput(run)), _beside(run, peers)))
    return Table("", ("machine", "case", "getter", "target", "Mpoints/s", "beside the best peer"), rows)


def _beside(run: Record, peers: Sequence[Record]) -> str:
    best = max(peers, key=lambda peer: throughput(peer) or 0.0, default=None)
    if best is None or not throughput(best):
        return "no peer ran"
    return f"{_ratio(run, best)} times {best['label']} ({number(throughput(best))})"


def _ratio(run: Record, other: Record) -> str:
    return number((throughput(run) or math.nan) / (throughput(other) or math.nan))


def _part(run: Record, name: str) -> str | None:
    """Write a number of streamlines, and its share of all of the run."""
    if not known(run.get(name)) or not run.get("streamlines"):
        return None
    return f"{count(run[name])} ({percent(run[name] / run['streamlines'])})"


def _device_name(results: Record, run: Record) -> str:
    """Name the device of a run: of an arch that has none listed, the processor."""
    for device in at(results, "machine", "devices") or ():
        if device["arch"] == run["target"] != "cpu":
            return str(device["name"])
    cores = at(results, "machine", "cores")
    return str(at(results, "machine", "cpu") or UNKNOWN) + (f", {cores} cores" if cores else "")


def _cell(*keys: str, form: Callable[[Any], str] = str) -> Callable[[Any], Any]:
    return lambda record: None if at(record, *keys) is None else form(at(record, *keys))


def _table(title: str, columns: Columns, records: Iterable[Any]) -> Table:
    """Make a row of each record; columns in which nothing is known are left out."""
    rows = [[str(cell(record) or UNKNOWN) for cell in columns.values()] for record in records]
    kept = [k for k in range(len(columns)) if any(row[k] != UNKNOWN for row in rows)]
    return Table(title, tuple(list(columns)[k] for k in kept), [tuple(row[k] for k in kept) for row in rows])


def _bytes(value: Any) -> str:
    """Write a size in MiB, or in GiB from one on."""
    if not known(value):
        return UNKNOWN
    return f"{number(value / 2**30)} GiB" if value >= 2**30 else f"{number(value / 2**20)} MiB"


def _machine_section(results: Record) -> Section:
    facts = {name: results.get(name) for name in ("created", "command", "commit")}
    facts |= {name: at(results, "machine", name) for name in ("cpu", "cores", "system")}
    facts["memory"] = _cell("machine", "memory_bytes", form=_bytes)(results)
    device = {name: _cell(name) for name in ("arch", "name", "driver")} | {"memory": _cell("memory_bytes", form=_bytes)}
    version: Columns = {"package": lambda pair: pair[0], "version": lambda pair: pair[1]}
    tables = [
        Table("", ("what", "value"), [(name, str(fact)) for name, fact in facts.items() if fact]),
        _table("Devices", device, at(results, "machine", "devices") or ()),
        _table("Versions", version, sorted((at(results, "machine", "versions") or {}).items())),
    ]
    return Section("machine", "Machine", [] if tables[0].rows else ["Nothing is known of the machine."], tables)


def _runs_section(group: tuple[str, str], runs: Sequence[Record]) -> Section:
    """What ran of a case and way of tracking, what did not and why, and whether archs gave the same points."""
    ended = done(runs)
    usual = ", ".join(_SETTINGS[key](value) for key, value in _usual(runs).items() if key != "chunk_size")
    notes = [f"Where nothing else is said: {usual}."] * bool(usual) + _agreement(ended)
    absent = {"target": _cell("label"), "status": _cell("status"), "reason": _cell("reason")}
    truth: Columns = {"target": _cell("label")}
    for name in ("valid", "invalid", "none", "bundles", "overlap", "overreach"):
        truth[name] = _cell("truth", name, form=lambda value: (percent if isinstance(value, float) else count)(value))
    tables = [
        _speed_table(ended),
        _time_table(ended),
        _table("Against the truth", truth, [run for run in ended if run.get("truth")]),
        _table("Did not run", absent, [run for run in runs if run.get("status") != "ok"]),
    ]
    return Section("runs", ", ".join(group), notes + ["Nothing ran."] * (not ended), tables, group)


def _speed_table(runs: Sequence[Record]) -> Table:
    timed = sorted((run for run in runs if throughput(run)), key=lambda run: throughput(run) or 0.0)
    # Beside the CPU where it ran, else beside the slowest.
    base = next((run for run in reversed(timed) if run["target"] == "cpu"), timed[0] if timed else {})
    dipys = sorted({name for run in runs for name in run.get("density_correlation") or () if name.startswith("dipy")})

    columns: Columns = {
        "target": _cell("label"),
        "Mpoints/s": lambda run: number(throughput(run)),
        f"times {base.get('label')}": lambda run: _ratio(run, base),
        "track, s": _cell("seconds", "track", form=number),
        "least, s": _cell("seconds", "track_least", form=number),
        "greatest, s": _cell("seconds", "track_greatest", form=number),
        "streamlines": _cell("streamlines", form=count),
        "mean, mm": _cell("mean_mm", form=number),
        "median, mm": _cell("median_mm", form=number),
        "crossing": lambda run: _part(run, "crossing"),
        "commissural": lambda run: _part(run, "commissural"),
    }
    for name in dipys:
        columns[f"density correlation with {name}"] = _cell("density_correlation", name, form=lambda r: number(r, 4))
        columns[f"KS of lengths with {name}"] = _cell("length_ks", name, form=number)
    columns["sha256"] = lambda run: (run.get("sha256") or "")[:12]
    return _table("", columns, runs)


def _time_table(runs: Sequence[Record]) -> Table:
    columns: Columns = {"target": _cell("label")}
    columns |= {f"{part}, s": _cell("seconds", part, form=number) for part in (*PARTS, "total")}
    columns["stages of track, s"] = _cell(
        "seconds", "stages", form=lambda stages: ", ".join(f"{name} {number(took)}" for name, took in stages.items())
    )
    for name in ("peak_host", "device", "copied"):
        columns[f"{name.replace('_', ' ')} memory"] = _cell(f"{name}_bytes", form=_bytes)
    return _table("Time and memory", columns, runs)


def _agreement(runs: Sequence[Record]) -> list[str]:
    """Say whether runs of archs with the same seeds gave the same points, or how many streamlines are the same."""
    alike: dict[tuple[Any, ...], list[Record]] = {}
    for run in runs:
        if run.get("sha256"):
            alike.setdefault(tuple(run.get(key) for key in ("model", "nseeds", "exact")), []).append(run)
    said = []
    for first, *others in alike.values():
        differing = [run for run in others if run["sha256"] != first["sha256"]]
        if others and not differing:
            names = [run["label"] for run in (first, *others)]
            said.append(f"{', '.join(names[:-1])} and {names[-1]} gave identical points.")
        for run in differing:
            share = (run.get("identical") or {}).get(first["target"], at(first, "identical", run["target"]))
            names = f"{first['label']} and {run['label']}"
            said.append(f"{names} did not give identical points; share of streamlines in both: {percent(share)}.")
    return said


def _limits_section(results: Record) -> Section:
    limit: Columns = {
        "arch": _cell("arch"),
        "device": _cell("device"),
        "GB/s": lambda limit: number((limit.get("bytes_per_second") or math.nan) / 1e9),
        "G multiply-adds/s": lambda limit: number((limit.get("multiply_adds_per_second") or math.nan) / 1e9),
    }
    share = {"case": _cell("case"), "getter": getter, "target": _cell("label")}
    share |= {f"share of {name}": _cell("limit_share", name, form=percent) for name in ("bytes", "operations")}
    limits = [{"arch": arch, **found} for arch, found in (results.get("limits") or {}).items()]
    runs = [run for members in groups(results).values() for run in done(members) if run.get("limit_share")]
    tables = [_table("", limit, limits), _table("Share of the limits", share, runs)]
    notes = [] if limits else ["The limits of the devices were not measured."]
    return Section("limits", "Limits of the devices", notes, tables)


def _sweeps_section(results: Record) -> Section:
    """Tables of each sweep of a case and way of tracking: a row for each value, a column for each target."""
    tables = []
    for (_, case, way), members in sweeps(results).items():
        title = f"{sweep_axis(members[0])}: {case}, {way}"
        rates: dict[Any, dict[str, str]] = {}
        sizes: dict[Any, dict[str, str]] = {}
        for sweep in members:
            memory = sweep.get("peak_host_bytes") or [None] * len(sweep["values"])
            columns = zip(sweep["values"], sweep["seconds"], sweep_throughput(sweep), memory, strict=True)
            for value, seconds, rate, size in columns:
                word = f"{number(rate)} ({number(seconds)} s)" if known(rate) else UNKNOWN
                rates.setdefault(value, {})[sweep["target"]] = word
                sizes.setdefault(value, {})[sweep["target"]] = _bytes(size)
        for heading, found in ((f"{title}, Mpoints/s", rates), (f"{title}, peak host memory", sizes)):
            form: Columns = {members[0]["name"]: lambda pair: count(pair[0]) if known(pair[0]) else pair[0]}
            form |= {s["target"]: lambda pair, target=s["target"]: pair[1].get(target) for s in members}
            table = _table(heading, form, found.items())
            tables += [table] * (len(table.head) > 1)
    return Section("sweeps", "Sweeps", [] if tables else ["No sweeps were run."], tables)


def sweeps(results: Record) -> dict[tuple[str, str, str], list[Record]]:
    """Sweeps of each name, case and way of tracking, in order of appearance."""
    found: dict[tuple[str, str, str], list[Record]] = {}
    for sweep in results.get("sweeps") or ():
        found.setdefault((sweep["name"], sweep["case"], getter(sweep)), []).append(sweep)
    return found


def sweep_axis(sweep: Record) -> str:
    """Name what a sweep changes, with its unit."""
    unit = sweep.get("unit")
    return f"{sweep['name']} ({unit})" if unit and unit != sweep["name"] else str(sweep["name"])
