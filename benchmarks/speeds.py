"""All figures of speed that the project aims at, in one call: GPUs, short and long streamlines, and cores.

    python benchmarks/speeds.py DATA [--only gpu,steps,cores] [--archs cuda,vulkan] [--dgs prob,boot,ptt] [--nseeds N]
        [--peers FOLDER] [--out FILE]

DATA is a folder with dwi.nii.gz, dwi.bval, dwi.bvec and mask.nii.gz; the phantom, seeds and options are those of
``archs.py``. ``gpu`` tracks a million seeds of each getter, and 100,000 of prob; ``steps`` tracks prob with several
greatest numbers of steps; ``cores`` tracks with more and more threads, each of which has a core of its own (``--dgs``
says which getters do). Beside them are as many processes of one thread, which share nothing but the processor, and as
many loops of sums and products, which share no caches either: what these reach together is what hyperthreads and clocks
leave.
A table is printed, in which each figure stands beside its aim, where it has one; each is the best of five runs. One
thread and all of them take turns, and the median of the turns says how many times as fast all are: on a computer that
others use too, the best moment of one core says little about all of them.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import archs
import numpy as np
from records import write_record

from tistreamlines.benchmarks.problem import seeds_in
from tistreamlines.devices import choose, usable_cores
from tistreamlines.tracking.engine.engine import Engine
from tistreamlines.tracking.growth.settings import Settings

Row = dict[str, Any]
STEPS = (5, 10, 25, 50, 100, 250, 500)  # of a half, so streamlines have up to twice as many
RUNS = 5  # of which the fastest one counts
TURNS = 3  # of one thread and all
CASES = (("prob", "sh", 20.0), ("det", "sh", 20.0), ("boot", "pmf", 60.0), ("ptt", "pmf", 60.0))
# for each thread, if there are so many; with prob, sixteen threads track a million
CORE_SEEDS = {"prob": 62_500, "boot": 4_096, "ptt": 2_000}
# million points a second of an H200 with a million seeds, by getter: phantom, brain
AIMS = {"prob": (400, 300), "boot": (215, 200), "ptt": (200, 200)}
CORES_AIM = 13  # times one core, on sixteen


class Data:
    """A data set, and the tables that have been made of it."""

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        self.signals, self.gtab, self.fa, white, self.space = archs.load(name, options.peers)
        self.name, self.seeds = Path(name).name, seeds_in(white, options.nseeds)
        self._made: dict[str, Any] = {}

    def prepared(self, case: tuple[str, str, float]) -> Any:
        """Return the tables of a getter."""
        dg, rows, angle = case
        if dg not in self._made:
            asked = argparse.Namespace(dg=dg, model="opdt", rows=rows, max_angle=angle)
            self._made[dg] = archs.prepare(asked, self.signals, self.gtab, self.fa, self.seeds, self.space)
        return self._made[dg]

    def engine(self, case: tuple[str, str, float], arch: str, **settings: Any) -> Engine:
        """Return an engine of a getter."""
        step = 0.5 * float(self.space.voxel_sizes.min())
        return Engine(self.prepared(case), self.space, choose(arch), Settings(step_mm=step, **settings))


def tracked(engine: Engine, seeds: np.ndarray, runs: int = RUNS) -> Row:
    """Track some times; return the fastest run."""
    rows = []
    for _ in range(runs):
        engine.statistics.seconds.update(dict.fromkeys(engine.statistics.seconds, 0.0))
        begun, points, streamlines = time.perf_counter(), 0, 0
        for batch in engine.track(seeds):
            points, streamlines = points + len(batch.points), streamlines + len(batch)
        seconds = time.perf_counter() - begun
        stages = {name: round(engine.statistics.seconds[name], 4) for name in ("start", "grow", "pack", "unpack")}
        rows.append(
            {
                "seeds": len(seeds), "streamlines": streamlines, "points": points, "seconds": round(seconds, 4),
                "mpoints_per_second": round(points / seconds / 1e6, 2),
                "mstreamlines_per_second": round(streamlines / seconds / 1e6, 3), "stages": stages,
            }
        )
    return min(rows, key=lambda row: row["seconds"])


def elsewhere(rows: Callable[[], Iterable[Row]], count: int | None = None) -> Iterator[Row]:
    """Yield the rows of a process of its own, which may use so many cores."""
    ours, theirs = multiprocessing.Pipe(duplex=False)

    def send() -> None:
        if count is not None:
            bind(range(count))
        for row in rows():
            theirs.send(row)
        theirs.send(None)

    process = multiprocessing.get_context("fork").Process(target=send)
    process.start()
    theirs.close()
    while (row := ours.recv()) is not None:  # EOFError if the process has ended before
        yield row
    process.join()


def gpu(data: list[Data], options: argparse.Namespace) -> Iterator[Row]:
    """Track all seeds of each getter and data set on each arch, and a tenth of prob's.

    Each arch has a process of its own, since what one leaves in memory slows down the next one.
    """
    for arch in options.archs.split(","):
        yield from elsewhere(partial(gpu_rows, data, arch))


def gpu_rows(data: list[Data], arch: str) -> Iterator[Row]:
    """Yield the rows of an arch."""
    for place, image in enumerate(data):
        for case in CASES:
            engine = image.engine(case, arch)
            aim = AIMS.get(case[0], (None, None))[place]
            yield {"arch": arch, "data": image.name, "dg": case[0], "aim": aim, **tracked(engine, image.seeds)}
            if case[0] == "prob":
                few = image.seeds[: len(image.seeds) // 10]
                yield {"arch": arch, "data": image.name, "dg": case[0], **tracked(engine, few)}
            del engine


def steps(data: list[Data], options: argparse.Namespace) -> Iterator[Row]:
    """Track prob with several greatest numbers of steps."""
    for arch in options.archs.split(","):
        for image in data:
            for most in STEPS:
                row = tracked(image.engine(CASES[0], arch, max_steps=most), image.seeds)
                yield {"arch": arch, "data": image.name, "dg": "prob", "max_steps": most, **row}


def cores(data: list[Data], options: argparse.Namespace) -> Iterator[Row]:
    """Track with more and more threads, each of which has a core, and in as many processes; see also ``arithmetic``."""
    most = usable_cores()
    yield {"arch": "cpu", "dg": "arithmetic", "processes": most, "times_one": arithmetic(most)}
    for case in [case for case in CASES if case[0] in CORE_SEEDS and case[0] in options.dgs.split(",")]:
        largest = data[-1]
        each = min(CORE_SEEDS[case[0]], len(largest.seeds) // most)
        largest.prepared(case)
        named = {"arch": "cpu", "data": largest.name, "dg": case[0]}
        turns = [{count: in_threads(largest, case, each, count) for count in (1, most)} for _ in range(TURNS)]
        turns[0] |= {count: in_threads(largest, case, each, count) for count in (2, 4, 8, 16, 32, 64) if count < most}
        for count in sorted(turns[0]):
            rows = [(turn[count], turn[1]) for turn in turns if count in turn]
            times = [row["mpoints_per_second"] / alone["mpoints_per_second"] for row, alone in rows]
            yield {
                **named, **max((row for row, _ in rows), key=lambda row: row["mpoints_per_second"]), "threads": count,
                "times_one": round(median(times), 2), "times_one_by_turn": [round(ratio, 2) for ratio in times],
                "aim_times_one": CORES_AIM if count == 16 else None,
            }
        seconds, points = apart(largest, case, each, most)
        speed, alone = points / seconds / 1e6, max(turn[1]["mpoints_per_second"] for turn in turns)
        yield {
            **named, "processes": most, "points": points, "seconds": seconds, "mpoints_per_second": round(speed, 2),
            "times_one": round(speed / alone, 2),
        }


def in_threads(data: Data, case: tuple[str, str, float], each: int, count: int) -> Row:
    """Return the row of so many threads with so many seeds each, in a process that has as many cores."""

    def rows() -> Iterator[Row]:
        yield tracked(data.engine(case, "cpu", threads=count), data.seeds[: each * count])

    (row,) = elsewhere(rows, count)
    return row


def arithmetic(count: int) -> float:
    """Return how many times as many sums and products as one core so many compute, of numbers in their caches."""
    from numba import njit

    @njit
    def compute(values: np.ndarray, times: int) -> None:
        for _ in range(times):
            for place in range(len(values)):
                values[place] = values[place] * np.float32(0.5) + np.float32(0.5)

    def work(core: int, ready: Callable[[], Any]) -> float:
        bind([core])
        values, turns = np.ones(512, np.float32), 0
        ready()
        begun = time.perf_counter()
        while (seconds := time.perf_counter() - begun) < 0.5:
            compute(values, 10_000)
            turns += 1
        return turns / seconds

    compute(np.ones(512, np.float32), 1)
    speeds = [[sum(together(cores, work)) for cores in (1, count)] for _ in range(RUNS)]
    return round(median(all_ / alone for alone, all_ in speeds), 2)


def together(count: int, work: Callable[[int, Callable[[], Any]], Any]) -> list[Any]:
    """Return what a function returns in so many processes, of their number and of what waits until all are ready."""
    context = multiprocessing.get_context("fork")
    ready, results = context.Barrier(count), context.Queue()

    def run(number: int) -> None:
        results.put(work(number, ready.wait))

    started = [context.Process(target=run, args=(number,)) for number in range(count)]
    for process in started:
        process.start()
    answers = [results.get() for _ in started]
    for process in started:
        process.join()
    return answers


def bind(cores: Iterable[int]) -> None:
    """Let this process use some of its cores, by their place among them."""
    if hasattr(os, "sched_setaffinity"):
        usable = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, [usable[core] for core in cores])


def apart(data: Data, case: tuple[str, str, float], each: int, count: int) -> tuple[float, int]:
    """Track in processes of one thread; return the seconds from the first start to the last end, and all points."""

    def work(number: int, ready: Callable[[], Any]) -> tuple[float, float, int]:
        engine, seeds = data.engine(case, "cpu", threads=1), data.seeds[each * number : each * (number + 1)]
        tracked(engine, seeds[:200], 1)
        ready()
        begun = time.time()
        points = tracked(engine, seeds, 1)["points"]
        return begun, time.time(), points

    answers = together(count, work)
    seconds = max(end for _, end, _ in answers) - min(begun for begun, *_ in answers)
    return round(seconds, 4), sum(row[2] for row in answers)


def line(row: Row) -> str:
    """Return a row of the table."""
    what = " ".join(f"{row[name]:,} {name.replace('_', ' ')}" for name in ("seeds", "max_steps", "threads", "processes")
                    if name in row)
    speed = f"{row['mpoints_per_second']:.1f} M points/s" if "points" in row else ""
    if "mstreamlines_per_second" in row:
        speed += f", {row['mstreamlines_per_second']:.2f} M streamlines/s"
    times = f"{row['times_one']} times one" if "times_one" in row else ""
    aim = row.get("aim") or row.get("aim_times_one") or ""
    return f"| {row['arch']} | {row.get('data', '')} | {row['dg']} | {what} | {speed} | {times} | {aim} |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--only", default="gpu,steps,cores")
    parser.add_argument("--archs", default="cuda,vulkan")
    parser.add_argument("--dgs", default="prob,boot,ptt")
    parser.add_argument("--nseeds", type=int, default=1_000_000)
    parser.add_argument("--peers", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "peers")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    data, rows = [Data(name, options) for name in ("phantom", options.data)], []
    print("| arch | data | getter | | speed | | aim |\n|---|---|---|---|---|---|---|")
    for name in options.only.split(","):
        for row in {"gpu": gpu, "steps": steps, "cores": cores}[name](data, options):
            rows.append({"part": name, **row})
            print(line(row), flush=True)
    if options.out:
        write_record(options.out, runs=rows)


if __name__ == "__main__":
    main()
