"""Compare the compilers for GPUs that are installed: start, compilation with and without a cache, speed and bits.

    python benchmarks/compilers.py [--archs cuda,vulkan] [--dgs boot,prob,det,ptt] [--data phantom|FOLDER] [--nseeds N]
        [--turns K] [--repeat K] [--peers FOLDER] [--out FILE]

Data and options are those of ``archs.py``. Each turn runs two processes of each compiler, one after another: the first
finds no compiled code, the second what the first has kept. A process imports the compiler and starts the device, which
includes the test that is run on a new device (*start*), tracks 64 seeds (*compile*), and then tracks all seeds several
times. All figures are medians over the turns.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

FEW = 64
SECONDS = ("start", "compile")
Row = dict[str, Any]


def work(folder: Path, arch: str, dg: str, repeat: int) -> Row:
    """What one process measures."""
    from tistreamlines import backends
    from tistreamlines.devices import choose
    from tistreamlines.tracking.engine.engine import Engine
    from tistreamlines.tracking.growth.settings import Settings

    prepared, space, seeds = pickle.loads((folder / f"{dg}.pickle").read_bytes())
    device, times = choose(arch), [time.perf_counter()]
    backends.warm_up(device)
    times.append(time.perf_counter())
    engine = Engine(prepared, space, device, Settings(step_mm=0.5 * float(space.voxel_sizes.min())))
    for _ in engine.track(seeds[:FEW]):
        pass
    times.append(time.perf_counter())
    hashed, points, rates = hashlib.sha256(), 0, []
    for run in range(repeat + 1):
        points, begun = 0, time.perf_counter()
        for batch in engine.track(seeds):
            points += len(batch.points)
            if run == 0:  # to warm up
                hashed.update(batch.points)
        rates.append(points / (time.perf_counter() - begun) / 1e6)
    row = {**backends.compiler_told(device), "device": device.name, "points": points, "sha256": hashed.hexdigest()}
    return row | dict(zip(SECONDS, np.diff(times).tolist(), strict=True)) | {"mpoints_per_second": rates[1:]}


def process(folder: Path, cache: Path, compiler: str, arch: str, dg: str, repeat: int) -> Row:
    """Measure in a new process, whose compiled code is kept in ``cache``."""
    command = [sys.executable, __file__, "--work", str(folder), "--archs", arch, "--dgs", dg, "--repeat", str(repeat)]
    changes = {"TISTREAMLINES_COMPILER": compiler, "XDG_CACHE_HOME": str(cache)}
    done = subprocess.run(command, env=os.environ | changes, capture_output=True, text=True, check=False)
    rows = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not rows:
        raise SystemExit(f"{compiler} on {arch}: {(done.stderr or done.stdout)[-2000:]}")
    return json.loads(rows[-1])


def summary(cold: list[Row], warm: list[Row]) -> Row:
    """Medians of the processes of a compiler."""
    medians: Row = {name: cold[0][name] for name in ("compiler", "device", "points", "sha256")}
    for name in SECONDS:
        for kind, rows in (("cold", cold), ("warm", warm)):
            medians[f"{name}_{kind}"] = round(float(np.median([row[name] for row in rows])), 3)
    rates = [rate for row in cold + warm for rate in row["mpoints_per_second"]]
    return medians | {"mpoints_per_second": round(float(np.median(rates)), 2) if rates else None}


def compare(folder: Path, arch: str, dg: str, options: argparse.Namespace) -> list[Row]:
    """Return a row for each compiler, of a getter on an arch."""
    from tistreamlines.backends import compilers_for

    rows: dict[str, tuple[list[Row], list[Row]]] = {name: ([], []) for name in compilers_for(arch)}
    for turn in range(options.turns):
        for name in list(rows)[:: -1 if turn % 2 else 1]:
            for which in rows[name]:
                which.append(process(folder, folder / f"{name}-{arch}-{dg}-{turn}", name, arch, dg, options.repeat))
    return [{"dg": dg, "arch": arch} | summary(*pair) for pair in rows.values()]


def prepare(folder: Path, options: argparse.Namespace) -> None:
    """Write the tables of each getter, and the seeds."""
    import archs

    from tistreamlines.benchmarks.problem import seeds_in

    signals, gtab, fa, white, space = archs.load(options.data, options.peers)
    seeds = seeds_in(white, options.nseeds)
    for dg in options.dgs.split(","):
        asked = argparse.Namespace(dg=dg, model="opdt", rows="pmf", max_angle=60.0)
        prepared = archs.prepare(asked, signals, gtab, fa, seeds, space)
        (folder / f"{dg}.pickle").write_bytes(pickle.dumps((prepared, space, seeds)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--archs", default="cuda,vulkan")
    parser.add_argument("--dgs", default="boot,prob,det,ptt")
    parser.add_argument("--data", default="phantom")
    parser.add_argument("--nseeds", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--peers", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "peers")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)  # of a process
    options = parser.parse_args()
    if options.work:
        print(json.dumps(work(options.work, options.archs, options.dgs, options.repeat)))
        return
    table: list[Row] = []
    with tempfile.TemporaryDirectory() as held:
        prepare(Path(held), options)
        for arch in options.archs.split(","):
            for dg in options.dgs.split(","):
                rows = compare(Path(held), arch, dg, options)
                for row in rows:
                    print(" ".join(str(row[name])[:16] for name in row if name not in ("device", "points")), flush=True)
                print(dg, arch, "same bits" if len({row["sha256"] for row in rows}) == 1 else "OTHER BITS", flush=True)
                table += rows
    if options.out:
        from records import write_record

        write_record(options.out, runs=table)


if __name__ == "__main__":
    main()
