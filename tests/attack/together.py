"""Several runs at once, on caches that are empty and in one process."""

from __future__ import annotations

import random
import re
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor

from .material import track
from .room import COMPILING, FAILED, Room

BUSY = "another run is writing it"
MODULES = ("unpack", "place_seed")


def processes(rng: random.Random, room: Room) -> list[str]:
    """Start several processes that find the same kernels missing, or all of them, and the same tables."""
    cache, count = room.copy("cache"), rng.randint(2, 3)
    missing = rng.choice((*MODULES * 2, "all"))
    if missing == "all":
        shutil.rmtree(cache)
    else:
        stems = {re.split("[.-]", path.name)[0] for path in cache.rglob(f"*{missing}*")}
        for path in [path for stem in stems for path in cache.rglob(f"{stem}*")]:
            path.unlink()
    same = rng.choice((True, False))  # whether they write one output
    room.did.append(f"{count} processes, kernels missing: {missing}, {'one output' if same else 'an output each'}")
    names = ["a.trx" if same else f"{number}.trx" for number in range(count)]
    kept = ("--cache-dir", "../tables", "--force")
    started = [room.start([*track("det", f"../out/{name}"), *kept], limit=COMPILING) for name in names]
    faults, ended = [], [(room.finish(process), name) for process, name in zip(started, names, strict=True)]
    for process, name in ended:
        process.changed.clear()  # by the others too, which go on
        # of several that would write one output at once, some may be refused, but not all
        faults += room.faults(process, "det", codes=(0, FAILED) if same and BUSY in process.err else (0,), name=name)
    if all(process.code for process, _ in ended):
        faults.append("all of them were refused")
    left = [path for part in ("out", "tmp", "tables") for path in (room.folder / part).glob(".*")]
    return faults + [f"left {path.parent.name}/{path.name}" for path in left]


def threads(rng: random.Random, room: Room) -> list[str]:
    """Track first in several threads of one process."""
    runs = rng.choices(rng.choice((("det",), ("boot",), ("det", "boot"))), k=rng.randint(2, 5))
    room.did.append(f"threads: {', '.join(runs)}")
    outcome = room.run(lambda: _at_once(runs), limit=COMPILING)
    outcome.changed.clear()  # what the others made stays
    faults = []
    for number, run in enumerate(runs):
        faults += room.faults(outcome, run, codes=(0,), name=f"{number}.trx")
    return faults


def _at_once(runs: list[str]) -> None:
    """Begin all runs at one moment, each in a thread; raise the first error, if there is one."""
    gate = threading.Barrier(len(runs))

    def work(number: int) -> None:
        gate.wait()
        _track(runs[number], f"../out/{number}.trx")

    with ThreadPoolExecutor(len(runs)) as pool:
        list(pool.map(work, range(len(runs))))


def _track(run: str, output: str) -> None:
    from tistreamlines import track as tracked

    if run == "boot":
        tracked("dwi.nii.gz", "dwi.bval", "dwi.bvec", output, mask="mask.nii.gz", nseeds=40, arch="cpu")
        return
    files = {"peaks": "peaks.nii.gz", "stop_map": "stop.nii.gz", "seeds": "seeds.npy"}
    tracked(output=output, dg="det", peaks_frame="voxel", arch="cpu", **files)
