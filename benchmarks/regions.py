"""Measure what stopping rules and regions cost, and compare selections between devices.

    python benchmarks/regions.py DATA [--archs cpu,cuda] [--dgs prob,boot] [--nseeds N] [--select N] [--out FILE]

DATA is a folder with dwi.nii.gz, dwi.bval, dwi.bvec and mask.nii.gz. Time is that of tracking, points included, by
turns, the median of fifteen. "act" has the tissue fractions of ``anatomy.py``; "threshold of tissue" ends streamlines
near where it does, so that their numbers and lengths are alike. "include, exclude" demands the whole image and excludes
a voxel in a corner, so that the streamlines are those of "threshold". "exclude half" excludes one side of a plane that
half of the streamlines cross. The selection includes a sphere in the middle, with 137 seeds in a chunk and with as many
as fit, and on the CPU with one thread and with two.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from anatomy import tissues
from problems import problems_of
from records import write_record

from tistreamlines.benchmarks.cases import COMMON, METHODS, STOP
from tistreamlines.benchmarks.problem import Problem
from tistreamlines.devices import choose
from tistreamlines.fit.models import BASIS
from tistreamlines.options.parameters import Parameters
from tistreamlines.tracking.engine.engine import Engine
from tistreamlines.tracking.growth.settings import Settings
from tistreamlines.tracking.registry import METHODS as GETTERS
from tistreamlines.tracking.registry import STOPPING_RULES
from tistreamlines.tracking.selection.places import MaskRegion, SphereRegion
from tistreamlines.tracking.selection.regions import Regions
from tistreamlines.tracking.stopping.threshold import of_map
from tistreamlines.tracking.tables.inputs import GetterInputs, OrientationFunctions, Signals, StopTables

TURNS = 15
MOST_SEEDS_EACH = 100  # of a selected streamline


def rules(problem: Problem, data: Path) -> dict[str, StopTables]:
    """Return the tables of stopping rules: FA, ACT, and a threshold that ends streamlines about where ACT does."""
    sides, maps = tuple(map(float, problem.space.voxel_sizes)), tissues(problem, data)
    named = Parameters.given({"stopping": "act", "step_size": f"{problem.step_mm}mm"})
    row = STOPPING_RULES["act"]
    act = row.prepare({name: maps[name] for name in row.maps if name in maps}, lambda: problem.fa, named, sides)
    other = np.maximum(maps["pve_gm"], maps["pve_csf"])
    white = (maps["pve_wm"] + other > 0) * (1 - other)
    return {"threshold": of_map(problem.fa, STOP), "threshold of tissue": of_map(white, 0.5), "act": act}


def prepared(problem: Problem, stop: StopTables) -> Any:
    """Return the tables of a getter with a stopping rule."""
    method, sides = problem.method, tuple(map(float, problem.space.voxel_sizes))
    if "signals" in GETTERS[method.dg].follows:
        follows: Any = Signals(problem.data, problem.gtab)
    else:
        follows = OrientationFunctions("sh", problem.csd, BASIS)
    content = GetterInputs(follows, stop, problem.seeds, method.sphere, problem.step_mm, sides)
    options = COMMON | {"dg": method.dg, "model": method.model, "max_angle": method.max_angle} | dict(method.options)
    return GETTERS[method.dg].prepare(content, Parameters.given(options))


def engine(problem: Problem, tables: Any, arch: str, asked: dict[str, Any] | None = None, **settings: Any) -> Engine:
    """Return an engine, with regions by the name of their option."""
    chosen = Settings(problem.step_mm, max_steps=problem.method.max_steps, **settings)
    filters = [Regions(asked, problem.space, False)] if asked else []
    return Engine(tables, problem.space, choose(arch), chosen, filters)


def half(problem: Problem, tables: Any) -> MaskRegion:
    """Return the side of a plane that half of the streamlines of some seeds visit."""
    batches = engine(problem, tables, "cpu").track(problem.seeds[:2000])
    lowest = [line[:, 0].min() for batch in batches for line in batch]
    x = problem.space.to_ras(np.indices(problem.mask.shape).reshape(3, -1).T)[:, 0]
    return MaskRegion("half", problem.space, (x < np.median(lowest)).reshape(problem.mask.shape))


def costs(problem: Problem, arch: str, data: Path) -> Iterator[dict[str, Any]]:
    """Time each way to track by turns."""
    tables = {name: prepared(problem, stop) for name, stop in rules(problem, data).items()}
    threshold = tables["threshold"]
    corner = np.zeros(problem.mask.shape, bool)
    corner[0, 0, 0] = True
    everywhere = MaskRegion("mask", problem.space, np.ones(problem.mask.shape, bool))
    both = {"include": [everywhere], "exclude": [MaskRegion("corner", problem.space, corner)]}
    engines = {
        **{name: engine(problem, table, arch) for name, table in tables.items()},
        "include, exclude": engine(problem, threshold, arch, both),
        "exclude half": engine(problem, threshold, arch, {"exclude": [half(problem, threshold)]}),
    }
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    sizes: dict[str, tuple[int, int]] = {}
    order = deque(engines.items())
    for _ in range(TURNS + 1):
        for name, tracker in order:
            begun = time.perf_counter()
            lengths = np.concatenate([batch.lengths for batch in tracker.track(problem.seeds)])
            seconds[name].append(time.perf_counter() - begun)
            sizes[name] = len(lengths), int(lengths.sum())
        order.rotate(-1)  # each is the first in some turns, since the one before leaves its data in the caches
    for name, times in seconds.items():
        median = float(np.median(times[1:]))
        yield {
            "dg": problem.method.dg, "arch": arch, "way": name, "seconds": round(median, 4),
            "streamlines": sizes[name][0], "points": sizes[name][1],
            "ns_a_point": round(1e9 * median / sizes[name][1], 3),
        }


def selections(problem: Problem, archs: list[str], select: int) -> Iterator[dict[str, Any]]:
    """Select streamlines on each device, with chunks of two sizes."""
    tables = prepared(problem, of_map(problem.fa, STOP))
    asked = {"include": [SphereRegion("middle", middle(problem), 25.0)]}
    runs: list[dict[str, Any]] = [{"arch": arch} for arch in archs] + [{"arch": "cpu", "threads": n} for n in (1, 2)]
    for run in runs:
        for chunk in (137, None):
            tracker = engine(problem, tables, asked=asked, chunk_size=chunk, **run)
            points = hashlib.sha256()
            for batch in tracker.track(problem.seeds, most=select):
                points.update(batch.points.tobytes())
            statistics = tracker.statistics
            yield {
                **run, "dg": problem.method.dg, "chunk": chunk,
                "streamlines": statistics.streamlines, "seeds": statistics.seeds, "sha256": points.hexdigest(),
            }
            del tracker  # before the next device starts


def middle(problem: Problem) -> np.ndarray:
    """Return the middle of the mask, RASmm."""
    return problem.space.to_ras(np.argwhere(problem.mask).mean(axis=0))


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--archs", default="cpu")
    parser.add_argument("--dgs", default="prob,boot")
    parser.add_argument("--nseeds", type=int, default=100_000, help="0 leaves out what rules and regions cost")
    parser.add_argument("--select", type=int, default=10_000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    results: dict[str, list[Any]] = {"costs": [], "selections": []}
    with problems_of(options.data) as problem_of:
        for dg in options.dgs.split(","):
            archs, rows = options.archs.split(","), []
            if options.nseeds:
                problem = problem_of(METHODS[dg], options.nseeds)
                rows = [("costs", row) for arch in archs for row in costs(problem, arch, options.data)]
            many = problem_of(METHODS[dg], MOST_SEEDS_EACH * options.select)
            rows += [("selections", row) for row in selections(many, archs, options.select)]
            for name, row in rows:
                results[name].append(row)
                sys.stdout.write(f"{json.dumps(row)}\n")
            sys.stdout.flush()
    if options.out is not None:
        write_record(options.out, nseeds=options.nseeds, **results)


if __name__ == "__main__":
    main()
