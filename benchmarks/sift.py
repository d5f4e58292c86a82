"""Compare the selection of ``tistreamlines sift`` with that of MRtrix3's tcksift, and their costs and times.

    python benchmarks/sift.py FOD TRACTOGRAM... --out FILE [--act 5TT] [--arch ARCH]

FOD is an image of harmonics in the basis tournier07, such as dwi2fod writes; tractograms are .tck files. Both programs
use all cores. Times and peaks of memory are those of whole commands, with warm caches.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from records import write_record
from sift2 import measured


def rows(path: Path) -> np.ndarray:
    """The first and the last row of a table of iterations, without words."""
    lines = [line.split(",")[:7] for line in path.read_text().splitlines() if line[0].isdigit()]
    return np.array([lines[0], lines[-1]], float)


def compared(fod: Path, tractogram: Path, folder: Path, act: Path | None, arch: str) -> dict[str, Any]:
    """Select streamlines with both programs, and compare the selections."""
    options = ["--csv", folder / "own.csv", "--selection", folder / "own.txt"]
    theirs = ["-csv", folder / "csv.csv", "-out_selection", folder / "selection.txt"]
    if act is not None:
        options, theirs = [*options, "--act", act], [*theirs, "-act", act]
    call = [sys.executable, "-m", "tistreamlines", "sift", tractogram, fod, "-o", folder / "own.tck", "--arch", arch]
    call += ["--sh-basis", "tournier07", "-q", "--force"]
    other = ["tcksift", tractogram, fod, folder / "t.tck", "-quiet", "-force", "-nthreads", os.cpu_count()]
    times = {"tistreamlines": measured(folder, *call, *options), "tcksift": measured(folder, *other, *theirs)}
    (first, last), (other_first, other_last) = (rows(folder / name) for name in ("own.csv", "csv.csv"))
    kept, others = (np.loadtxt(folder / name, bool) for name in ("own.txt", "selection.txt"))
    return {
        "fod": fod.name, "tractogram": tractogram.name, "streamlines": len(kept), "arch": arch, "times": times,
        "kept": [int(kept.sum()), int(others.sum())], "kept_by_both": int((kept & others).sum()),
        "removed_by_both": int((~kept & ~others).sum()), "iterations": [int(last[0]), int(other_last[0])],
        "first_cost": [first[4], other_first[4]], "cost": [last[4], other_last[4]], "mu": [last[6], other_last[6]],
    }


def main() -> None:
    """Compare all tractograms."""
    parser = argparse.ArgumentParser()
    parser.add_argument("fod", type=Path)
    parser.add_argument("tractograms", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--act", type=Path)
    parser.add_argument("--arch", default="cpu")
    options = parser.parse_args()
    runs = []
    with tempfile.TemporaryDirectory() as work:
        for tractogram in options.tractograms:
            runs.append(compared(options.fod, tractogram, Path(work), options.act, options.arch))
            print(runs[-1], flush=True)
    write_record(options.out, runs=runs)


if __name__ == "__main__":
    main()
