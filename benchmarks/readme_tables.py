"""Tables of the README and of the page on speed, from the committed results of ``python benchmarks/suite``."""

from __future__ import annotations

from collections.abc import Iterable

from suite.file_tables import file_groups
from suite.labels import labelled

from tistreamlines.aliases import Json
from tistreamlines.benchmarks.report import markdown_table
from tistreamlines.benchmarks.tables import Table, cell, count, done, machine_name, number, rows_table, summary
from tistreamlines.devices import ARCHS

LONGER = "times as long as ours"


def throughput_table(list_of_results: Iterable[Json]) -> str:
    """Return the table of the throughput of each arch and of the fastest peer on the same data, in Markdown."""
    return markdown_table(summary(map(labelled, list_of_results)))


def files_table(list_of_results: Iterable[Json]) -> str:
    """Return the table of whole commands, from the results of each computer, in Markdown."""
    return markdown_table(files_summary(list_of_results))


def fastest_table(list_of_results: Iterable[Json]) -> str:
    """Return the table of our fastest command beside the fastest of other programs, in Markdown."""
    return markdown_table(fastest_summary(list_of_results))


def newest(list_of_results: Iterable[Json]) -> dict[tuple[str, str, str], list[Json]]:
    """Return the commands that ended, by machine, data and getter; of several results, those of the newest."""
    rows: dict[tuple[str, str, str], list[Json]] = {}
    ages: dict[tuple[str, str, str], str] = {}
    for results in list_of_results:
        for (case, way), commands in file_groups(results).items():
            ended = done(with_first_processes(commands))
            machine = machine_name(results, [row["arch"] for row in ended if row["arch"]])
            key = (machine, f"{case}, {count(commands[0]['nseeds'])} seeds", way)
            if str(results.get("created")) >= ages.setdefault(key, ""):
                ages[key], rows[key] = str(results.get("created")), ended
    return rows


def files_summary(list_of_results: Iterable[Json]) -> Table:
    """Return a table of the seconds of whole commands, warm and cold, and of how much longer the fastest peer takes."""
    lines: list[dict[str, str | None]] = []
    columns = dict.fromkeys(("machine", "data", "getter", *reversed(ARCHS)))
    for key, rows in newest(list_of_results).items():
        ended = {(row["target"], row["kind"]): row for row in rows}
        line: dict[str, str | None] = dict(zip(("machine", "data", "getter"), key, strict=True))
        for target in dict.fromkeys(target for target, _ in ended):
            line[target] = phases(*(ended.get((target, kind), {}).get("seconds") for kind in ("warm", "cold")))
        columns |= dict.fromkeys(line)
        lines.append(line | {LONGER: phases(*(longer(rows, kind) for kind in ("warm", "cold")))})
    return rows_table("", {name: cell(name) for name in (*columns, LONGER)}, lines)


def fastest_summary(list_of_results: Iterable[Json]) -> Table:
    """Return a table of seconds of our fastest warm command beside the fastest of other programs, if any."""
    lines = []
    for (machine, _, getter), rows in newest(list_of_results).items():
        warm = [row for row in rows if row["kind"] == "warm"]
        if (ratio := longer(rows, "warm")) is None:
            continue
        ours, peer = (
            min((row for row in warm if bool(row["arch"]) is of_arch), key=lambda row: row["seconds"])
            for of_arch in (True, False)
        )
        lines.append({
            "computer": machine, "getter": getter, "seeds": count(ours["nseeds"]),
            "tistreamlines, s": f"{number(ours['seconds'])} ({ours['arch']})",
            "fastest other program, s": f"{number(peer['seconds'])} ({peer['target']})", "ratio": number(ratio),
        })
    return rows_table("", {name: cell(name) for name in lines[0]}, lines)


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
