"""The process of a run of the suite: ``python -m suite.worker REQUEST.json``, or ARCH to measure its limits."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from tistreamlines.aliases import Json
from tistreamlines.benchmarks.cases import METHODS
from tistreamlines.benchmarks.problem import Problem
from tistreamlines.benchmarks.streamlines import RunStreamlines, Track
from tistreamlines.benchmarks.worker import Request, measure_target
from tistreamlines.devices import ARCHS, choose
from tistreamlines.devices.host import peak_bytes
from tistreamlines.io.writer import TractogramWriter
from tistreamlines.space.batch import Batch

from .targets import TARGETS

SHORT = 2.0  # seconds


@dataclass(frozen=True)
class SweepRequest(Request):
    """The job of a run of a sweep.

    Parameters
    ----------
    counts : tuple of int
        Numbers of seeds to time, in increasing order, as long as they end within ``seconds``.
    chunk_size : int, optional
        Seeds per chunk.
    changes : dict
        Fields of the method to replace.
    """

    counts: tuple[int, ...] = ()
    chunk_size: int | None = None
    changes: Json = field(default_factory=dict)

    def load_problem(self) -> Problem:
        """Read the data of the problem now, so that reading is not timed."""
        method = replace(METHODS[self.method], **self.changes)
        problem = Problem(Path(self.problem), method, self.nseeds, self.threads, self.chunk_size, self.devices)
        problem.read()
        return problem


def write_seconds(request: Request) -> float:
    """Return the seconds to write the streamlines of a run as TRX, with zeros as data per streamline."""
    tracked, space = RunStreamlines.load(Path(request.folder) / "tracked-0.npz"), request.load_problem().space
    count = len(tracked.offsets) - 1
    batch = Batch(
        tracked.points, tracked.offsets, np.zeros((count, 3), np.float32), np.zeros(count, np.uint32),
        np.zeros(count, np.uint16), np.zeros((count, 2), np.uint8),
    )
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, TractogramWriter(Path(folder) / "out.trx", space) as writer:
        writer.write(batch)
    return time.perf_counter() - begun


def swept(request: SweepRequest) -> Json:
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


def main() -> None:
    if sys.argv[1] in ARCHS:
        from .limits import measure_limits

        print(json.dumps(measure_limits(choose(sys.argv[1]))))
        return
    fields = json.loads(Path(sys.argv[1]).read_text())
    if "counts" in fields:
        results = swept(SweepRequest(**fields))
    else:
        request, target = Request(**fields), TARGETS[fields["target"]]
        results = measure_target(request, target)
        if target.kind == "arch" and results["points"]:
            results["seconds"]["write"] = write_seconds(request)
    (Path(fields["folder"]) / "run.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main()
