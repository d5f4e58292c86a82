"""Sections of a benchmark report, notes and tables of plain text, which Markdown and the HTML page share."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeGuard

from ..aliases import Json
from ..devices import ARCHS, ON_HOST
from .cases import METHODS

Columns = dict[str, Callable[[Json], "str | None"]]
UNKNOWN = "–"
PARTS = ("compile", "prepare", "track", "write")


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


def is_known(value: object) -> TypeGuard[float]:
    """Whether a value is a finite number."""
    return isinstance(value, int | float) and math.isfinite(value)


def number(value: object, digits: int = 3) -> str:
    """Format a number with this many significant digits and no exponent."""
    if not is_known(value):
        return UNKNOWN
    decimals = digits - 1 - math.floor(math.log10(abs(value))) if value else 0
    return f"{value:,.{max(0, decimals)}f}"


def count(value: object) -> str:
    """Format an integer with thousands separators."""
    return f"{value:,}" if isinstance(value, int) else number(value)


def percent(value: object) -> str:
    """Format a fraction as a percentage."""
    return f"{number(100 * value)} %" if is_known(value) else UNKNOWN


def size(value: object) -> str:
    """Format a number of bytes in MiB or GiB."""
    if not is_known(value):
        return UNKNOWN
    return f"{number(value / 2**30)} GiB" if value >= 2**30 else f"{number(value / 2**20)} MiB"


def cell(*keys: str, form: Callable[..., str] = str) -> Callable[[Json], str | None]:
    """Return a function that formats the value under nested keys of a record."""
    return lambda record: None if at(record, *keys) is None else form(at(record, *keys))


def rows_table(title: str, columns: Columns, records: Iterable[Json]) -> Table:
    """Return a table with a row for each record, without columns that are entirely unknown."""
    rows = [[str(form(record) or UNKNOWN) for form in columns.values()] for record in records]
    kept = [k for k in range(len(columns)) if any(row[k] != UNKNOWN for row in rows)]
    return Table(title, tuple(list(columns)[k] for k in kept), [tuple(row[k] for k in kept) for row in rows])


def getter(record: Json) -> str:
    """Return the method of a run or sweep: the direction getter, with its model if it is not the default."""
    pair = record.get("dg"), record.get("model")
    return next((name for name, method in METHODS.items() if (method.dg, method.model) == pair), str(pair[0]))


def sections(results: Json) -> list[Section]:
    """Return the sections of a report on the machine and the runs, for Markdown and HTML."""
    sections = [_machine_section(results)]
    table = summary([results])
    if table.rows:
        sections.append(Section("summary", "Summary", [], [table]))
    sections += [_runs_section(group, runs) for group, runs in groups(results).items()]
    if not results.get("runs"):
        sections.append(Section("none", "Runs", ["There are no runs in these results."], []))
    return [section._replace(tables=[table for table in section.tables if table.rows]) for section in sections]


def groups(results: Json) -> dict[tuple[str, str], list[Json]]:
    """Return the runs of each case and method in order of appearance, each with a ``label``: its own, or its target."""
    rows: dict[tuple[str, str], list[Json]] = {}
    for run in results.get("runs") or ():
        rows.setdefault((str(run.get("case")), getter(run)), []).append({"label": str(run["target"]), **run})
    return rows


def done(runs: Iterable[Json]) -> list[Json]:
    """Return the runs that succeeded."""
    return [run for run in runs if run.get("status") == "ok"]


def throughput(run: Json) -> float | None:
    """Return the throughput of a run in Mpoints/s, None if unknown."""
    points = run.get("points_per_second")
    return points / 1e6 if is_known(points) else None


def summary(list_of_results: Iterable[Json]) -> Table:
    """Return a table of the newest throughput of each arch, and of the fastest peer with the same case and method."""
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for results in sorted(list_of_results, key=lambda results: str(results.get("created"))):
        for (case, way), runs in groups(results).items():
            ours = {run["target"]: run for run in done(runs) if run.get("kind") == "arch" and throughput(run)}
            if ours:
                seeds = next(iter(ours.values())).get("nseeds")
                row = {"machine": machine_name(results, ours), "data": f"{case}, {count(seeds)} seeds", "getter": way}
                key = tuple(row.values())
                row |= {arch: _rate(results, run) for arch, run in ours.items()}
                rows[key] = row | _beside(list(ours.values()), runs)
    last = ("fastest peer", "our fastest, times the peer")
    columns: Columns = {name: cell(name) for name in ("machine", "data", "getter", *reversed(ARCHS), *last)}
    ways = list(METHODS)
    order = sorted(rows, key=lambda key: (*key[:2], ways.index(key[2]) if key[2] in ways else len(ways)))
    return rows_table("", columns, (rows[key] for key in order))


def _rate(results: Json, run: Json) -> str:
    software = any(d.get("software") for d in _devices(results, run["target"]))
    return number(throughput(run)) + " (software)" * software


def _beside(ours: Sequence[Json], runs: Sequence[Json]) -> dict[str, str]:
    """Return the fastest peer, and the ratio of the fastest arch to it."""
    peers = [run for run in done(runs) if run.get("kind") == "peer" and throughput(run)]
    if not peers:
        return {"fastest peer": "none ran"}
    best, fastest = (max(group, key=lambda run: throughput(run) or 0.0) for group in (peers, ours))
    return {
        "fastest peer": f"{best['label']} ({number(throughput(best))})",
        "our fastest, times the peer": _ratio(fastest, best),
    }


def _ratio(run: Json, other: Json) -> str:
    return number((throughput(run) or math.nan) / (throughput(other) or math.nan))


def _devices(results: Json, arch: str) -> list[Json]:
    devices = () if arch in ON_HOST else at(results, "machine", "devices") or ()
    return [device for device in devices if device["arch"] == arch]


def machine_name(results: Json, archs: Iterable[str]) -> str:
    """Return the names of the hardware devices and the processor."""
    names = [device["name"] for arch in archs for device in _devices(results, arch) if not device.get("software")]
    cores = at(results, "machine", "cores")
    processor = str(at(results, "machine", "cpu") or UNKNOWN) + (f", {cores} cores" if cores else "")
    return "; ".join([*dict.fromkeys(names), processor])


def _machine_section(results: Json) -> Section:
    facts = {name: results.get(name) for name in ("created", "command", "commit", "note")}
    facts |= {name: at(results, "machine", name) for name in ("cpu", "cores", "system")}
    facts["memory"] = cell("machine", "memory_bytes", form=size)(results)
    device = {name: cell(name) for name in ("arch", "name", "driver", "compiler")}
    device["memory"] = cell("memory_bytes", form=size)
    tables = [
        Table("", ("what", "value"), [(name, str(fact)) for name, fact in facts.items() if fact]),
        rows_table("Devices", device, at(results, "machine", "devices") or ()),
        Table("Versions", ("package", "version"), sorted((at(results, "machine", "versions") or {}).items())),
    ]
    return Section("machine", "Machine", [] if tables[0].rows else ["Nothing is known of the machine."], tables)


def _runs_section(group: tuple[str, str], runs: Sequence[Json]) -> Section:
    """Return the section of a case and method: its runs, failures with reasons, and agreement of the archs."""
    ended = done(runs)
    notes = [f"Model {runs[0].get('model')}, {count(runs[0].get('nseeds'))} seeds.", *_agreement(ended)]
    absent = {"target": cell("label"), "status": cell("status"), "reason": cell("reason")}
    tables = [
        _speed_table(ended),
        _time_table(ended),
        rows_table("Did not run", absent, [run for run in runs if run.get("status") != "ok"]),
    ]
    return Section("runs", ", ".join(group), notes + ["Nothing ran."] * (not ended), tables, group)


def _speed_table(runs: Sequence[Json]) -> Table:
    timed = sorted((run for run in runs if throughput(run)), key=lambda run: throughput(run) or 0.0)
    # relative to the CPU if it ran, else to the slowest run
    base = next((run for run in reversed(timed) if run["target"] in ON_HOST), timed[0] if timed else {})
    columns: Columns = {
        "target": cell("label"),
        "Mpoints/s": lambda run: number(throughput(run)),
        f"times {base.get('label')}": lambda run: _ratio(run, base),
        "track, s": cell("seconds", "track", form=number),
        "least, s": cell("seconds", "track_least", form=number),
        "greatest, s": cell("seconds", "track_greatest", form=number),
        "streamlines": cell("streamlines", form=count),
        "mean, mm": cell("mean_mm", form=number),
        "median, mm": cell("median_mm", form=number),
        "density correlation with dipy": cell("density_correlation", "dipy", form=lambda value: number(value, 4)),
        "KS of lengths with dipy": cell("length_ks", "dipy", form=number),
        "sha256": lambda run: (run.get("sha256") or "")[:12],
    }
    return rows_table("", columns, runs)


def _time_table(runs: Sequence[Json]) -> Table:
    columns: Columns = {"target": cell("label")}
    columns |= {f"{part}, s": cell("seconds", part, form=number) for part in (*PARTS, "total")}
    columns["stages of track, s"] = cell(
        "seconds", "stages", form=lambda stages: ", ".join(f"{name} {number(took)}" for name, took in stages.items())
    )
    columns |= {
        "peak host memory": cell("peak_host_bytes", form=size), "device memory": cell("device_bytes", form=size),
        "copied back": cell("copied_bytes", form=size),
    }
    return rows_table("Time and memory", columns, runs)


def _agreement(runs: Sequence[Json]) -> list[str]:
    """Describe whether archs gave identical points for the same seeds, else the fraction of identical streamlines."""
    alike: dict[tuple, list[Json]] = {}
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
