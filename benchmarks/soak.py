"""Watch the memory and the rate of a long run to a TRX file, beside those of a short one.

    python benchmarks/soak.py track DATA [--arch NAME] [--dg NAME] [--nseeds 1000000,10000000] [--out FILE]
    python benchmarks/soak.py plot FILE PICTURE

DATA is a folder with dwi.nii.gz, dwi.bval, dwi.bvec and mask.nii.gz. Each run is a command of its own, whose resident
memory is read from the system five times a second. The tractogram is written beside FILE and removed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SECONDS = 0.2  # between two readings


def resident(process: int) -> float:
    """Return the resident memory of a process in GB; 0 once it has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) * 1024 / 1e9 for line in lines if line.startswith("VmRSS:")), 0.0)


def watched(data: Path, nseeds: int, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Track so many seeds, and read the memory meanwhile."""
    series = [str(data / name) for name in ("dwi.nii.gz", "dwi.bval", "dwi.bvec")]
    output = folder / "whole.trx"
    command = [
        sys.executable, "-m", "tistreamlines", "track", *series, "--mask", str(data / "mask.nii.gz"), "--arch",
        options.arch, "--dg", options.dg, "--nseeds", str(nseeds), "-o", str(output), "-q", "--force",
        "--cache-dir", str(folder / "cache"),
    ]
    begun = time.perf_counter()
    run, readings = subprocess.Popen(command), []
    while run.poll() is None:
        readings.append([round(time.perf_counter() - begun, 2), round(resident(run.pid), 4)])
        time.sleep(SECONDS)
    if run.returncode:
        raise SystemExit(f"the run of {nseeds} seeds ended with {run.returncode}")
    result = json.loads(output.with_suffix(".json").read_text(encoding="utf-8"))["result"]
    track = result["seconds"]["track"]
    return {
        "nseeds": nseeds, "streamlines": result["streamlines"], "points": result["points"], "device": result["device"],
        "gigabytes": round(output.stat().st_size / 1e9, 3), "seconds": result["seconds"],
        "streamlines_per_second": round(result["streamlines"] / track), "memory_gb": readings,
    }


def plot(path: Path, picture: Path) -> None:
    """Draw the memory of each run over time."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 3.2), dpi=120, layout="constrained")
    for run in json.loads(path.read_text(encoding="utf-8"))["runs"]:
        seconds, memory = zip(*run["memory_gb"], strict=True)
        label = f"{run['nseeds'] / 1e6:g} million seeds, {run['gigabytes']:.1f} GB of TRX"
        axes.plot(seconds, memory, label=label)
    axes.set(xlabel="seconds since the command began", ylabel="resident memory, GB", ylim=(0, None), xlim=(0, None))
    axes.legend(frameon=False)
    figure.savefig(picture)


def main() -> None:
    """Track and write, or draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    tracking, drawing = commands.add_parser("track"), commands.add_parser("plot")
    tracking.add_argument("data", type=Path)
    tracking.add_argument("--arch", default="cuda")
    tracking.add_argument("--dg", default="prob")
    tracking.add_argument("--nseeds", default="1000000,10000000")
    tracking.add_argument("--out", type=Path)
    drawing.add_argument("file", type=Path)
    drawing.add_argument("picture", type=Path)
    options = parser.parse_args()
    if options.command == "plot":
        plot(options.file, options.picture)
        return
    runs = []
    with tempfile.TemporaryDirectory(dir=options.out.parent if options.out else None) as folder:
        for number in options.nseeds.split(","):
            runs.append(watched(options.data, int(number), options, Path(folder)))
            last = {name: value for name, value in runs[-1].items() if name != "memory_gb"}
            sys.stdout.write(f"{json.dumps(last)}\n")
            sys.stdout.flush()
    if options.out is not None:
        from records import write_record  # not above: versions.py imports this file before it chooses a package

        write_record(options.out, runs=runs)


if __name__ == "__main__":
    main()
