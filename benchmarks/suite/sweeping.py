"""Sweeps: one setting is varied, with a process for each value; all numbers of seeds share a process."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tistreamlines.aliases import Json
from tistreamlines.benchmarks.cases import TimedMethod
from tistreamlines.benchmarks.problem import Problem
from tistreamlines.benchmarks.suite import run_module
from tistreamlines.benchmarks.targets import Target
from tistreamlines.devices import usable_cores
from tistreamlines.space.sphere import load_sphere

from .schedule import Folders, FullSchedule, Sweep
from .worker import SweepRequest

Row = Sequence[float | str]  # value, seconds, points and peak memory


def swept(sweep: Sweep, method: TimedMethod, target: Target, folders: Folders, schedule: FullSchedule) -> list[Json]:
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
    if not rows:
        return []
    values, seconds, points, memory = zip(*rows, strict=True)
    return [{
        "name": sweep.name, "unit": sweep.unit, "case": folders.case.name, "dg": method.dg, "model": method.model,
        "target": target.name, "values": list(values), "seconds": list(seconds), "points": list(points),
        "peak_host_bytes": list(memory),
    }]


def _rows(sweep: Sweep, method: TimedMethod, target: Target, folders: Folders, schedule: FullSchedule) -> Iterator[Row]:
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


def _run(
    folder: Path, method: TimedMethod, target: Target, schedule: FullSchedule, changes: Json
) -> list[Row]:
    with tempfile.TemporaryDirectory() as results:
        request = SweepRequest(
            str(folder), results, target.name, method.name, nseeds=schedule.nseeds, threads=schedule.threads,
            counts=(schedule.nseeds,), seconds=schedule.time_limit / 2, devices=schedule.devices,
        )
        status, _ = run_module([schedule.worker, str(replace(request, **changes).save())], schedule.time_limit)
        return json.loads((Path(results) / "run.json").read_text())["sweep"] if status == "ok" else []
