"""The process of one run: ``python -m tistreamlines.benchmarks.worker REQUEST.json``.

The run writes ``run.json`` into the folder of its request, and the streamlines of the first repeat as
``tracked-0.npz``. Repeats of peers use other RNG seeds, so their second repeat is kept too, as ``tracked-1.npz``.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from ..aliases import Json
from ..devices import ARCHS, ON_HOST, free_memory, name_of
from ..devices.host import peak_bytes
from .cases import METHODS
from .problem import Problem
from .streamlines import RunStreamlines, Track, summary
from .targets import TARGETS, Target, devices_of


@dataclass(frozen=True)
class Request:
    """The job of a run.

    Parameters
    ----------
    problem : str
        Folder of a problem.
    folder : str
        Folder for the results.
    target, method, nseeds, threads, devices
        See :mod:`.targets` and :mod:`.problem`.
    repeat : int
        Number of timed repeats, fewer if they take longer than ``seconds`` in total, but at least two of a peer.
    """

    problem: str
    folder: str
    target: str
    method: str
    nseeds: int
    threads: int | None = None
    devices: str | None = None
    repeat: int = 3
    seconds: float = 30.0

    def save(self) -> Path:
        """Write the request into its folder; return the path."""
        path = Path(self.folder) / "request.json"
        path.write_text(json.dumps(asdict(self)))
        return path

    def load_problem(self) -> Problem:
        """Read the data of the problem now, so that reading is not timed."""
        method = METHODS[self.method]
        problem = Problem(Path(self.problem), method, self.nseeds, self.threads, devices=self.devices)
        problem.read()
        return problem


def measure_target(request: Request, target: Target) -> Json:
    """Track, and return the results of the run."""
    folder = Path(request.folder)
    problem = request.load_problem()
    devices = devices_of(target.name, problem) if target.name in ARCHS else []
    several = len(devices) > 1  # each has a separate process, whose memory is not known here
    device = devices[0] if devices and not several and target.name not in ON_HOST else None
    free = free_memory(device) if device else None
    begun = time.perf_counter()
    track = target.open(problem)
    opened = time.perf_counter() - begun
    repeats = repeat_tracking(track, request, folder, 1 if target.kind == "arch" else 2)
    total = time.perf_counter() - begun
    inside = repeats[-1].compile or 0.0
    first = RunStreamlines.load(folder / "tracked-0.npz")
    return summary(first) | {
        "seconds": time_range(repeats) | {"compile": inside, "prepare": opened - inside, "total": total},
        "sha256": hashlib.sha256(first.points.tobytes()).hexdigest() if target.kind == "arch" else "",
        "peak_host_bytes": None if several else peak_bytes(),
        "device_bytes": max(free - (free_memory(device) or free), 0) if device and free else None,
        "copied_bytes": repeats[-1].copied_bytes, "work": repeats[-1].work,
        "device": name_of(devices), "devices": len(devices) if several else None,
    }


def repeat_tracking(track: Track, request: Request, folder: Path, kept: int) -> list[RunStreamlines]:
    """Track repeatedly, up to the requested number or time; save the points of the first ``kept`` repeats.

    Two repeats of a peer are saved for comparison, since they use other RNG seeds; those of an arch are identical.
    """
    repeats: list[RunStreamlines] = []
    while len(repeats) < request.repeat and (len(repeats) < kept or sum(t.seconds for t in repeats) < request.seconds):
        keep = len(repeats) < kept
        tracked = track(request.nseeds, keep)
        if keep:
            tracked.save(folder / f"tracked-{len(repeats)}.npz")
        repeats.append(replace(tracked, points=tracked.points[:0]))
    return repeats


def time_range(repeats: list[RunStreamlines]) -> Json:
    """Return the median and range of the repeats, without the first of several, which has cold caches."""
    counted = repeats[1:] or repeats
    seconds = [tracked.seconds for tracked in counted]
    stages = {name: float(np.median([t.stages[name] for t in counted])) for name in counted[0].stages}
    return {
        "track": float(np.median(seconds)), "track_least": min(seconds), "track_greatest": max(seconds),
        "repeats": [tracked.seconds for tracked in repeats], "stages": stages,
    }


def main() -> None:
    request = Request(**json.loads(Path(sys.argv[1]).read_text()))
    results = measure_target(request, TARGETS[request.target])
    (Path(request.folder) / "run.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main()
