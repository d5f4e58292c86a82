"""Sections of a benchmark report: notes and tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from ..aliases import Json
from ..devices import ARCHS, ON_HOST
from .cases import METHODS
from .file_tables import files_section
from .forms import (
    UNKNOWN,
    Columns,
    Section,
    Table,
    at,
    cell,
    count,
    getter,
    known,
    number,
    percent,
    size,
    tabled,
)
from .sweep_tables import sweeps_section

PARTS = ("compile", "prepare", "track", "write")
# text for a setting, which all runs of a table share or in which they differ
_SETTINGS: dict[str, Callable[[object], str]] = {
    "model": lambda model: f"model {model}",
    "nseeds": lambda seeds: f"{count(seeds)} seeds",
    "threads": lambda threads: f"{threads} thread{'s' if threads != 1 else ''}",
    "devices": lambda devices: f"{devices} devices",
    "exact": lambda exact: "exact mode" if exact else "not in exact mode",
    "chunk_size": lambda seeds: f"chunks of {count(seeds)} seeds",
}


def sections(results: Json) -> list[Section]:
    """Return the sections of a report, in order, for Markdown and HTML."""
    sections = [_machine_section(results)]
    table = summary([results])
    if table.rows:
        sections.append(Section("summary", "Summary", [], [table]))
    sections += [_runs_section(group, runs) for group, runs in groups(results).items()]
    if results.get("files"):
        sections.append(files_section(results))
    elif not results.get("runs"):
        sections.append(Section("none", "Runs", ["There are no runs in these results."], []))
    if results.get("runs") or not results.get("files"):
        sections += [_limits_section(results), sweeps_section(results)]
    return [section._replace(tables=[table for table in section.tables if table.rows]) for section in sections]


def groups(results: Json) -> dict[tuple[str, str], list[Json]]:
    """Return the runs of each case and method in order of appearance, each with its ``label``."""
    rows: dict[tuple[str, str], list[Json]] = {}
    for run in results.get("runs") or ():
        rows.setdefault((str(run.get("case")), getter(run)), []).append(run)
    return {group: [{**run, "label": _label(run, runs)} for run in runs] for group, runs in rows.items()}


def _usual(runs: Sequence[Json]) -> Json:
    """Return the most frequent value of each setting; of several, the first."""
    settings = {key: [run[key] for run in runs if run.get(key) is not None] for key in _SETTINGS}
    return {key: max(dict.fromkeys(values), key=values.count) for key, values in settings.items() if values}


def _label(run: Json, runs: Sequence[Json]) -> str:
    """Name a run by its target, and by settings that differ from the most frequent ones."""
    same = [other for other in runs if other["target"] == run["target"]]
    # chunk sizes depend on the device, so they only distinguish runs of the same target
    usual = _usual(runs) | {"chunk_size": _usual(same).get("chunk_size")}
    words = [word(run[key]) for key, word in _SETTINGS.items() if run.get(key) not in (None, usual.get(key))]
    return f"{run['target']} ({', '.join(words)})" if words else str(run["target"])


def done(runs: Iterable[Json]) -> list[Json]:
    """Return the runs that succeeded."""
    return [run for run in runs if run.get("status") == "ok"]


def throughput(run: Json) -> float | None:
    """Return the throughput of a run in Mpoints/s, None if unknown."""
    points = run.get("points_per_second")
    return points / 1e6 if known(points) else None


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
    last = ("fastest peer", "fastest of ours beside it")
    columns: Columns = {name: cell(name) for name in ("machine", "data", "getter", *reversed(ARCHS), *last)}
    ways = list(METHODS)
    order = sorted(rows, key=lambda key: (*key[:2], ways.index(key[2]) if key[2] in ways else len(ways)))
    return tabled("", columns, (rows[key] for key in order))


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
        "fastest of ours beside it": f"{_ratio(fastest, best)} times",
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


def _part(run: Json, name: str) -> str | None:
    """Format a number of streamlines, and its fraction of all streamlines of the run."""
    if not known(run.get(name)) or not run.get("streamlines"):
        return None
    return f"{count(run[name])} ({percent(run[name] / run['streamlines'])})"


def _machine_section(results: Json) -> Section:
    facts = {name: results.get(name) for name in ("created", "command", "commit", "note")}
    facts |= {name: at(results, "machine", name) for name in ("cpu", "cores", "system")}
    facts["memory"] = cell("machine", "memory_bytes", form=size)(results)
    device = {name: cell(name) for name in ("arch", "name", "driver", "compiler")}
    device["memory"] = cell("memory_bytes", form=size)
    tables = [
        Table("", ("what", "value"), [(name, str(fact)) for name, fact in facts.items() if fact]),
        tabled("Devices", device, at(results, "machine", "devices") or ()),
        Table("Versions", ("package", "version"), sorted((at(results, "machine", "versions") or {}).items())),
    ]
    return Section("machine", "Machine", [] if tables[0].rows else ["Nothing is known of the machine."], tables)


def _runs_section(group: tuple[str, str], runs: Sequence[Json]) -> Section:
    """Return the section of a case and method: its runs, failures with reasons, and agreement of the archs."""
    ended = done(runs)
    usual = ", ".join(_SETTINGS[key](value) for key, value in _usual(runs).items() if key != "chunk_size")
    notes = [f"Where nothing else is said: {usual}."] * bool(usual) + _agreement(ended)
    absent = {"target": cell("label"), "status": cell("status"), "reason": cell("reason")}
    truth: Columns = {"target": cell("label")}
    for name in ("valid", "invalid", "none", "bundles", "overlap", "overreach"):
        truth[name] = cell("truth", name, form=lambda value: (percent if isinstance(value, float) else count)(value))
    tables = [
        _speed_table(ended),
        _time_table(ended),
        tabled("Against the truth", truth, [run for run in ended if run.get("truth")]),
        tabled("Did not run", absent, [run for run in runs if run.get("status") != "ok"]),
    ]
    return Section("runs", ", ".join(group), notes + ["Nothing ran."] * (not ended), tables, group)


def _speed_table(runs: Sequence[Json]) -> Table:
    timed = sorted((run for run in runs if throughput(run)), key=lambda run: throughput(run) or 0.0)
    # relative to the CPU if it ran, else to the slowest run
    base = next((run for run in reversed(timed) if run["target"] in ON_HOST), timed[0] if timed else {})
    dipys = sorted({name for run in runs for name in run.get("density_correlation") or () if name.startswith("dipy")})

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
        "crossing": lambda run: _part(run, "crossing"),
        "commissural": lambda run: _part(run, "commissural"),
    }
    for name in dipys:
        columns[f"density correlation with {name}"] = cell("density_correlation", name, form=lambda r: number(r, 4))
        columns[f"KS of lengths with {name}"] = cell("length_ks", name, form=number)
    columns["sha256"] = lambda run: (run.get("sha256") or "")[:12]
    return tabled("", columns, runs)


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
    return tabled("Time and memory", columns, runs)


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


def _limits_section(results: Json) -> Section:
    limit: Columns = {
        "arch": cell("arch"),
        "device": cell("device"),
        "GB/s": lambda limit: number((limit.get("bytes_per_second") or math.nan) / 1e9),
        "G multiply-adds/s": lambda limit: number((limit.get("multiply_adds_per_second") or math.nan) / 1e9),
    }
    share = {"case": cell("case"), "getter": getter, "target": cell("label")}
    share |= {f"share of {name}": cell("limit_share", name, form=percent) for name in ("bytes", "operations")}
    limits = [{"arch": arch, **rates} for arch, rates in (results.get("limits") or {}).items()]
    failed = [f"The limits of {limit['arch']} are unknown: {limit['reason']}" for limit in limits if "reason" in limit]
    limits = [limit for limit in limits if "reason" not in limit]
    runs = [run for members in groups(results).values() for run in done(members) if run.get("limit_share")]
    tables = [tabled("", limit, limits), tabled("Share of the limits", share, runs)]
    notes = failed if limits or failed else ["The limits of the devices were not measured."]
    return Section("limits", "Limits of the devices", notes, tables)
