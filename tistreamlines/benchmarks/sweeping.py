"""Sweeps: one setting is varied, with a process for each value; all numbers of seeds share a process."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ..aliases import Json
from ..devices import usable_cores
from ..space.sphere import load_sphere
from .cases import Case, Sweep, TimedMethod
from .problem import Problem
from .runs import run_process
from .schedule import Folders, Schedule
from .targets import Target
from .worker import Request

Row = Sequence[float | str]  # value, seconds, points and, if known, peak memory


def swept(sweep: Sweep, method: TimedMethod, target: Target, folders: Folders, schedule: Schedule) -> list[Json]:
    """Run a sweep; values whose run failed are omitted.

    Parameters
    ----------
    sweep : Sweep
    method, target : Method and Target
    folders : Folders
        Data of the case.
    schedule : Schedule
        Its number of seeds is used unless the sweep varies it.

    Returns
    -------
    list
        One record for the results' ``sweeps``; empty if no value could be run.
    """
    rows = list(_rows(sweep, method, target, folders, schedule))
    return [sweep_record(sweep, folders.case, method, target, rows)] if rows else []


def sweep_record(
    sweep: Sweep, case: Case, method: TimedMethod, target: Target, rows: Iterable[Row]
) -> Json:
    """Return a record of the results from rows of value, seconds, points and, if known, peak memory."""
    values, seconds, points, *memory = zip(*rows, strict=True)
    return {
        "name": sweep.name, "unit": sweep.unit, "case": case.name, "dg": method.dg, "model": method.model,
        "target": target.name, "values": list(values), "seconds": list(seconds), "points": list(points),
        "peak_host_bytes": list(memory[0]) if memory else [],
    }


def _rows(sweep: Sweep, method: TimedMethod, target: Target, folders: Folders, schedule: Schedule) -> Iterator[Row]:
    """Yield value, seconds, points and peak memory of each run."""
    if sweep.name == "seeds":
        changes = {"nseeds": sweep.values[-1], "counts": sweep.values}
        yield from _run(folders.at(1.0)[0], method, target, schedule, changes)
    elif sweep.name != "voxels" or folders.case.phantom:  # only phantoms can be generated at other resolutions
        for value in sweep.values:
            folder, _ = folders.at(value if sweep.name == "voxels" else 1.0)
            reported, changes = _changed(sweep.name, value, Problem(folder, method, schedule.nseeds))
            if reported is not None:
                yield from ([reported, *row[1:]] for row in _run(folder, method, target, schedule, changes))


def _changed(name: str, value: Any, problem: Problem) -> tuple[float | str | None, Json]:
    """Return the reported value, None if it is not applicable, and the changes to a request."""
    if name == "voxels":
        return problem.mask.size, {}
    if name == "chunk":
        return (value if value <= problem.nseeds else None), {"chunk_size": value}
    if name == "threads":
        return (value if value <= usable_cores() else None), {"threads": value}
    if name == "sphere":
        return len(load_sphere(value)[0]), {"changes": {"sphere": value}}
    return value, {"changes": {"order": value}}


def _run(folder: Path, method: TimedMethod, target: Target, schedule: Schedule, changes: Json) -> list[Row]:
    common = {"nseeds": schedule.nseeds, "threads": schedule.threads, "counts": (schedule.nseeds,), "repeat": 0}
    common |= {"seconds": schedule.time_limit / 2, "devices": schedule.devices}
    with tempfile.TemporaryDirectory() as results:
        request = Request(str(folder), results, target.name, method.name, **(common | changes))
        status, _ = run_process(request, schedule.time_limit)
        return json.loads((Path(results) / "run.json").read_text())["sweep"] if status == "ok" else []
