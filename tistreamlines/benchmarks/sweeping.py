"""Sweeps: one thing is varied, each value in a process of its own; numbers of seeds share one."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ..backends.devices import usable_cores
from ..sphere.sphere import load_sphere
from .cases import Case, Method, Sweep
from .problem import Problem
from .runs import run_process
from .schedule import Folders, Schedule
from .targets import Target
from .worker import Request


def swept(sweep: Sweep, method: Method, target: Target, folders: Folders, schedule: Schedule) -> list[dict[str, Any]]:
    """Vary one thing; values that came to nothing are left out.

    Parameters
    ----------
    sweep : what to vary.
    method, target : of the runs.
    folders : problems to track.
    schedule : of the benchmark; its number of seeds is tracked where the sweep does not say another.

    Returns
    -------
    list
        A record of the results' ``sweeps``; none if nothing can be varied here, or nothing ran.
    """
    rows = list(_rows(sweep, method, target, folders, schedule))
    return [sweep_record(sweep, folders.case, method, target, rows)] if rows else []


def sweep_record(
    sweep: Sweep, case: Case, method: Method, target: Target, rows: Iterable[Sequence[Any]]
) -> dict[str, Any]:
    """Put rows of value, seconds, points and, where known, peak memory into a record of the results."""
    values, seconds, points, *memory = zip(*rows, strict=True)
    return {
        "name": sweep.name, "unit": sweep.unit, "case": case.name, "dg": method.dg, "model": method.model,
        "target": target.name, "values": list(values), "seconds": list(seconds), "points": list(points),
        "peak_host_bytes": list(memory[0]) if memory else [],
    }  # fmt: skip


def _rows(sweep: Sweep, method: Method, target: Target, folders: Folders, schedule: Schedule) -> Iterator[list[Any]]:
    """Value, seconds, points and peak memory of each run."""
    if sweep.name == "seeds":
        yield from _run(folders.at(1.0)[0], method, target, schedule, nseeds=sweep.values[-1], counts=sweep.values)
    elif sweep.name == "voxels":
        # a user's own series has the voxels that it has
        for factor in sweep.values if folders.case.phantom else ():
            folder, _ = folders.at(factor)
            size = Problem(folder, method, 0).mask.size
            yield from ([size, *row[1:]] for row in _run(folder, method, target, schedule))
    else:
        for value in sweep.values:
            told, changes = _changed(sweep.name, value, method, schedule)
            if told is not None:
                found = _run(folders.at(1.0)[0], method, target, schedule, **changes)
                yield from ([told, *row[1:]] for row in found)


def _changed(name: str, value: Any, method: Method, schedule: Schedule) -> tuple[Any, dict[str, Any]]:
    """How a value is told, None where it makes no sense, and what it changes of a request."""
    if name == "chunk":
        return (value if value <= schedule.nseeds else None), {"chunk_size": value}
    if name == "threads":
        return (value if value <= usable_cores() else None), {"threads": value}
    if name == "sphere":
        return len(load_sphere(value)[0]), {"changes": {"sphere": value}}
    return value, {"changes": {"order": value}}


def _run(folder: Path, method: Method, target: Target, schedule: Schedule, **changes: Any) -> list[list[Any]]:
    common = {"nseeds": schedule.nseeds, "threads": schedule.threads, "counts": (schedule.nseeds,), "repeat": 0}
    common["seconds"] = schedule.time_limit / 2
    with tempfile.TemporaryDirectory() as own:
        request = Request(str(folder), own, target.name, method.name, **(common | changes))
        status, _ = run_process(request, schedule.time_limit)
        return json.loads((Path(own) / "run.json").read_text())["sweep"] if status == "ok" else []
