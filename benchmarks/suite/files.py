"""Whole commands from files to a tractogram, each in a process of its own, from the interpreter's start to its exit."""

from __future__ import annotations

import json
import math
import os
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from tistreamlines import __version__
from tistreamlines.aliases import Json
from tistreamlines.benchmarks.cases import COMMON, STOP, Case, TimedMethod
from tistreamlines.benchmarks.problem import series_of
from tistreamlines.benchmarks.suite import run_module
from tistreamlines.benchmarks.targets import Target
from tistreamlines.devices import NUMBERED, ON_HOST
from tistreamlines.option import flag
from tistreamlines.phantom.phantom import make_phantom, save_phantom

from .mrtrix import ALGORITHMS
from .schedule import FullSchedule

CACHES = {"XDG_CACHE_HOME": "xdg", "CUDA_CACHE_PATH": "cuda", "NUMBA_CACHE_DIR": "numba"}  # folders of compiled code


def files_to_file(schedule: FullSchedule, report: Callable[[str], object], keep: Callable[[Json], object]) -> None:
    """Time the command of each target.

    Parameters
    ----------
    schedule : FullSchedule
        ``whole`` are the kinds. A peer has no "cached" one, and its "cold" one is always kept, which tells it from the
        peers of results that were timed in their first process alone. ``repeat`` is the number of processes of each
        kind but "cold"; a peer has fewer if they take longer than ``seconds``.
    report : callable
        Called with a description of each target before it starts.
    keep : callable
        Called with each row of the results' ``files``, see ``__init__.py``.
    """
    for case in schedule.cases:
        with tempfile.TemporaryDirectory() as data:
            paths = _paths(case, Path(data))
            for method in schedule.methods:
                for target in schedule.targets:
                    if method.name in target.methods:
                        report(f"{case.name} {method.name}: {target.title}, from files to a tractogram")
                        with tempfile.TemporaryDirectory() as folder:
                            for row in _Command(schedule, method, target, paths, Path(folder)).rows():
                                keep({"case": case.name} | row)


def _paths(case: Case, folder: Path) -> list[str]:
    """Return the absolute paths of dwi, bvals, bvecs and mask; those that do not exist are written."""
    if case.phantom is not None:
        return [*map(str, save_phantom(make_phantom(**case.phantom), folder)), str(folder / "mask.nii.gz")]
    mask = case.mask
    if mask is None:
        import nibabel

        dwi, inside, _ = series_of(case)
        mask = str(folder / "mask.nii.gz")
        nibabel.save(nibabel.Nifti1Image(inside.astype("uint8"), dwi.space.affine), mask)
    return [str(Path(path).resolve()) for path in (*case.paths, mask)]


@dataclass(frozen=True)
class _Command:
    """The command of a target; ``folder`` is for its caches and outputs."""

    schedule: FullSchedule
    method: TimedMethod
    target: Target
    paths: list[str]
    folder: Path

    @property
    def out(self) -> Path:
        return self.folder / ("out.tck" if self.target.name in ALGORITHMS else "out.trx")

    def rows(self) -> Iterator[Json]:
        """Yield the row of each kind. A process with empty caches comes first, and one that fills the cache of fits."""
        if reason := self.target.missing():
            yield self._head("warm") | {"status": "missing", "reason": reason}
            return
        peer, kinds = self.target.kind == "peer", self.schedule.whole
        command, cached = self._peer() if peer else self._ours(), ["--cache-dir", str(self.folder / "cache")]
        first = self._row("cold", command)
        if peer or "cold" in kinds or first["status"] != "ok":
            yield first
        if "warm" in kinds and first["status"] == "ok":
            yield self._row("warm", command)
        if "cached" in kinds and first["status"] == "ok" and not peer:
            self._once([*command, *cached])
            yield self._row("cached", [*command, *cached])

    def _ours(self) -> list[str]:
        method, schedule = self.method, self.schedule
        options = {
            "mask": self.paths[3], "dg": method.dg, "like": "dipy", "model": method.model, "sh_order": method.order,
            "max_angle": method.max_angle, "max_steps": method.max_steps, "step_size": "0.5vox", "fa_threshold": STOP,
            "nseeds": schedule.nseeds, "arch": self.target.name, "output": self.out,
            "json_stats": self.folder / "stats.json", **COMMON, **method.options,
        }
        if schedule.threads and self.target.name in ON_HOST:
            options["threads"] = schedule.threads
        if schedule.devices and self.target.name in NUMBERED:
            options["devices"] = schedule.devices
        words = [str(word) for name, value in options.items() for word in (flag(name), value)]
        return ["tistreamlines", "track", *self.paths[:3], *words, "--force", "--quiet"]

    def _peer(self) -> list[str]:
        job = {
            "target": self.target.name, "method": self.method.name, "nseeds": self.schedule.nseeds,
            "threads": self.schedule.threads, "paths": self.paths, "out": str(self.out),
            "stats": str(self.folder / "stats.json"),
        }
        (self.folder / "job.json").write_text(json.dumps(job))
        return ["suite.peer_files", str(self.folder / "job.json")]

    def _head(self, kind: str) -> Json:
        arch = self.target.name if self.target.kind == "arch" else ""
        return {
            "dg": self.method.dg, "model": self.method.model, "target": self.target.name, "arch": arch, "kind": kind,
            "nseeds": self.schedule.nseeds, "threads": self.schedule.threads, "status": "ok", "reason": "",
        }

    def _row(self, kind: str, module: list[str]) -> Json:
        """Run a command repeatedly; the stages are those of the process of median duration."""
        processes: list[Json] = []
        limit = 1 if kind == "cold" else self.schedule.repeat
        # a slow peer is not repeated
        seconds = self.schedule.seconds if self.target.kind == "peer" else math.inf
        while len(processes) < limit and sum(process["seconds"] for process in processes) < seconds:
            processes.append(self._once(module))
            if processes[-1]["status"] != "ok":
                return self._head(kind) | processes[-1]
        middle = sorted(processes, key=lambda process: process["seconds"])[(len(processes) - 1) // 2]
        streamlines, points = counted(self.out)
        return self._head(kind) | middle | {
            "repeats": [process["seconds"] for process in processes], "streamlines": streamlines, "points": points,
            "version": _version(self.target),
        }

    def _once(self, module: list[str]) -> Json:
        self.out.unlink(missing_ok=True)
        caches = {name: str(self.folder / folder) for name, folder in CACHES.items()}
        begun = time.perf_counter()
        status, reason = run_module(module, self.schedule.time_limit, os.environ | caches)
        seconds = time.perf_counter() - begun
        row: Json = {"status": status, "reason": reason, "seconds": round(seconds, 3)}
        if status == "ok":
            stats = json.loads((self.folder / "stats.json").read_text())
            stages = {name: took for name, took in stats["seconds"].items() if name not in ("kernels", "total")}
            row |= {"device": stats.get("device", ""), "stages": stages}
            stages["start and exit"] = round(max(seconds - sum(stages.values()), 0.0), 3)
        return row


def counted(path: Path) -> tuple[int, int]:
    """Return the numbers of streamlines and points of a tractogram."""
    if path.suffix == ".trx":
        with zipfile.ZipFile(path) as stored:
            header = json.loads(stored.read("header.json"))
        return int(header["NB_STREAMLINES"]), int(header["NB_VERTICES"])
    import nibabel

    lines = nibabel.streamlines.load(path).streamlines
    return len(lines), len(lines.get_data())


def _version(target: Target) -> str:
    if target.name in ALGORITHMS:
        return subprocess.check_output(["tckgen", "-version"], text=True).split()[2]
    return __version__ if target.kind == "arch" else version(target.name.partition("-")[0])
