"""Dynamic seeding beside ``tckgen -seed_dynamic``: how near densities come to those of fibres, and how fast.

    python benchmarks/dynamic_seeding.py FOD MASK SELECT --out FILE [--act 5TT] [--turns N] [--arch ARCH] [--rounds N,N]

FOD is an image of harmonics in the basis tournier07, such as dwi2fod writes; streamlines of iFOD2 end at MASK. Both
programs write a .tck file, with as many threads as there are cores, and with another random seed in each turn. One run
of ours has random seeds in MASK. The density of streamlines in each fixel is that of their visits; its correlation with
the density of fibres is over all fixels, and the cost is the first one of SIFT2. Times are those of whole commands.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from records import write_record

from tistreamlines.devices import choose
from tistreamlines.fit.fod_image import load_fods
from tistreamlines.io.tractograms import step_of_tractogram, stored_batches
from tistreamlines.tracking.weights.fixels import FixelRules, Fixels, fixels_of
from tistreamlines.tracking.weights.visits import Visitor

Run = dict[str, Any]


def measured(path: Path, fixels: Fixels) -> Run:
    """Compare the densities of a tractogram with those of fibres."""
    visitor = Visitor(fixels.table, step_of_tractogram(path) or 1.0, choose("cpu"))
    units, count = np.zeros(fixels.table.count), 0
    for batch in stored_batches(path):
        units += visitor.lengths(batch)
        count += len(batch)
    density = units * np.sum(fixels.masks * fixels.fibres) / np.sum(fixels.masks * units)
    return {
        "streamlines": count, "correlation": round(float(np.corrcoef(density, fixels.fibres)[0, 1]), 4),
        "cost": round(float(np.sum(fixels.masks * (density - fixels.fibres) ** 2)), 1),
        "fixels_without": round(float(np.mean(units == 0)), 4),
    }


def timed(command: list[object]) -> float:
    """Run a command; return its seconds."""
    begun = time.perf_counter()
    subprocess.run(list(map(str, command)), check=True)
    return round(time.perf_counter() - begun, 2)


def ours(options: argparse.Namespace, turn: int, folder: Path, seeds: list[object]) -> Run:
    """Run our command; return its figures."""
    ends = ["--mask", options.mask, "--limit-mask", options.mask] if options.act is None else ["--act", options.act]
    call = [sys.executable, "-m", "tistreamlines", "track", "--sh", options.fod, "--sh-basis", "tournier07"]
    call += ["--dg", "ifod2", *seeds, *ends, "--select", options.select, "--seed-seed", turn, "--rng-seed", turn]
    call += ["-o", folder / "tracks.tck", "--json-stats", folder / "stats.json"]
    call += ["-q", "--force", "--arch", options.arch]
    seconds = timed(call)
    stats = json.loads((folder / "stats.json").read_text(encoding="utf-8"))
    return {"seconds": seconds, "track_seconds": round(stats["seconds"]["track"], 2), "seeds": stats["seeds"]}


def theirs(options: argparse.Namespace, turn: int, folder: Path) -> Run:
    """Run tckgen; return its figures."""
    ends = ["-mask", options.mask] if options.act is None else ["-act", options.act]
    call = ["tckgen", options.fod, folder / "tracks.tck", "-seed_dynamic", options.fod]
    call += [*ends, "-select", options.select]
    os.environ["MRTRIX_RNG_SEED"] = str(turn)
    return {"seconds": timed([*call, "-nthreads", os.cpu_count(), "-quiet", "-force"])}


def main() -> None:
    """Run both in turn."""
    parser = argparse.ArgumentParser()
    parser.add_argument("fod", type=Path)
    parser.add_argument("mask", type=Path)
    parser.add_argument("select", type=int)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--act", type=Path)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--arch", default="cpu")
    parser.add_argument("--rounds", default="500")
    options = parser.parse_args()
    fixels = fixels_of(load_fods(options.fod, "tournier07"), choose("cpu"), None, print, FixelRules(options.act))
    rounds = [int(seed_round) for seed_round in options.rounds.split(",")]
    runs = []
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)

        def add(name: str, run: Run) -> None:
            runs.append({"name": name, **run, **measured(folder / "tracks.tck", fixels)})
            print(runs[-1], flush=True)

        few = argparse.Namespace(**vars(options) | {"select": 10})
        ours(few, 0, folder, ["--seed-dynamic", options.fod])  # compiles
        for turn in range(options.turns):
            for seed_round in rounds:
                dynamic = ["--seed-dynamic", options.fod, "--seed-round", seed_round]
                add("tistreamlines", {"turn": turn, "seed_round": seed_round, **ours(options, turn, folder, dynamic)})
            add("tckgen", {"turn": turn, **theirs(options, turn, folder)})
        add("seeds in the mask", ours(options, 0, folder, ["--seed-mask", options.mask]))
    write_record(options.out, runs=runs)


if __name__ == "__main__":
    main()
