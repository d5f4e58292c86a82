"""Runs the schedule of the suite and collects the results (for the schema see ``__init__.py``)."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from records import commit, kernels

from tistreamlines.aliases import Json
from tistreamlines.benchmarks.problem import Problem
from tistreamlines.benchmarks.suite import head, last_line, run_limited, run_targets
from tistreamlines.benchmarks.targets import Target

from .files import files_to_file
from .limits import shares
from .schedule import Folders, FullSchedule
from .sweeping import swept
from .targets import sweeps_of
from .tractometer import crossings, truth

BINS = 40


def benchmark(
    schedule: FullSchedule, report: Callable[[str], object], command: str = "",
    keep: Callable[[Json], object] = lambda results: None,
) -> Json:
    """Run a schedule and return the results, like :func:`tistreamlines.benchmarks.suite.benchmark`."""
    results = head(command) | {
        "commit": commit(), "kernels": kernels(fits=bool(schedule.whole)), "limits": {}, "sweeps": [], "densities": {},
        "lengths": {}, "files": [],
    }
    if schedule.whole:

        def add(row: Json) -> None:
            results["files"].append(row)
            keep(results)

        files_to_file(schedule, report, add)
        return results
    results["limits"] = device_limits(schedule.targets, schedule.time_limit, report)
    for case in schedule.cases:
        report(f"{case.name}: {case.title}")
        with tempfile.TemporaryDirectory() as temporary:
            folders = Folders(Path(temporary), case, schedule)
            folder, phantom = folders.at(1.0)
            for method in schedule.methods:
                name = f"{case.name} {method.name}"
                problem = Problem(folder, method, schedule.nseeds)
                rows, measured = run_targets(schedule, case, problem, report)
                for row in rows:
                    work = row.pop("work", None) or (None, None)
                    row["limit_share"] = shares(row, results["limits"].get(row["target"]), *work)
                    if run := measured.get(row["target"]):
                        row |= crossings(run.tracked[0], problem.space)
                    row["truth"] = truth(phantom, run.tracked[0]) if run and phantom else None
                results["runs"] += rows
                # maxima along the second axis, with rows from the top of the third axis
                projections = {target: run.maps[0].max(axis=1).T[::-1].tolist() for target, run in measured.items()}
                results["densities"][name] = projections
                results["lengths"][name] = _histograms({target: run.mm[0] for target, run in measured.items()})
                keep(results)
                ran = {row["target"] for row in rows if row["status"] in ("ok", "timeout")}
                for sweep in schedule.sweeps:
                    for target in schedule.targets:
                        if target.name in ran and sweep.name in sweeps_of(target):
                            report(f"{name}: {target.title}, {sweep.name}")
                            results["sweeps"] += swept(sweep, method, target, folders, schedule)
                            keep(results)
    return results


def device_limits(targets: Iterable[Target], time_limit: float, report: Callable[[str], object]) -> Json:
    """Measure the peak rates of each arch, each in its own process.

    Parameters
    ----------
    targets : iterable of Target
        Peers are skipped.
    time_limit : float
        Seconds for each.
    report : callable
        Called with a description of each measurement before it starts.

    Returns
    -------
    dict
        The limits by arch, or the reason why they could not be measured.
    """
    limits = {}
    for target in targets:
        if target.kind != "arch" or target.missing():
            continue
        report(f"limits of {target.name}")
        try:
            done = run_limited(["suite.worker", target.name], time_limit)
        except subprocess.TimeoutExpired:
            limits[target.name] = {"reason": f"stopped after {time_limit:g} s"}
        else:
            line = last_line(done.stderr if done.returncode else done.stdout)
            limits[target.name] = {"reason": line} if done.returncode else json.loads(line)
    return limits


def _histograms(mm: dict[str, np.ndarray]) -> Json:
    """Return histograms of lengths, mm, with common bin edges."""
    longest = max((float(lengths.max()) for lengths in mm.values() if len(lengths)), default=1.0)
    edges = np.linspace(0, longest, BINS + 1)
    counts = {name: np.histogram(lengths, edges)[0].tolist() for name, lengths in mm.items()}
    return {"edges_mm": edges.round(3).tolist()} | counts
