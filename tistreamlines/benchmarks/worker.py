"""The process of one run: ``python -m tistreamlines.benchmarks.worker REQUEST.json``, or ARCH to measure its limits.

The run writes ``run.json`` into the folder of its request, and the streamlines of the first repeat as
``tracked-0.npz``. Repeats of peers use other RNG seeds, so their second repeat is kept too, as ``tracked-1.npz``.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

from ..aliases import Json
from ..devices import ARCHS, ON_HOST, choose, free_memory, name_of
from ..devices.host import peak_bytes
from ..io.writer import TractogramWriter
from ..space.batch import Batch, Space
from .cases import METHODS
from .measures import summary
from .problem import Problem
from .targets import TARGETS, devices_of
from .tracked import Track, Tracked

SHORT = 2.0  # seconds


@dataclass(frozen=True)
class Request:
    """The job of a run.

    Parameters
    ----------
    problem : str
        Folder of a problem.
    folder : str
        Folder for the results.
    target, method, nseeds, threads, chunk_size, devices
        See :mod:`.targets` and :mod:`.problem`.
    changes : dict
        Fields of the method to replace.
    repeat : int
        Number of timed repeats, fewer if they take longer than ``seconds`` in total, but at least two of a peer; 0 to
        time only ``counts``.
    counts : tuple of int
        Further numbers of seeds to time, in increasing order; with ``repeat`` 0, only within ``seconds``.
    """

    problem: str
    folder: str
    target: str
    method: str
    nseeds: int
    threads: int | None = None
    chunk_size: int | None = None
    devices: str | None = None
    changes: Json = field(default_factory=dict)
    repeat: int = 3
    seconds: float = 30.0
    counts: tuple[int, ...] = ()

    def save(self) -> Path:
        """Write the request into its folder; return the path."""
        path = Path(self.folder) / "request.json"
        path.write_text(json.dumps(asdict(self)))
        return path

    def load_problem(self) -> Problem:
        """Read the data of the problem now, so that reading is not timed."""
        method = replace(METHODS[self.method], **self.changes)
        problem = Problem(Path(self.problem), method, self.nseeds, self.threads, self.chunk_size, self.devices)
        problem.read()
        return problem


def write_seconds(tracked: Tracked, space: Space) -> float:
    """Return the seconds to write the streamlines as TRX, with zeros as data per streamline."""
    count = len(tracked.offsets) - 1
    batch = Batch(
        tracked.points, tracked.offsets, np.zeros((count, 3), np.float32), np.zeros(count, np.uint32),
        np.zeros(count, np.uint16), np.zeros((count, 2), np.uint8),
    )
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, TractogramWriter(Path(folder) / "out.trx", space) as writer:
        writer.write(batch)
    return time.perf_counter() - begun


def measured(request: Request) -> Json:
    """Track, and return the results of the run."""
    target, folder = TARGETS[request.target], Path(request.folder)
    problem = request.load_problem()
    devices = devices_of(target.name, problem) if target.name in ARCHS else []
    several = len(devices) > 1  # each has a process of its own, whose memory is not known here
    device = devices[0] if devices and not several and target.name not in ON_HOST else None
    free = free_memory(device) if device else None
    begun = time.perf_counter()
    track = target.open(problem)
    opened = time.perf_counter() - begun
    if target.warm_up:
        track(min(request.nseeds, target.warm_up))
    warmed = time.perf_counter() - begun - opened
    repeats = repeated(track, request, folder, 1 if target.kind == "arch" else 2)
    total = time.perf_counter() - begun
    inside = repeats[-1].compile or 0.0
    first = Tracked.load(folder / "tracked-0.npz")
    return summary(first, problem.space) | {
        "seconds": timed(repeats) | {
            "compile": inside + (warmed if target.warm_up else 0.0), "prepare": opened - inside, "total": total,
            "write": write_seconds(first, problem.space) if target.kind == "arch" and len(first.points) else None,
        },
        "sha256": hashlib.sha256(first.points.tobytes()).hexdigest() if target.kind == "arch" else "",
        "peak_host_bytes": None if several else peak_bytes(),
        "device_bytes": max(free - (free_memory(device) or free), 0) if device and free else None,
        "copied_bytes": repeats[-1].copied_bytes, "work": repeats[-1].work,
        "device": name_of(devices), "devices": len(devices) if several else None,
        "sweep": list(counted_seeds(track, request.counts)),
    }


def repeated(track: Track, request: Request, folder: Path, kept: int) -> list[Tracked]:
    """Track repeatedly, up to the requested number or time; save the points of the first ``kept`` repeats.

    Two repeats of a peer are saved for comparison, since they use other RNG seeds; those of an arch are identical.
    """
    repeats: list[Tracked] = []
    while len(repeats) < request.repeat and (len(repeats) < kept or sum(t.seconds for t in repeats) < request.seconds):
        keep = len(repeats) < kept
        tracked = track(request.nseeds, keep)
        if keep:
            tracked.save(folder / f"tracked-{len(repeats)}.npz")
        repeats.append(replace(tracked, points=tracked.points[:0]))
    return repeats


def swept(request: Request) -> Json:
    """Track increasing numbers of seeds, so that the peak memory so far is that of the last one."""
    problem, target = request.load_problem(), TARGETS[request.target]
    track = target.open(problem)
    track(min(request.counts[0], request.nseeds), False)
    begun, rows = time.perf_counter(), []
    for row in counted_seeds(track, request.counts):
        rows.append([*row, peak_bytes()])
        ahead = next((count for count in request.counts if count > row[0]), None)
        if ahead and time.perf_counter() - begun + row[1] * ahead / row[0] > request.seconds:
            break
    return {"sweep": rows}


def counted_seeds(track: Track, counts: Iterable[int]) -> Iterator[list[float]]:
    """Yield seeds, seconds and points for each number of seeds; short times are the median of three."""
    for count in counts:
        tracked = [track(count, False)]
        while len(tracked) < 3 and sum(t.seconds for t in tracked) < SHORT:
            tracked.append(track(count, False))
        yield [count, float(np.median([t.seconds for t in tracked])), int(tracked[0].offsets[-1])]


def timed(repeats: list[Tracked]) -> Json:
    """Return the median and range of the repeats, without the first of several, which has cold caches."""
    counted = repeats[1:] or repeats
    seconds = [tracked.seconds for tracked in counted]
    stages = {name: float(np.median([t.stages[name] for t in counted])) for name in counted[0].stages}
    return {
        "track": float(np.median(seconds)), "track_least": min(seconds), "track_greatest": max(seconds),
        "repeats": [tracked.seconds for tracked in repeats], "stages": stages,
    }


def main() -> int:
    if sys.argv[1] in ARCHS:
        from .limits import measure_limits

        print(json.dumps(measure_limits(choose(sys.argv[1]))))
        return 0
    request = Request(**json.loads(Path(sys.argv[1]).read_text()))
    results = measured(request) if request.repeat else swept(request)
    (Path(request.folder) / "run.json").write_text(json.dumps(results))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
