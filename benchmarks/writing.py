"""Measure how fast batches that are in memory are written, beside bare ways to write as many bytes.

    python benchmarks/writing.py FOLDER [--points 50000000] [--threads 1,2,4,8] [--turns 5] [--out FILE]

Files are written to FOLDER and removed. The bare ways write blocks of 12 MB to known places of one file, from several
threads: with pwrite; with pwrite by turns, behind a lock; and through mapped memory, whose space is taken before.
Seconds are the least of all turns; those of the processor count all threads, and the system's part.
"""

from __future__ import annotations

import argparse
import mmap
import os
import resource
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Lock

import numpy as np
from records import write_record

from tistreamlines.io.writer import WriterThread
from tistreamlines.space.batch import Batch, Space
from tistreamlines.tracking.products.points.compression import compress_batch

BLOCK = 12 << 20  # bytes
BATCHES, BATCH_POINTS, LONGEST = 8, 1 << 18, 124
KINDS: dict[str, dict[str, str]] = {".trx": {}, ".trx of float16": {"point_type": "float16"}, ".trk": {}, ".tck": {}}


def batches() -> list[Batch]:
    """Return batches of smooth streamlines."""
    rng, smooth = np.random.default_rng(0), []
    for _ in range(BATCHES):
        lengths = rng.integers(11, LONGEST, BATCH_POINTS // (LONGEST // 2))
        steps = np.cumsum(rng.normal(0, 0.1, (lengths.sum(), 3)), axis=0)
        points = np.cumsum(0.8 * steps / np.linalg.norm(steps, axis=1)[:, None], axis=0) % 200
        n, offsets = len(lengths), np.cumsum([0, *lengths])
        smooth.append(Batch(points, offsets, points[offsets[:-1]], np.arange(n), np.zeros(n), np.zeros((n, 2))))
    return smooth


def bare(way: str, threads: int, blocks: int, path: Path) -> None:
    """Write blocks in one of the ways."""
    values, lock = np.random.default_rng(0).random(BLOCK // 8), Lock()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)

    def write(number: int) -> None:
        if way == "mapped":
            os.posix_fallocate(descriptor, number * BLOCK, BLOCK)
            with mmap.mmap(descriptor, BLOCK, offset=number * BLOCK) as memory:
                memory[:] = values.view(np.uint8).data
        elif way == "by turns":
            with lock:
                os.pwrite(descriptor, values.data, number * BLOCK)
        else:
            os.pwrite(descriptor, values.data, number * BLOCK)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(write, range(blocks)))
    os.close(descriptor)


def written(
    ready: list[Batch], points: int, path: Path, content: Callable[[Batch], Batch] | None, details: dict[str, str]
) -> None:
    """Write so many points with the threads of the package."""
    with WriterThread(path, Space(np.eye(4), (200, 200, 200)), content=content, **details) as writer:
        done = 0
        for batch in (batch for _ in range(1 + points // BATCH_POINTS) for batch in ready):
            if done >= points:
                break
            writer.put(batch)
            done += len(batch.points)


def cases(options: argparse.Namespace) -> Iterator[tuple[str, str, Callable[[Path], None]]]:
    """Return the name, the suffix and the work of each row."""
    for way in ("pwrite", "by turns", "mapped"):
        for threads in map(int, options.threads.split(",")):
            yield f"{way}, {threads} threads", ".bin", partial(bare, way, threads, 12 * options.points // BLOCK)
    ready = batches()
    compress = partial(compress_batch, tolerance_mm=0.1, segment_mm=10.0)
    for name, details in KINDS.items():
        yield name, name[:4], partial(written, ready, options.points, content=None, details=details)
    yield ".trx, compressed", ".trx", partial(written, ready, options.points // 4, content=compress, details={})


def main() -> None:
    """Print a row for each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--points", type=int, default=50_000_000)
    parser.add_argument("--threads", default="1,2,4,8")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    best: dict[str, tuple[float, float]] = {}
    for _ in range(options.turns):
        for name, suffix, work in cases(options):
            path = options.folder / f"writing{suffix}"
            path.unlink(missing_ok=True)
            before, begun = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
            work(path)
            wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_SELF)
            processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            known = best.get(name, (wall, processor))
            best[name] = min(known[0], wall), min(known[1], processor)
            path.unlink()
    gigabytes = {name: 12e-9 * options.points / (4 if "compressed" in name else 1) for name in best}
    rows = [
        {"name": name, "seconds_a_gigabyte": round(wall / gigabytes[name], 3),
         "processor_seconds_a_gigabyte": round(processor / gigabytes[name], 3)}
        for name, (wall, processor) in best.items()
    ]
    for row in rows:
        print(*row.values(), sep="\t")
    if options.out is not None:
        write_record(options.out, rows=rows)


if __name__ == "__main__":
    main()
