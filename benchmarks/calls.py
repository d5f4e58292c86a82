"""Time calls of the drop-in and of cuslines for pyAFQ's default: prob on an asymmetric PMF of 724 vertices.

    python benchmarks/calls.py DATA [--targets cuda,vulkan,cpu,cuslines-cuda-patched] [--nseeds N] [--out FILE]

DATA is a folder with dwi.nii.gz, dwi.bval, dwi.bvec and mask.nii.gz. A call is ``generate_trx`` of a tracker that is
ready; the time to make the tracker is given beside it. Both packages get the same arguments. cuslines is first called
with 25,000 seeds, for which it compiles; this package is called twice with all seeds, each time by a new tracker.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
from dipy.data import get_sphere
from problems import problems_of
from records import write_record
from suite import cuslines as peer

from tistreamlines.benchmarks.cases import COMMON, METHODS, STOP
from tistreamlines.benchmarks.problem import Problem
from tistreamlines.cuslines import tracker as drop_in


def ours(problem: Problem, arch: str, image: Any) -> Iterator[dict[str, Any]]:
    """Call this package's tracker twice."""
    sphere = get_sphere(name="repulsion724")
    pmf = problem.pmf.astype(np.float32)
    rules = {
        "relative_peak_thresh": COMMON["relative_peak_threshold"], "step_size": 0.5, "sphere_symm": False,
        "min_separation_angle": np.deg2rad(COMMON["min_separation_angle"]),
        "max_angle": np.deg2rad(problem.method.max_angle),
    }
    for call in ("first", "second"):
        begun = time.perf_counter()
        with drop_in.Tracker(
            drop_in.ProbDirectionGetter(), pmf, problem.fa, STOP, sphere.vertices, sphere.edges, arch=arch, **rules
        ) as tracker:
            opened = time.perf_counter()
            yield {"target": arch, "call": call, **measured(begun, opened, tracker.generate_trx(problem.seeds, image))}


def theirs(problem: Problem, target: str, image: Any) -> Iterator[dict[str, Any]]:
    """Call cuslines' tracker, after a call that compiles."""
    begun = time.perf_counter()
    tracker = peer.open_gpu_tracker(target.removeprefix("cuslines-"), problem)
    setup = time.perf_counter() - begun
    tracker.generate_trx(problem.seeds[: peer.CHUNK], image)
    begun = time.perf_counter()
    row = measured(begun, begun, tracker.generate_trx(problem.seeds, image))
    yield {"target": target, "call": "second", **row, "setup_seconds": round(setup, 2)}


def measured(begun: float, opened: float, trx: Any) -> dict[str, Any]:
    """Return the seconds of a call that has just ended, and the size of its result."""
    ended = time.perf_counter()
    return {
        "seconds": round(ended - opened, 2), "setup_seconds": round(opened - begun, 2),
        "streamlines": len(trx.streamlines), "points": len(trx.streamlines._data),
    }


def main() -> None:
    """Call each target, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--targets", default="cuda,cuslines-cuda-patched")
    parser.add_argument("--nseeds", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    results = []
    with problems_of(options.data) as problem_of:
        problem = problem_of(METHODS["prob-asymmetric"], options.nseeds)
        image = nib.Nifti1Image(np.zeros(problem.mask.shape, np.uint8), np.eye(4))
        for target in options.targets.split(","):
            calls = theirs if target.startswith("cuslines") else ours
            for row in calls(problem, target, image):
                results.append(row)
                sys.stdout.write(f"{json.dumps(row)}\n")
                sys.stdout.flush()
    if options.out is not None:
        write_record(options.out, nseeds=options.nseeds, runs=results)


if __name__ == "__main__":
    main()
