"""Means of the scores of tractograms, from the rows of ``benchmarks/quality.py``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Row = dict[str, Any]
SCAN = ("bval", "snr", "directions", "voxel_mm")
Scanned = tuple[str, ...]


def scan_of(row: Row) -> Scanned:
    """Return b-value, SNR, directions and side of a voxel as they are written; an unknown one is empty."""
    values = [row.get(name, "") for name in SCAN]
    return tuple(f"{value:g}" if isinstance(value, float) else str(value) for value in values)


def _order(scan: Scanned) -> tuple[float, ...]:
    """Sort by the highest b-value, then by the number of shells and the other numbers."""
    parts = [[float(part) for part in value.split("+") if part] or [0.0] for value in scan]
    return max(parts[0]), float(len(parts[0])), *(sum(part) for part in parts[1:])


def means(rows: Iterable[Row]) -> list[tuple[Scanned, str, dict[str, float]]]:
    """Return the mean of each score over geometries and seeds, by scan and way.

    Parameters
    ----------
    rows : of which those that failed are left out.

    Returns
    -------
    list of scan, way and scores
        Sorted by scan; ways are in the order of the rows. A score is left out unless all rows have it.
    """
    groups: dict[tuple[Scanned, str], list[Row]] = {}
    for row in rows:
        if "failed" not in row:
            groups.setdefault((scan_of(row), row["way"]), []).append(row)
    ways = {way: number for number, way in enumerate(dict.fromkeys(way for _, way in groups))}
    table = []
    for scan, way in sorted(groups, key=lambda group: (_order(group[0]), ways[group[1]])):
        mine = groups[scan, way]
        about = {*SCAN, "seed", "streamlines"}
        names = [name for name, value in mine[0].items() if not isinstance(value, str) and name not in about]
        shared = [name for name in names if all(name in row for row in mine)]
        table.append((scan, way, {name: sum(row[name] for row in mine) / len(mine) for name in shared}))
    return table
