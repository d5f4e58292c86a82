"""iFOD1, iFOD2 and SD_STREAM beside MRtrix3's tckgen, on the same FOD and as many seeds.

    python benchmarks/tckgen.py FOLDER NSEEDS --out FILE [--fod FOD.mif] [--act 5TT.nii.gz] [--recover] [--arch ARCH]
        [--turns N] [--only NAME,NAME]

FOLDER contains dwi.nii.gz, dwi.bval, dwi.bvec and mask.nii.gz; seeds lie anywhere in the mask, and streamlines end
where they leave it. With --act, five tissues end them as well; ``benchmarks/five_tissues.py`` makes an image of
these. With --recover, streamlines go back from invalid ends and are cropped at the interface of grey and white matter.
``dwi2response tournier`` and ``dwi2fod csd`` make the FOD, unless --fod names one. Each run is a
whole command that writes a .tck file; tckgen has as many threads as there are cores, and in each turn another random
seed (MRTRIX_RNG_SEED), as our commands have. "seconds" are those of the command, "track_seconds" those of our tracking.
A first command of ours, which compiles, is left out. The densities are those of segments on the grid of the mask; their
correlations over the voxels of the mask are between our runs and tckgen's, and between two runs of each.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from itertools import combinations
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
from products import make_fod
from records import write_record

import tistreamlines as ts
from tistreamlines.benchmarks.streamlines import correlation

ALGORITHMS = {"ifod1": "iFOD1", "ifod2": "iFOD2", "sd_stream": "SD_Stream"}
COUNTERS = re.compile(r"\[INFO\]\s{3}([A-Z][^:]*): ([\d.]+)(%?)")  # of tckgen -info
Run = dict[str, Any]


def ours(dg: str, to: Path, mask: Path, ends: list[Any], nseeds: int, turn: int, arch: str) -> Run:
    """Run our command; return its figures."""
    words = ["--sh", "fod.mif", "--sh-basis", "tournier07", "--seed-mask", mask, *ends, "--dg", dg]
    words += ["--nseeds", nseeds, "--seed-seed", turn, "--rng-seed", turn, "--arch", arch]
    words += ["-o", f"ours-{dg}-{turn}.tck", "--json-stats", "stats.json", "--force", "--quiet", "--cache-dir", "cache"]
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-m", "tistreamlines", "track", *map(str, words)], check=True, cwd=to)
    row = {"seconds": round(time.perf_counter() - begun, 2)}
    stats = json.loads((to / "stats.json").read_text(encoding="utf-8"))
    row["track_seconds"] = round(stats["seconds"]["track"], 2)
    row["seeds_without_direction"] = nseeds - sum(stats["stop_reasons"].values()) // 2
    return row | {name: {k: v for k, v in stats[name].items() if v} for name in ("dropped", "stop_reasons")}


def theirs(dg: str, to: Path, mask: Path, ends: list[Any], nseeds: int, turn: int) -> Run:
    """Run tckgen; return its figures."""
    words = ["fod.mif", f"tckgen-{dg}-{turn}.tck", "-algorithm", ALGORITHMS[dg], "-seed_image", mask, "-mask", mask]
    words += [*ends, "-seeds", nseeds, "-select", 0, "-nthreads", os.cpu_count(), "-info", "-force"]
    environment = os.environ | {"MRTRIX_RNG_SEED": str(1000 * turn + 1)}  # its threads take the next seeds
    begun = time.perf_counter()
    done = subprocess.run(
        ["tckgen", *map(str, words)], check=True, cwd=to, env=environment, capture_output=True, text=True
    )
    seconds = round(time.perf_counter() - begun, 2)
    counters = {name: float(value) for name, value, _ in COUNTERS.findall(re.sub(r"\x1b\[[\d;]*m", "", done.stderr))}
    return {"seconds": seconds, "counters": {name: value for name, value in counters.items() if value}}


def measured(path: Path, mask: Path, nseeds: int) -> tuple[Run, np.ndarray]:
    """Return the share of accepted seeds and the mean length of a file, and its density."""
    density = path.with_name(f"{path.stem}-density.nii.gz")
    ts.map_tractogram(path, density=density, density_grid=mask, force=True)
    asked = ["tckstats", path, "-quiet", "-output", "count", "-output", "mean"]
    count, mean = map(float, subprocess.run(asked, check=True, capture_output=True, text=True).stdout.split())
    row = {"accepted_percent": round(100 * count / nseeds, 2), "mean_mm": round(mean, 2)}
    return row, np.asarray(nib.load(density).dataobj)


def correlations(dg: str, densities: dict[tuple[str, int], np.ndarray], mask: np.ndarray) -> Run:
    """Return the mean correlations of a getter's densities."""
    pairs: dict[str, list[float]] = {}
    for first, second in combinations(sorted(densities), 2):
        pair = f"{first[0]} and {second[0]}"
        pairs.setdefault(pair, []).append(correlation(densities[first], densities[second], mask))
    means = {pair: round(float(np.mean(values)), 4) for pair, values in pairs.items()}
    return {"name": f"correlations of {dg}"} | means


def main() -> None:
    """Run all in turns."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("nseeds", type=int)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--fod", type=Path)
    parser.add_argument("--act", type=Path)
    parser.add_argument("--recover", action="store_true")
    parser.add_argument("--arch", default="cpu")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", default=",".join(ALGORITHMS))
    options = parser.parse_args()
    runs: list[Run] = []
    with tempfile.TemporaryDirectory() as work:
        to, mask = Path(work), options.folder.resolve() / "mask.nii.gz"
        if options.fod is None:
            make_fod(options.folder, to)
        else:
            (to / "fod.mif").symlink_to(options.fod.resolve())
        choices, peers = ["--stop-mask", mask], []
        if options.act:
            choices, peers = ["--act", options.act.resolve(), "--limit-mask", mask], ["-act", options.act.resolve()]
        if options.recover:
            choices, peers = [*choices, "--backtrack", "--crop-at-gmwmi"], [*peers, "-backtrack", "-crop_at_gmwmi"]
        for dg in options.only.split(","):
            ours(dg, to, mask, choices, 100, 0, options.arch)
            densities = {}
            for turn in range(options.turns):
                both = {
                    "ours": ours(dg, to, mask, choices, options.nseeds, turn, options.arch),
                    "tckgen": theirs(dg, to, mask, peers, options.nseeds, turn),
                }
                for name, row in both.items():
                    more, densities[name, turn] = measured(to / f"{name}-{dg}-{turn}.tck", mask, options.nseeds)
                    runs.append({"turn": turn, "name": f"{name} {dg}"} | row | more)
                    print(runs[-1], flush=True)
            runs.append(correlations(dg, densities, np.asarray(nib.load(mask).dataobj) > 0))
            print(runs[-1], flush=True)
    write_record(options.out, runs=runs)


if __name__ == "__main__":
    main()
