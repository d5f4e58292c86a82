"""Time this version of the package and another one in alternation, and compare their bits.

    python benchmarks/versions.py OTHER [--archs cuda,vulkan] [--dgs boot,prob,det,ptt] [--data phantom|FOLDER]
        [--rows pmf|sh] [--max-angle DEGREES] [--nseeds N] [--turns K] [--repeat K] [--peers FOLDER] [--out FILE]

OTHER is a folder that contains the other version's package and its benchmarks/archs.py (``git archive COMMIT
tistreamlines benchmarks/archs.py | tar x -C OTHER``). Data, seeds and options are those of ``archs.py``; each version
prepares its own tables from the same arrays, by its own scripts.
Each turn starts a process of each version. They prepare a getter on an arch one after the other, and then track in
alternation, each first in every other pair. The ratio is the median of the ratios of these pairs, because the speed of
a shared computer drifts by more than what is measured; speeds and stages are medians over all runs.
The first run of a turn, whose points are hashed, is listed by itself; so is the memory that an engine and its runs have
added to a process.
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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from soak import resident

ARRAYS = ("signals", "bvals", "bvecs", "fa", "white", "affine")
STAGES = ("start", "grow", "pack", "unpack")
HERE = Path(__file__).resolve().parents[1]
Row = dict[str, Any]


def work(folder: Path, options: argparse.Namespace) -> Iterator[Row]:
    """Yield nothing for each getter and arch that is prepared, then a row for each of its runs."""
    sys.path.insert(0, str(options.package / "benchmarks"))
    import archs
    from dipy.core.gradients import gradient_table

    import tistreamlines
    from tistreamlines.benchmarks.problem import seeds_in
    from tistreamlines.devices import choose
    from tistreamlines.space.batch import Space
    from tistreamlines.tracking.engine.engine import Engine, Settings  # type: ignore[attr-defined]

    if not Path(tistreamlines.__file__).is_relative_to(options.package):
        raise SystemExit(f"{tistreamlines.__file__} was imported instead of the version in {options.package}")
    signals, bvals, bvecs, fa, white, affine = (np.load(folder / f"{name}.npy") for name in ARRAYS)
    space, gtab = Space(affine, fa.shape), gradient_table(bvals, bvecs=bvecs)
    seeds = seeds_in(white, options.nseeds)
    for dg in options.dgs.split(","):
        asked = argparse.Namespace(dg=dg, model="opdt", rows=options.rows, max_angle=options.max_angle)
        prepared = archs.prepare(asked, signals, gtab, fa, seeds, space)
        for arch in options.archs.split(","):
            before = resident(os.getpid())
            engine = Engine(prepared, space, choose(arch), Settings(step_mm=0.5 * float(space.voxel_sizes.min())))
            yield {}
            for run in range(options.repeat + 1):
                row = tracked(engine, seeds, warm_up=run == 0)
                yield row | {"resident_mb": 1e3 * (resident(os.getpid()) - before)}
            del engine  # a version may refuse another arch beside one that lives


def tracked(engine: Any, seeds: np.ndarray, warm_up: bool) -> Row:
    """Track once; return points, seconds in all and by stage, and of a run to warm up the hash, which takes longer."""
    statistics = engine.tally if hasattr(engine, "tally") else engine.statistics  # as older versions call it
    statistics.seconds.update(dict.fromkeys(statistics.seconds, 0.0))
    hashed, points, begun = hashlib.sha256(), 0, time.perf_counter()
    for batch in engine.track(seeds):
        points += len(batch.points)
        if warm_up:
            hashed.update(batch.points)
    row = {"points": points, "seconds": {"all": time.perf_counter() - begun}}
    row["seconds"] |= {name: statistics.seconds[name] for name in STAGES}
    return row | ({"sha256": hashed.hexdigest()} if warm_up else {})


class Version:
    """A process of a version, which does one thing whenever it is asked to."""

    def __init__(self, package: Path, folder: Path) -> None:
        paths = [str(package), os.environ.get("PYTHONPATH", "")]
        command = [sys.executable, __file__, *sys.argv[1:], "--work", str(folder), "--package", str(package)]
        self.process = subprocess.Popen(
            command, env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)}, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True,
        )

    def next(self) -> Row:
        """Let it do the next thing, and return what that gave."""
        assert self.process.stdin is not None and self.process.stdout is not None
        print(file=self.process.stdin, flush=True)
        for line in self.process.stdout:  # libraries may print other lines
            if line.startswith("{"):
                return json.loads(line)
        raise SystemExit("a version failed: see above")


def alternated(versions: dict[str, Version], repeat: int) -> dict[str, list[Row]]:
    """Return the rows of one getter on one arch by version; the first is that of the run to warm up."""
    rows: dict[str, list[Row]] = {name: [] for name in versions}
    for version in versions.values():
        version.next()
    for run in range(repeat + 1):
        for name in list(versions)[:: 1 if run % 2 else -1]:
            rows[name].append(versions[name].next())
    return rows


def summary(turns: list[dict[str, list[Row]]]) -> Row:
    """Return speeds, their ratio and stages of one getter on one arch from the rows of all turns."""
    runs = {name: [row for turn in turns for row in turn[name][1:]] for name in turns[0]}
    seconds = {name: {part: [row["seconds"][part] for row in rows] for part in ("all", *STAGES)}
               for name, rows in runs.items()}
    medians = {name: {part: float(np.median(values)) for part, values in parts.items()}
               for name, parts in seconds.items()}
    hashes, points = {turn[name][0]["sha256"] for turn in turns for name in turn}, turns[0]["this"][0]["points"]
    ratios = np.array(seconds["other"]["all"]) / seconds["this"]["all"]
    return {
        "mpoints_per_second": {name: round(points / parts["all"] / 1e6, 2) for name, parts in medians.items()},
        "ratio": round(float(np.median(ratios)), 4),
        "ratio_by_turn": [round(float(np.median(part)), 4) for part in np.split(ratios, len(turns))],
        "first_seconds": {name: [round(turn[name][0]["seconds"]["all"], 4) for turn in turns] for name in runs},
        "resident_mb": {name: round(max(row["resident_mb"] for row in rows)) for name, rows in runs.items()},
        "same_bits": len(hashes) == 1, "points": points, "sha256": sorted(hashes),
        "stages": {name: {part: round(value, 4) for part, value in parts.items()} for name, parts in medians.items()},
        "seconds": {name: [round(value, 4) for value in parts["all"]] for name, parts in seconds.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path)
    parser.add_argument("--archs", default="cuda,vulkan")
    parser.add_argument("--dgs", default="boot,prob,det,ptt")
    parser.add_argument("--data", default="phantom")
    parser.add_argument("--rows", default="pmf")
    parser.add_argument("--max-angle", type=float, default=60.0)
    parser.add_argument("--nseeds", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--peers", type=Path, default=HERE.parent / "shared" / "peers")
    parser.add_argument("--out", type=Path)
    for name in ("--work", "--package"):  # of a version's process
        parser.add_argument(name, type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        results = work(options.work, options)
        while sys.stdin.readline() and (row := next(results, None)) is not None:
            print(json.dumps(row), flush=True)
        return
    import archs

    pairs = [(dg, arch) for dg in options.dgs.split(",") for arch in options.archs.split(",")]
    turns: dict[tuple[str, str], list[Any]] = {pair: [] for pair in pairs}
    with tempfile.TemporaryDirectory() as held:
        signals, gtab, fa, white, space = archs.load(options.data, options.peers)
        for name, array in zip(ARRAYS, (signals, gtab.bvals, gtab.bvecs, fa, white, space.affine), strict=True):
            np.save(Path(held) / f"{name}.npy", array)
        for _ in range(options.turns):
            packages = {"other": options.other.resolve(), "this": HERE}
            versions = {name: Version(package, Path(held)) for name, package in packages.items()}
            for pair in pairs:
                turns[pair].append(alternated(versions, options.repeat))
            for version in versions.values():
                version.process.communicate()
    table = []
    for (dg, arch), rows in turns.items():
        table.append({"dg": dg, "arch": arch} | summary(rows))
        row = table[-1]
        print(dg, arch, row["mpoints_per_second"], row["ratio"], row["ratio_by_turn"], row["stages"],
              "same bits" if row["same_bits"] else "OTHER BITS", flush=True)
    if options.out:
        from records import write_record

        write_record(options.out, runs=table)


if __name__ == "__main__":
    main()
