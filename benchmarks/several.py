"""Measure how much faster several devices track than one, and compare their streamlines.

    python benchmarks/several.py DATA [--archs cuda,vulkan] [--dgs boot,prob] [--devices 0,1] [--ways process,workers]
        [--nseeds N] [--out FILE]

DATA is a folder with dwi.nii.gz, dwi.bval, dwi.bvec and mask.nii.gz. Time is that of tracking, from the first seed to
the last point on the host; no file is written, and processes are started and kernels compiled before. Each way is timed
--turns times, after a turn that is not counted; the median is given. Of the --ways, "process" is the first device in
the process of the run, "worker" the same in a process of its own, "workers" all devices. The hashes, of the points and
offsets of --hash-seeds and --cpu-seeds seeds, are computed in passes that are not timed. A device may be named twice,
so that the script can be tried with a single one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from problems import problems_of
from records import write_record

from tistreamlines.benchmarks.cases import METHODS
from tistreamlines.benchmarks.problem import Problem
from tistreamlines.benchmarks.targets import tables_for
from tistreamlines.devices import Device, choose, choose_several, numbered_devices
from tistreamlines.space.batch import Batch
from tistreamlines.tracking.growth.settings import Settings
from tistreamlines.workers.session import Session

Track = Callable[..., Iterator[Batch]]


def named(arch: str, text: str) -> list[Device]:
    """Return the devices with these numbers, of which one may be given twice."""
    if text == "all":
        return choose_several(arch, text)
    known = {str(device.index): device for device in numbered_devices(arch)}
    return [known[number] for number in text.split(",")]


@contextmanager
def tracking(problem: Problem, tables: Any, devices: list[Device], own_process: bool) -> Iterator[Track]:
    """Return the function that tracks on some devices, in processes of their own or here."""
    settings = Settings(problem.step_mm, max_steps=problem.method.max_steps)
    with Session(devices, lambda text: sys.stderr.write(f"{text}\n"), own_process=own_process) as session:
        yield session.open(tables, problem.space, settings).track


def digest(batches: Iterator[Batch]) -> str:
    """Return the hash of the points and of the offsets among them."""
    points, offsets, first = hashlib.sha256(), hashlib.sha256(), 0
    for batch in batches:
        points.update(batch.points.data)
        offsets.update((batch.offsets[1:] + first).data)
        first += len(batch.points)
    return hashlib.sha256(points.digest() + offsets.digest()).hexdigest()


def timed(track: Track, seeds: np.ndarray, turns: int) -> dict[str, Any]:
    """Track several times; return the median of the seconds and the rates."""
    seconds = []
    for _ in range(turns + 1):
        begun, count, points = time.perf_counter(), 0, 0
        for batch in track(seeds):
            count, points = count + len(batch), points + len(batch.points)
        seconds.append(time.perf_counter() - begun)
    median = float(np.median(seconds[1:]))
    return {
        "seconds": round(median, 4), "all_seconds": [round(each, 4) for each in seconds[1:]], "streamlines": count,
        "points": points, "seeds_per_second": round(len(seeds) / median),
        "points_gb_per_second": round(12e-9 * points / median, 3),
    }


def rows(problem: Problem, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Measure a getter on each arch, on one device and on all, and compare hashes with the CPU's."""
    tables, dg = tables_for(problem), problem.method.dg
    for arch in options.archs.split(","):
        devices, first = named(arch, options.devices), 0.0
        ways = {"process": (devices[:1], False), "worker": (devices[:1], True), "workers": (devices, True)}
        for way in options.ways.split(","):
            devices, own_process = ways[way]
            with tracking(problem, tables, devices, own_process) as track:
                row = timed(track, problem.seeds, options.turns)
                first = first or row["seconds"]
                hashes = {n: digest(track(problem.seeds[:n])) for n in (options.hash_seeds, options.cpu_seeds)}
            yield {
                "dg": dg, "arch": arch, "way": way, "devices": [device.name for device in devices], **row,
                "ratio": round(first / row["seconds"], 3), "sha256": hashes,
            }
    with tracking(problem, tables, [choose("cpu")], False) as track:
        seeds = problem.seeds[: options.cpu_seeds]
        yield {"dg": dg, "arch": "cpu", "way": "process", "sha256": {len(seeds): digest(track(seeds))}}


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--archs", default="cuda,vulkan")
    parser.add_argument("--dgs", default="boot,prob")
    parser.add_argument("--devices", default="all")
    parser.add_argument("--ways", default="process,worker,workers")
    parser.add_argument("--nseeds", type=int, default=4_000_000)
    parser.add_argument("--hash-seeds", type=int, default=1_000_000)
    parser.add_argument("--cpu-seeds", type=int, default=20_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    table: list[dict[str, Any]] = []
    with problems_of(options.data) as problem_of:
        for dg in options.dgs.split(","):
            for row in rows(problem_of(METHODS[dg], options.nseeds), options):
                table.append(row)
                sys.stdout.write(f"{json.dumps(row)}\n")
                sys.stdout.flush()
    same = {(row["dg"], n): set() for row in table for n in row["sha256"]}
    for row in table:
        for n, value in row["sha256"].items():
            same[row["dg"], n].add(value)
    equal = all(len(values) == 1 for values in same.values())
    sys.stdout.write(f"{'All hashes agree' if equal else 'HASHES DIFFER'}\n")
    if options.out is not None:
        write_record(options.out, nseeds=options.nseeds, equal=equal, rows=table)


if __name__ == "__main__":
    main()
