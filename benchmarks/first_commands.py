"""Time the first command of this version of the package and of another one in alternation, and the second one.

    python benchmarks/first_commands.py OTHER DWI BVALS BVECS MASK [--archs cpu,vulkan] [--dgs boot,prob,det,ptt]
        [--nseeds N] [--turns K] [--out FILE]

OTHER is a folder that contains the other version's package. Each turn runs a command of each version with an empty
cache of compiled code (cold), and again (warm). Numbers are medians, in seconds.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from records import write_record

HERE = Path(__file__).resolve().parents[1]
Row = dict[str, Any]


def seconds(package: Path, command: list[str], cache: Path) -> float:
    """Run the package's command with a folder for all caches; return how long it took."""
    caches = {name: str(cache) for name in ("XDG_CACHE_HOME", "MESA_SHADER_CACHE_DIR", "CUDA_CACHE_PATH")}
    begun = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "tistreamlines", *command], check=True, cwd=cache,
        env=os.environ | caches | {"PYTHONPATH": str(package)},
    )
    return time.perf_counter() - begun


def compared(options: argparse.Namespace, dg: str, arch: str) -> Row:
    """Run the commands of a getter on an arch; return the medians."""
    taken: dict[str, dict[str, list[float]]] = {name: {"cold": [], "warm": []} for name in ("this", "other")}
    for _ in range(options.turns):
        for name, package in (("this", HERE), ("other", options.other)):
            with tempfile.TemporaryDirectory() as cache:
                command = ["track", *options.series, "--mask", options.mask, "--dg", dg, "--arch", arch]
                command += ["--nseeds", str(options.nseeds), "-q", "--force", "-o", str(Path(cache, "out.trx"))]
                for kind in ("cold", "warm"):
                    taken[name][kind].append(seconds(package, command, Path(cache)))
    row: Row = {"dg": dg, "arch": arch}
    for name, kinds in taken.items():
        row |= {f"{name}_{kind}": round(median(values), 2) for kind, values in kinds.items()}
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path)
    for name in ("dwi", "bvals", "bvecs", "mask"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--archs", default="cpu")
    parser.add_argument("--dgs", default="boot,prob,det,ptt")
    parser.add_argument("--nseeds", type=int, default=200)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    options.other = options.other.resolve()
    *options.series, options.mask = (
        str(path.resolve()) for path in (options.dwi, options.bvals, options.bvecs, options.mask)
    )
    rows = [compared(options, dg, arch) for arch in options.archs.split(",") for dg in options.dgs.split(",")]
    for row in rows:
        print(row, flush=True)
    if options.out:
        write_record(options.out, runs=rows)


if __name__ == "__main__":
    main()
