"""Tables of the README and of the page on speed, from the committed results of ``python benchmarks/suite``."""

from __future__ import annotations

from collections.abc import Iterable

from suite.file_tables import file_groups
from suite.labels import labelled

from tistreamlines.aliases import Json
from tistreamlines.benchmarks.report import markdown_table
from tistreamlines.benchmarks.tables import Table, cell, count, done, machine_name, number, summary, tabled
from tistreamlines.devices import ARCHS

LONGER = "times as long as ours"


def throughput_table(list_of_results: Iterable[Json]) -> str:
    """Return the table of the throughput of each arch and of the fastest peer on the same data, in Markdown."""
    return markdown_table(summary(map(labelled, list_of_results)))


def files_table(list_of_results: Iterable[Json]) -> str:
    """Return the table of whole commands, from the results of each computer, in Markdown."""
    return markdown_table(files_summary(list_of_results))


def files_summary(list_of_results: Iterable[Json]) -> Table:
    """Return a table of the seconds of whole commands, warm and cold, and of how much longer the fastest peer takes.

    Of results with the same machine, data and getter, the newest counts.
    """
    lines: dict[tuple[str, ...], dict[str, str | None]] = {}
    ages: dict[tuple[str, ...], str] = {}
    columns = dict.fromkeys(("machine", "data", "getter", *reversed(ARCHS)))
    for results in list_of_results:
        for (case, way), commands in file_groups(results).items():
            rows = done(with_first_processes(commands))
            ended = {(row["target"], row["kind"]): row for row in rows}
            archs = [row["arch"] for row in rows if row["arch"]]
            key = (machine_name(results, archs), f"{case}, {count(commands[0]['nseeds'])} seeds", way)
            if str(results.get("created")) < ages.setdefault(key, ""):
                continue
            ages[key] = str(results.get("created"))
            line: dict[str, str | None] = dict(zip(("machine", "data", "getter"), key, strict=True))
            for target in dict.fromkeys(target for target, _ in ended):
                line[target] = phases(*(ended.get((target, kind), {}).get("seconds") for kind in ("warm", "cold")))
            columns |= dict.fromkeys(line)
            lines[key] = line | {LONGER: phases(*(longer(rows, kind) for kind in ("warm", "cold")))}
    return tabled("", {name: cell(name) for name in (*columns, LONGER)}, lines.values())


def with_first_processes(rows: Iterable[Json]) -> list[Json]:
    """Return rows in which the first process of a peer is cold.

    Earlier results have one row for a peer. Where that is of one process, it was the first.
    """
    renamed: list[Json] = []
    for row in rows:
        alone = not any(before["target"] == row["target"] for before in renamed)
        first = not row.get("arch") and row["kind"] == "warm" and alone and len(row.get("repeats", ())) == 1
        renamed.append({**row, "kind": "cold"} if first else row)
    return renamed


def phases(warm: float | None, cold: float | None) -> str | None:
    """Write a number of warm processes and that of cold ones: '2.77 (3.86 cold)'."""
    if warm is None:
        return None if cold is None else f"{number(cold)} cold"
    return number(warm) + (f" ({number(cold)} cold)" if cold is not None else "")


def longer(rows: list[Json], kind: str) -> float | None:
    """Return how many times as long as our fastest command the fastest peer takes, both of one kind."""
    ours, peers = ([row["seconds"] for row in rows if row["kind"] == kind and bool(row["arch"]) is of_arch]
                   for of_arch in (True, False))
    return min(peers) / min(ours) if ours and peers else None
