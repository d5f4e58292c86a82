"""Runs a schedule, one process after another, and collects the results (for the schema see ``__init__.py``)."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import numpy as np

from ..aliases import Json
from ..devices import ARCHS, ON_HOST
from ..phantom.phantom import Phantom
from ..space.batch import Space
from . import SCHEMA, measures
from .cases import SWEEPS, Case, TimedMethod
from .files import files_to_file
from .limits import shares
from .machine import commit, machine
from .problem import Problem
from .runs import device_limits, run_process
from .schedule import Folders, Schedule
from .sweeping import sweep_record, swept
from .targets import Target
from .tracked import Tracked
from .worker import Request

DIPY = "dipy"
SHARES = (0.125, 0.25, 0.5)  # fractions of the seeds that are also timed


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
    results: Json = {
        "schema": SCHEMA, "created": datetime.now(timezone.utc).isoformat(timespec="seconds"), "command": command,
        "commit": commit(), "machine": machine(), "limits": {}, "runs": [], "sweeps": [], "densities": {},
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
            for method in schedule.methods:
                comparison = _Comparison(schedule, case, method, folders, results)
                comparison.run(report)
                keep(results)
                results["sweeps"] += comparison.sweeps
                for sweep in schedule.sweeps:
                    for target in comparison.ran:
                        if sweep.name not in target.varies:
                            continue
                        report(f"{comparison.name}: {target.title}, {sweep.name}")
                        results["sweeps"] += swept(sweep, method, target, folders, schedule)
                        keep(results)
    return results


class _Comparison:
    """All targets on one case with one method.

    ``ran`` are the targets that ran, even if they were too slow; ``sweeps`` the times for fewer seeds.
    """

    def __init__(self, schedule: Schedule, case: Case, method: TimedMethod, folders: Folders, results: Json) -> None:
        self.schedule, self.case, self.method, self.results = schedule, case, method, results
        self.name = f"{case.name} {method.name}"
        self.folder, self.phantom = folders.at(1.0)
        self.problem = Problem(self.folder, method, schedule.nseeds)
        self.ran: list[Target] = []
        self.sweeps: list[Json] = []

    def run(self, report: Callable[[str], object]) -> None:
        """Run each target in a process, compare their streamlines, and add both to the results."""
        runs, tracked = [], {}
        with tempfile.TemporaryDirectory() as folder:
            for target in self.schedule.targets:
                if self.method.name not in target.methods:
                    continue
                report(f"{self.name}: {target.title}")
                (Path(folder) / target.name).mkdir()
                row = self._run_target(target, Path(folder) / target.name)
                runs.append(row)
                if row["status"] in ("ok", "timeout"):
                    self.ran.append(target)
            for row in runs:  # not while others are timed
                if row["status"] == "ok":
                    paths = sorted((Path(folder) / row["target"]).glob("tracked-*.npz"))
                    tracked[row["target"]] = list(map(Tracked.load, paths))
            self._compare(runs, tracked)
        self.results["runs"] += runs

    def _run_target(self, target: Target, folder: Path) -> Json:
        """Return the row of a target, and record its times for fewer seeds as a sweep."""
        schedule = self.schedule
        row: Json = {
            "case": self.case.name, "dg": self.method.dg, "model": self.method.model, "target": target.name,
            "kind": target.kind, "nseeds": schedule.nseeds, "chunk_size": None,
            "threads": None if target.name in {*ARCHS} - {*ON_HOST} else schedule.threads,
            "exact": True if target.kind == "arch" else None, "status": "missing", "reason": target.missing(),
            "seconds": None, "density_correlation": {}, "length_ks": {}, "identical": {}, "truth": None,
            "limit_share": None,
        }
        if row["reason"]:
            return row
        shares_of_seeds = () if SWEEPS["seeds"] in schedule.sweeps else SHARES
        counts = tuple(int(share * schedule.nseeds) for share in shares_of_seeds if share * schedule.nseeds >= 100)
        request = Request(
            str(self.folder), str(folder), target.name, self.method.name, schedule.nseeds, schedule.threads,
            devices=schedule.devices, repeat=schedule.repeat, seconds=schedule.seconds, counts=counts,
        )
        row["status"], row["reason"] = run_process(request, schedule.time_limit)
        if row["status"] != "ok":
            return row
        measured = json.loads((folder / "run.json").read_text())
        row |= {name: value for name, value in measured.items() if name not in ("sweep", "work")}
        seconds = max(row["seconds"]["track"], 1e-9)
        row["points_per_second"] = row["points"] / seconds
        row["streamlines_per_second"] = row["streamlines"] / seconds
        row["limit_share"] = shares(row, self.results["limits"].get(target.name), *(measured["work"] or (None, None)))
        if measured["sweep"]:
            # without memory, which is known only for the whole run
            rows = [*measured["sweep"], [schedule.nseeds, row["seconds"]["track"], row["points"]]]
            self.sweeps.append(sweep_record(SWEEPS["seeds"], self.case, self.method, target, rows))
        return row

    def _compare(self, runs: list[Json], tracked: dict[str, list[Tracked]]) -> None:
        """Compare each run with DIPY, each arch with the first one, and phantoms with the truth; collect plot data."""
        seen: dict[str, _Seen] = {}
        for row in runs:
            name = row["target"]
            if name in tracked:
                # runs with the same bits share all measures
                bits = row["sha256"]
                alike = next((o["target"] for o in runs if bits and o["target"] in seen and o["sha256"] == bits), None)
                seen[name] = seen[alike] if alike else _Seen.of(tracked[name], self.problem.space, self.phantom)
        archs = [name for name in tracked if name in ARCHS]
        for row in runs:
            name = row["target"]
            if name not in seen:
                continue
            if DIPY in seen:
                # DIPY is compared with itself with another RNG seed
                self._agreement(row, seen[name], seen[DIPY], 1 if name == DIPY else 0)
            if name in archs and name != archs[0]:
                alike = seen[name] is seen[archs[0]]
                share = 1.0 if alike else measures.identical(tracked[name][0], tracked[archs[0]][0])
                row["identical"][archs[0]] = share
            row["truth"] = seen[name].truth
        # maxima along the second axis, with rows from the top of the third axis
        projections = {name: maps.maps[0].max(axis=1).T[::-1].tolist() for name, maps in seen.items()}
        self.results["densities"][self.name] = projections
        self.results["lengths"][self.name] = _histograms({name: lengths.mm[0] for name, lengths in seen.items()})

    def _agreement(self, row: Json, seen: _Seen, other: _Seen, which: int) -> None:
        if which >= len(other.maps):
            return
        density = measures.correlation(seen.maps[0], other.maps[which], self.problem.mask)
        lengths = measures.length_ks(seen.mm[0], other.mm[which])
        for figure, value in (("density_correlation", density), ("length_ks", lengths)):
            if np.isfinite(value):  # JSON has no NaN
                row[figure][DIPY] = round(value, 4)


@dataclass(frozen=True)
class _Seen:
    """Density maps and lengths (mm) of the first repeats of a run, and the truth measures of the first."""

    maps: list[np.ndarray]
    mm: list[np.ndarray]
    truth: Json | None

    @classmethod
    def of(cls, tracked: list[Tracked], space: Space, phantom: Phantom | None) -> _Seen:
        return cls(
            [measures.density(t, space) for t in tracked], [measures.lengths_mm(t) for t in tracked],
            measures.truth(phantom, tracked[0]) if phantom is not None else None,
        )


def _histograms(mm: dict[str, np.ndarray]) -> Json:
    """Return histograms of lengths, mm, with common bin edges."""
    longest = max((float(lengths.max()) for lengths in mm.values() if len(lengths)), default=1.0)
    edges = np.linspace(0, longest, measures.BINS + 1)
    counts = {name: np.histogram(lengths, edges)[0].tolist() for name, lengths in mm.items()}
    return {"edges_mm": edges.round(3).tolist()} | counts
