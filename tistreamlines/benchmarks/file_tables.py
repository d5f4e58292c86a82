"""Section of a benchmark report on whole commands, from files to a tractogram."""

from __future__ import annotations

from .forms import Columns, Record, Section, cell, count, getter, number, tabled

STAGES = ("start and exit", "load", "fit", "prepare", "compile", "track", "write")
_NOTE = (
    "Seconds from the start of a process to its end. cold: nothing compiled is in the caches; warm: an earlier process "
    "has left there what it compiles; cached: fits and tables are there too (--cache-dir). Files are in the memory of "
    "the system. Stages are of the run of median duration; tckgen writes while it tracks."
)


def file_groups(results: Record) -> dict[tuple[str, str], list[Record]]:
    """Return the rows of whole commands of each case and method, each with its ``label``."""
    found: dict[tuple[str, str], list[Record]] = {}
    for row in results.get("files") or ():
        group = found.setdefault((str(row.get("case")), getter(row)), [])
        before = {one["kind"] for one in group if one["target"] == row["target"]}
        # earlier results have one row for a peer; where that is of one process, it was the first
        first = not row.get("arch") and row["kind"] == "warm" and not before and len(row.get("repeats", ())) == 1
        kind = "cold" if first else row["kind"]
        group.append({**row, "kind": kind, "label": f"{row['target']}, {kind}"})
    return found


def phases(warm: float | None, cold: float | None) -> str | None:
    """Write a number of warm processes and that of cold ones: '2.77 (3.86 cold)'."""
    if warm is None:
        return None if cold is None else f"{number(cold)} cold"
    return number(warm) + (f" ({number(cold)} cold)" if cold is not None else "")


def longer(rows: list[Record], kind: str) -> float | None:
    """Return how many times as long as our fastest command the fastest peer takes, both of one kind."""
    ours, peers = ([row["seconds"] for row in rows if row["kind"] == kind and bool(row["arch"]) is own]
                   for own in (True, False))
    return min(peers) / min(ours) if ours and peers else None


def files_section(results: Record) -> Section:
    """Return the section with a table for each case and method, and one of failures."""
    columns: Columns = {"target": cell("label"), "seconds": cell("seconds", form=number)}
    columns |= {f"{stage}, s": cell("stages", stage, form=number) for stage in STAGES}
    columns |= {name: cell(name, form=count) for name in ("streamlines", "points")}
    failed: Columns = {"target": cell("label"), "getter": getter, "status": cell("status"), "reason": cell("reason")}
    groups, tables = file_groups(results), []
    for (case, way), rows in groups.items():
        title = f"{case}, {way}, {count(rows[0].get('nseeds'))} seeds"
        tables.append(tabled(title, columns, (row for row in rows if row.get("status") == "ok")))
    absent = [row for rows in groups.values() for row in rows if row.get("status") != "ok"]
    return Section("files", "Files to file", [_NOTE], [*tables, tabled("Did not run", failed, absent)])
