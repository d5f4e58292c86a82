"""Time ``tistreamlines batch`` beside a loop over the same commands, and compare the bytes of the tractograms.

    python benchmarks/cohort.py FOLDER DWI BVALS BVECS MASK [--subjects 4] [--jobs 1,2] [--turns 2]
        [--json FILE] [OPTIONS]

FOLDER gets a copy of the series for each subject. Each turn runs the loop, and the batch with each number of jobs. The
command is ``track`` with all other OPTIONS. A run before the first turn compiles the kernels. The script prints the
seconds of each, the seconds of all processors, and the stages of the subjects that ran one by one.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any

from records import write_record

NAMES = ("dwi.nii.gz", "dwi.bval", "dwi.bvec", "mask.nii.gz")
PROGRAM = [sys.executable, "-m", "tistreamlines"]


def write_subjects(folder: Path, files: list[Path], count: int) -> list[str]:
    """Copy the files for each subject, and write the table; return the names of the subjects."""
    names = [f"sub-{number:02}" for number in range(1, count + 1)]
    for name in names:
        (folder / name).mkdir(parents=True, exist_ok=True)
        for file, target in zip(files, NAMES, strict=True):
            shutil.copy(file, folder / name / target)
    (folder / "participants.tsv").write_text("\n".join(["participant_id", *names]) + "\n")
    return names


def timed(commands: list[list[str]], folder: Path) -> dict[str, float]:
    """Run commands one by one; return their seconds, and those of all processors."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    for command in commands:
        subprocess.run(command, check=True, cwd=folder)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": round(time.perf_counter() - begun, 2), "processor_seconds": round(used, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    for name in ("dwi", "bvals", "bvecs", "mask"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--subjects", type=int, default=4)
    parser.add_argument("--jobs", default="1,2")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options, more = parser.parse_known_args()
    folder, files = options.folder, [options.dwi, options.bvals, options.bvecs, options.mask]
    names = write_subjects(folder, files, options.subjects)
    outputs = [folder / "out" / f"{name}.trx" for name in names]

    def words(name: str) -> list[str]:
        series = [f"{name}/{file}" for file in NAMES]
        return ["track", *series[:3], "--mask", series[3], "-q", "--force", *more, "-o", f"out/{name}.trx"]

    (folder / "out").mkdir(exist_ok=True)
    ways = {"loop": [[*PROGRAM, *words(name)] for name in names]}
    for jobs in options.jobs.split(","):
        ways[f"jobs {jobs}"] = [
            [*PROGRAM, "batch", "participants.tsv", "--jobs", jobs, "-q", "--", *words("{participant_id}")]
        ]
    subprocess.run(ways["loop"][0], check=True, cwd=folder)
    times: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    digests, stages = set[tuple[str, ...]](), list[dict[str, float]]()
    for _ in range(options.turns):
        for way, commands in ways.items():
            times[way].append(timed(commands, folder))
            digests.add(tuple(sha256(path.read_bytes()).hexdigest() for path in outputs))
            if way == "loop":
                stages += [json.loads(path.with_suffix(".json").read_text())["result"]["seconds"] for path in outputs]
            print(way, times[way][-1], flush=True)
    rows: dict[str, Any] = {
        "subjects": options.subjects, "options": more, "cores": len(os.sched_getaffinity(0)), "times": times,
        "medians": {way: median(row["seconds"] for row in rows) for way, rows in times.items()},
        "same_bytes": len(digests) == 1,
        "stages_of_a_subject": {name: round(median(row.get(name, 0) for row in stages), 2) for name in stages[0]},
    }
    print(json.dumps(rows, indent=1))
    if options.json:
        write_record(options.json, **rows)


if __name__ == "__main__":
    main()
