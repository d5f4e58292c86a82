"""Time this version of the package and another one in alternation, and compare their bits.

    python benchmarks/versions.py OTHER [--archs cuda,vulkan] [--dgs boot,prob,det,ptt] [--data phantom|FOLDER]
        [--nseeds N] [--turns K] [--repeat K] [--peers FOLDER] [--out FILE]

OTHER is a folder that contains the other version's package and scripts (``git archive COMMIT tistreamlines
benchmarks/archs.py benchmarks/versions.py | tar x -C OTHER``). Data, seeds and options are those of ``archs.py``; each
version prepares its own tables from the same arrays, by its own scripts.
Each turn is a process that runs every getter on every arch. The speed is that of the fastest run of all turns, since
other load on the computer can only slow a run down.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
import archs

ARRAYS = ("signals", "bvals", "bvecs", "fa", "white", "affine")


def work(folder: Path, options: argparse.Namespace) -> None:
    """Run the version on Python's path once; print a line of JSON for each getter and arch."""
    from dipy.core.gradients import gradient_table

    from tistreamlines.benchmarks.problem import seeds_in
    from tistreamlines.devices import choose
    from tistreamlines.engine.engine import Engine
    from tistreamlines.engine.settings import Settings
    from tistreamlines.io.tractogram import Space

    signals, bvals, bvecs, fa, white, affine = (np.load(folder / f"{name}.npy") for name in ARRAYS)
    space, gtab = Space(affine, fa.shape), gradient_table(bvals, bvecs=bvecs)
    seeds = seeds_in(white, options.nseeds)
    for dg in options.dgs.split(","):
        asked = argparse.Namespace(dg=dg, model="opdt", rows="pmf", max_angle=60.0)
        prepared = archs.prepare(asked, signals, gtab, fa, seeds, space)
        for arch in options.archs.split(","):
            engine = Engine(prepared, space, choose(arch), Settings(step_mm=0.5 * float(space.voxel_sizes.min())))
            seconds, digest = [], ""
            for turn in range(options.repeat + 1):
                hashed, points, begun = hashlib.sha256(), 0, time.perf_counter()
                for batch in engine.track(seeds):
                    points += len(batch.points)
                    if turn == 0:  # hashing takes longer than tracking
                        hashed.update(batch.points)
                if turn:
                    seconds.append(time.perf_counter() - begun)
                else:
                    digest = hashed.hexdigest()
            row = {"dg": dg, "arch": arch, "points": points, "seconds": seconds, "sha256": digest}
            print(json.dumps(row), flush=True)
            del engine  # a version may refuse another arch beside one that lives


def turn_of(package: Path, folder: Path, arguments: list[str]) -> list[dict[str, Any]]:
    """Run a version in a process; return its rows."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, str(package / "benchmarks" / "versions.py"), *arguments, "--work", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"{package.name}: {done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path)
    parser.add_argument("--archs", default="cuda,vulkan")
    parser.add_argument("--dgs", default="boot,prob,det,ptt")
    parser.add_argument("--data", default="phantom")
    parser.add_argument("--nseeds", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--peers", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "peers")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work, options)
        return
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    packages = {"other": options.other.resolve(), "this": Path(__file__).resolve().parents[1]}
    with tempfile.TemporaryDirectory() as held:
        signals, gtab, fa, white, space = archs.load(options.data, options.peers)
        for name, array in zip(ARRAYS, (signals, gtab.bvals, gtab.bvecs, fa, white, space.affine), strict=True):
            np.save(Path(held) / f"{name}.npy", array)
        for _ in range(options.turns):
            for name, package in packages.items():
                for row in turn_of(package, Path(held), sys.argv[1:]):
                    kept = rows.setdefault((row["dg"], row["arch"]), {"seconds": {}, "sha256": {}})
                    kept["seconds"].setdefault(name, []).extend(round(value, 4) for value in row["seconds"])
                    kept["sha256"][name], kept["points"] = row["sha256"], row["points"]
    found = []
    for (dg, arch), row in rows.items():
        rate = {name: round(row["points"] / min(values) / 1e6, 2) for name, values in row["seconds"].items()}
        same, ratio = len(set(row["sha256"].values())) == 1, round(rate["this"] / rate["other"], 4)
        found.append({"dg": dg, "arch": arch, "mpoints_per_second": rate, "ratio": ratio, "same_bits": same, **row})
        print(dg, arch, rate, ratio, "same bits" if same else "OTHER BITS", flush=True)
    if options.out:
        from tistreamlines.benchmarks.machine import machine

        words = [word if not Path(word).is_absolute() else Path(word).name for word in sys.argv[1:]]
        record = {"command": f"python benchmarks/versions.py {' '.join(words)}", "machine": machine(), "runs": found}
        options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
