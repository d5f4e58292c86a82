"""Runs a schedule, one process after another, and compares the streamlines (for the schema see ``__init__.py``)."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from .. import helpers
from ..aliases import Array, Json
from ..backends import compiler_told
from ..devices import ARCHS, ON_HOST, list_devices, usable_cores
from ..run.record import versions
from ..space.batch import Space
from . import SCHEMA
from .cases import Case, TimedMethod
from .problem import Problem, save_problem
from .streamlines import RunStreamlines, correlation, density, identical, length_ks, lengths_mm
from .targets import Target
from .worker import Request

DIPY = "dipy"


@dataclass(frozen=True)
class Schedule:
    """Extent of a benchmark: every case with every method, for each target that supports the method.

    Parameters
    ----------
    cases, methods, targets : sequences of Case, TimedMethod and Target
    nseeds, threads, repeat : int
        Number of seeds, threads and timed repeats of each run.
    time_limit : float
        Seconds after which a run is stopped.
    seconds : float
        Seconds after which a run is not repeated again.
    devices : str
        GPUs that share the seeds, for the archs whose devices have numbers.
    worker : str
        Module whose process runs a request.
    """

    cases: Sequence[Case]
    methods: Sequence[TimedMethod]
    targets: Sequence[Target]
    nseeds: int
    threads: int | None = None
    repeat: int = 3
    time_limit: float = 600.0
    seconds: float = 20.0
    devices: str | None = None
    worker: str = "tistreamlines.benchmarks.worker"

    @property
    def orders(self) -> set[int]:
        """Orders of the harmonics of CSD."""
        return {method.order for method in self.methods if method.needs_csd}


class MeasuredRun:
    """Streamlines of a run, and their density maps and lengths (mm); those of the first two repeats of a peer."""

    def __init__(self, paths: Iterable[Path], space: Space) -> None:
        self.tracked = [RunStreamlines.load(path) for path in paths]
        self.maps = [density(lines, space) for lines in self.tracked]
        self.mm = [lengths_mm(lines) for lines in self.tracked]


def benchmark(
    schedule: Schedule, report: Callable[[str], object], command: str = "",
    keep: Callable[[Json], object] = lambda results: None,
) -> Json:
    """Run a schedule and return the results.

    Parameters
    ----------
    schedule : Schedule
    report : callable
        Called with a description of each run before it starts.
    command : str
        The command line, for the record.
    keep : callable
        Called with the results so far, whenever there are new ones.

    Returns
    -------
    dict
        Results of schema 1.
    """
    results = head(command)
    for case in schedule.cases:
        report(f"{case.name}: {case.title}")
        with tempfile.TemporaryDirectory() as folder:
            save_problem(case, Path(folder), schedule.orders)
            for method in schedule.methods:
                rows, _ = run_targets(schedule, case, Problem(Path(folder), method, schedule.nseeds), report)
                results["runs"] += rows
                keep(results)
    return results


def head(command: str) -> Json:
    """Return results without runs."""
    created = datetime.now(UTC).isoformat(timespec="seconds")
    return {"schema": SCHEMA, "created": created, "command": command, "machine": machine(), "runs": []}


def run_targets(
    schedule: Schedule, case: Case, problem: Problem, report: Callable[[str], object]
) -> tuple[list[Json], dict[str, MeasuredRun]]:
    """Run each target in a separate process and compare their streamlines.

    Returns
    -------
    rows : list of dict
        The run of each target that knows the method.
    measured : dict
        The streamlines of the runs that went well, by target. Runs with the same bits share them.
    """
    rows: list[Json] = []
    by_target: dict[str, MeasuredRun] = {}
    known: dict[str, MeasuredRun] = {}
    with tempfile.TemporaryDirectory() as folder:
        for target in schedule.targets:
            if problem.method.name in target.methods:
                report(f"{case.name} {problem.method.name}: {target.title}")
                (Path(folder) / target.name).mkdir()
                rows.append(_run(schedule, case, problem, target, Path(folder) / target.name))
        for row in rows:  # not while others are timed
            if row["status"] == "ok":
                bits = row["sha256"] or row["target"]  # the streamlines of a peer are its own
                if bits not in known:
                    files = sorted((Path(folder) / row["target"]).glob("tracked-*.npz"))
                    known[bits] = MeasuredRun(files, problem.space)
                by_target[row["target"]] = known[bits]
    _compare(rows, by_target, problem.mask)
    return rows, by_target


def _run(schedule: Schedule, case: Case, problem: Problem, target: Target, folder: Path) -> Json:
    """Return the row of a target."""
    row: Json = {
        "case": case.name, "dg": problem.method.dg, "model": problem.method.model, "target": target.name,
        "kind": target.kind, "nseeds": schedule.nseeds, "chunk_size": None,
        "threads": None if target.name in {*ARCHS} - {*ON_HOST} else schedule.threads,
        "exact": True if target.kind == "arch" else None, "status": "missing", "reason": target.missing(),
        "seconds": None, "density_correlation": {}, "length_ks": {}, "identical": {},
    }
    if row["reason"]:
        return row
    request = Request(
        str(problem.folder), str(folder), target.name, problem.method.name, schedule.nseeds, schedule.threads,
        schedule.devices, schedule.repeat, schedule.seconds,
    )
    row["status"], row["reason"] = run_module([schedule.worker, str(request.save())], schedule.time_limit)
    if row["status"] == "ok":
        row |= json.loads((folder / "run.json").read_text())
        seconds = max(row["seconds"]["track"], 1e-9)
        row |= {f"{name}_per_second": row[name] / seconds for name in ("points", "streamlines")}
    return row


def _compare(rows: list[Json], by_target: dict[str, MeasuredRun], mask: Array) -> None:
    """Add to each run how well it agrees with DIPY, and to each arch how many streamlines are those of the first."""
    first = next((name for name in by_target if name in ARCHS), None)
    for row in rows:
        name = row["target"]
        if name not in by_target:
            continue
        here, dipy = by_target[name], by_target.get(DIPY)
        k = int(name == DIPY)  # DIPY beside itself with another RNG seed
        if dipy and k < len(dipy.maps):
            figures = {
                "density_correlation": correlation(here.maps[0], dipy.maps[k], mask),
                "length_ks": length_ks(here.mm[0], dipy.mm[k]),
            }
            for figure, value in figures.items():
                if np.isfinite(value):  # JSON has no NaN
                    row[figure][DIPY] = round(value, 4)
        if first and name in ARCHS and name != first:
            alike = here is by_target[first]
            row["identical"][first] = 1.0 if alike else identical(here.tracked[0], by_target[first].tracked[0])


def run_module(module: list[str], time_limit: float, environment: Mapping[str, str] | None = None) -> tuple[str, str]:
    """Run a module with its arguments.

    Parameters
    ----------
    module : list of str
        Its name and its arguments.
    time_limit : float
        Seconds after which it is stopped.
    environment : mapping, optional
        Its environment; by default this process's.

    Returns
    -------
    status, reason : str
        ``reason`` is the last line of its output if it failed, else "".
    """
    try:
        done = run_limited(module, time_limit, environment)
    except subprocess.TimeoutExpired as late:
        return "timeout", f"stopped after {time_limit:g} s. {last_line(str(late.stderr))}".strip()
    if done.returncode == 0:
        return "ok", ""
    ending = f"signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
    return "failed", f"{last_line(done.stderr) or last_line(done.stdout)} ({ending})".strip()


def run_limited(
    module: list[str], time_limit: float, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a module; after the time limit, kill it and all its child processes.

    Raises
    ------
    subprocess.TimeoutExpired
        With its output, if it took longer than ``time_limit`` seconds.
    """
    command, pipe = helpers.module(*module), subprocess.PIPE
    with subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, errors="replace", start_new_session=True, env=environment
    ) as process:
        try:
            output = process.communicate(timeout=time_limit)
        except BaseException as error:
            if hasattr(os, "killpg"):  # not on Windows
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            output = process.communicate()
            if isinstance(error, subprocess.TimeoutExpired):
                raise subprocess.TimeoutExpired(command, time_limit, *output) from None
            raise
    return subprocess.CompletedProcess(command, process.returncode, *output)


def last_line(text: str) -> str:
    """Return the last line that is not empty, at most 300 characters of it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def machine() -> Json:
    """Return processor, memory, devices and versions, as in the schema."""
    devices = [device for device in list_devices() if device.available]
    cpu = next((device for device in devices if device.on_host), None)
    return {
        "cpu": cpu.name if cpu else platform.processor(), "cores": usable_cores(),
        "memory_bytes": cpu.memory_bytes if cpu else None, "system": f"{platform.system()} {platform.machine()}",
        "devices": [
            {"arch": d.arch, "name": d.name, "driver": d.driver, "memory_bytes": d.memory_bytes, "software": d.software,
             **compiler_told(d)} for d in devices
        ],
        "versions": versions(),
    }
