"""Section of a benchmark report on whole commands, from files to a tractogram."""

from __future__ import annotations

from tistreamlines.aliases import Json
from tistreamlines.benchmarks.tables import Columns, Section, cell, count, getter, number, rows_table

STAGES = ("start and exit", "load", "fit", "prepare", "compile", "track", "write")
_NOTE = (
    "Seconds from the start of a process to its end. cold: nothing compiled is in the caches; warm: an earlier process "
    "has left there what it compiles; cached: fits and tables are there too (--cache-dir). Files are in the memory of "
    "the system. Stages are of the run of median duration; tckgen writes while it tracks."
)


def file_groups(results: Json) -> dict[tuple[str, str], list[Json]]:
    """Return the rows of whole commands of each case and method, each with its ``label``."""
    rows: dict[tuple[str, str], list[Json]] = {}
    for row in results.get("files") or ():
        group = rows.setdefault((str(row.get("case")), getter(row)), [])
        group.append({**row, "label": f"{row['target']}, {row['kind']}"})
    return rows


def files_section(results: Json) -> Section:
    """Return the section with a table for each case and method, and one of failures."""
    columns: Columns = {"target": cell("label"), "seconds": cell("seconds", form=number)}
    columns |= {f"{stage}, s": cell("stages", stage, form=number) for stage in STAGES}
    columns |= {name: cell(name, form=count) for name in ("streamlines", "points")}
    failed: Columns = {"target": cell("label"), "getter": getter, "status": cell("status"), "reason": cell("reason")}
    groups, tables = file_groups(results), []
    for (case, way), rows in groups.items():
        title = f"{case}, {way}, {count(rows[0].get('nseeds'))} seeds"
        tables.append(rows_table(title, columns, (row for row in rows if row.get("status") == "ok")))
    absent = [row for rows in groups.values() for row in rows if row.get("status") != "ok"]
    return Section("files", "Files to file", [_NOTE], [*tables, rows_table("Did not run", failed, absent)])
