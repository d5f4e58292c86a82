"""Compare the weights of ``tistreamlines map --sift2`` with those of MRtrix3's tcksift2, and their costs and times.

    python benchmarks/sift2.py FOD TRACTOGRAM... --out FILE [--act 5TT] [--arch ARCH] [--memory-limit GB]

FOD is an image of harmonics in the basis tournier07, such as dwi2fod writes; tractograms are .tck files. Both programs
use all cores, or ours a device. Times and peaks of memory are those of whole commands, with warm caches. With
--memory-limit, ours runs once more under that limit, and the bytes of both files of weights are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from records import write_record

MEASURE = """
import json, os, resource, subprocess, sys, time
begun = time.perf_counter()
subprocess.run(sys.argv[2:], check=True)
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
costs = {"seconds": round(time.perf_counter() - begun, 2), "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 2),
         "peak_gb": round(usage.ru_maxrss * 1024 / 1e9, 2)}
open(sys.argv[1], "w").write(json.dumps(costs))
"""


def measured(folder: Path, *command: object) -> dict[str, float]:
    """Run a program; return the seconds that it took, and its peak of memory."""
    path = folder / "costs.json"
    subprocess.run([sys.executable, "-c", MEASURE, path, *map(str, command)], check=True)
    return json.loads(path.read_text(encoding="utf-8"))


def limited(folder: Path, call: list[object], gigabytes: float) -> dict[str, Any]:
    """Weigh the streamlines under a limit of memory; return what that took, and whether the weights are the same."""
    whole = (folder / "own.txt").read_bytes()
    times = measured(folder, *call, "--memory-limit", gigabytes)
    same = (folder / "own.txt").read_bytes() == whole
    return {"limited": {"memory_limit_gb": gigabytes, **times, "same_weights": same}}


def compared(
    fod: Path, tractogram: Path, folder: Path, act: Path | None, arch: str, limit: float | None
) -> dict[str, Any]:
    """Weigh the streamlines with both programs, and compare the weights."""
    options = ["--csv", folder / "own.csv", "--coeffs", folder / "own-coeffs.txt", "--mu", folder / "own-mu.txt"]
    theirs = ["-csv", folder / "csv.csv", "-out_coeffs", folder / "coeffs.txt", "-out_mu", folder / "mu.txt"]
    if act is not None:
        options, theirs = [*options, "--act", act], [*theirs, "-act", act]
    call = [sys.executable, "-m", "tistreamlines", "map", tractogram, "--arch", arch, "-q", "--force"]
    call += ["--sift2", fod, folder / "own.txt", "--basis", "tournier07"]
    other = ["tcksift2", tractogram, fod, folder / "weights.txt", "-quiet", "-force", "-nthreads", os.cpu_count()]
    times = {"tistreamlines": measured(folder, *call, *options), "tcksift2": measured(folder, *other, *theirs)}
    times |= {} if limit is None else limited(folder, [*call, *options], limit)
    ours, others = (np.loadtxt(folder / name) for name in ("own-coeffs.txt", "coeffs.txt"))
    both = np.isfinite(ours) & np.isfinite(others)
    known = {"delimiter": ",", "names": True, "usecols": range(19)}
    tables = [np.genfromtxt(folder / name, **known) for name in ("own.csv", "csv.csv")]
    mus = [float(np.loadtxt(folder / name)) for name in ("own-mu.txt", "mu.txt")]
    return {
        "fod": fod.name, "tractogram": tractogram.name, "streamlines": len(ours), "arch": arch, "times": times,
        "correlation_of_coefficients": float(np.corrcoef(ours[both], others[both])[0, 1]),
        "finite_in_both": int(both.sum()), "mean_difference": float(np.abs(ours - others)[both].mean()), "mu": mus,
        "iterations": [int(table["Iteration"][-1]) for table in tables],
        "first_cost": [float(table["Cost_data"][0]) for table in tables],
        "data_cost": [float(table["Cost_data"][-1]) for table in tables],
        "excluded": [int(table["Fixels_excluded"][-1]) for table in tables],
    }


def main() -> None:
    """Compare all tractograms."""
    parser = argparse.ArgumentParser()
    parser.add_argument("fod", type=Path)
    parser.add_argument("tractograms", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--act", type=Path)
    parser.add_argument("--arch", default="cpu")
    parser.add_argument("--memory-limit", type=float)
    options = parser.parse_args()
    runs = []
    with tempfile.TemporaryDirectory() as work:
        for tractogram in options.tractograms:
            runs.append(compared(options.fod, tractogram, Path(work), options.act, options.arch, options.memory_limit))
            print(runs[-1], flush=True)
    write_record(options.out, runs=runs)


if __name__ == "__main__":
    main()
