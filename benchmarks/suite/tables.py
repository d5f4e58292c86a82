"""Sections of a report of the suite: those of the benchmark, with the truth, limits, sweeps and whole commands."""

from __future__ import annotations

import math
from functools import partial

from tistreamlines.aliases import Json
from tistreamlines.benchmarks import tables
from tistreamlines.benchmarks.tables import (
    Columns,
    Section,
    cell,
    count,
    done,
    getter,
    groups,
    is_known,
    number,
    percent,
    rows_table,
)

from .file_tables import files_section
from .labels import labelled, usual_settings
from .sweep_tables import sweeps_section


def sections(results: Json) -> list[Section]:
    """Return the sections of a report, in order, for Markdown and HTML."""
    results = labelled(results)
    parts = [_with_more(part, results) if part.kind == "runs" else part for part in tables.sections(results)]
    if results.get("files"):
        parts = [section for section in parts if section.kind != "none"] + [files_section(results)]
    if results.get("runs") or not results.get("files"):
        parts += [_limits_section(results), sweeps_section(results)]
    return [section._replace(tables=[table for table in section.tables if table.rows]) for section in parts]


def _with_more(section: Section, results: Json) -> Section:
    """Add the usual settings, and what the streamlines connect, to the section of a case and method."""
    runs, columns = groups(results)[section.group], {"target": cell("label")}
    for name in ("crossing", "commissural"):
        columns[name] = partial(_part, name=name)
    for name in ("valid", "invalid", "none", "bundles", "overlap", "overreach"):
        columns[name] = cell("truth", name, form=lambda value: (percent if isinstance(value, float) else count)(value))
    notes = [f"Where nothing else is said: {usual_settings(runs)}.", *section.notes[1:]]
    return section._replace(notes=notes, tables=[*section.tables, rows_table("Connections", columns, done(runs))])


def _part(run: Json, name: str) -> str | None:
    """Format a number of streamlines, and its fraction of all streamlines of the run."""
    if not is_known(run.get(name)) or not run.get("streamlines"):
        return None
    return f"{count(run[name])} ({percent(run[name] / run['streamlines'])})"


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
    tables = [rows_table("", limit, limits), rows_table("Share of the limits", share, runs)]
    notes = failed if limits or failed else ["The limits of the devices were not measured."]
    return Section("limits", "Limits of the devices", notes, tables)
