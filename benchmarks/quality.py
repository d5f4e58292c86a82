"""Score tractograms of data whose bundles are known, by this package, DIPY and MRtrix3.

    python benchmarks/quality.py [--geometries NAMES] [--scans B:SNR:DIRECTIONS:MM,...] [--half choice|report]
        [--fibercup FOLDER] [--seeds SEEDS] [--nseeds N] [--ways NAMES] [--set WAY OPTION=VALUE ...] [--no-peaks]
        [--jobs N] [--folder FOLDER] [--out FILE]

The geometries are those of benchmarks/truth/strands.py, each turned, jittered and measured with each of --seeds. A scan
of several shells joins their b-values and numbers of directions: 1000+3000:20:32+64:2. With :csf behind it, a part of
what surrounds white matter is CSF. --half stands for --scans and --seeds: scans of three or more shells, b = 0 counted,
of which one half is for the choice of defaults and the other for the report (benchmarks/truth/scan.py). With
--fibercup, the data are those of the FiberCup (benchmarks/truth/fibercup.py) in place of the geometries. All ways begin
in the voxels of white matter and end where they leave it. --set adds a way of this package with its own options, as
"det-sharp" with dg=det csd_lambda=0.1. docs/truth.md explains the scores. Ways such as prob-like-dipy have --like dipy.
DIPY itself runs as in its examples: auto_response_ssst, CSD of order 8, 30 degrees; MRtrix3 with dwi2response tournier
and dwi2fod csd, or with dwi2response dhollander, dwi2fod msmt_csd and, for several shells, mtnormalise
(mrtrix-msmt-...), and the defaults of tckgen's algorithms but no minimal length; ifod2-mrtrix and the like are this
package on MRtrix3's FODs. DIPY's CSD and MRtrix3's csd take the highest shell up to 3500 s/mm2. --no-peaks scores
streamlines alone. With --jobs, as many data are scored at a time, each on its share of the cores, so that the seconds
of a row are longer than those of a way alone. --folder keeps the data and the fits for the next call.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from records import write_record
from truth.fibercup import FiberCup
from truth.known import Known
from truth.means import SCAN, means
from truth.peaks import Functions, peaks_of
from truth.scan import HALVES, Scan
from truth.strands import GEOMETRIES
from truth.truth import Truth
from truth.ways import Way, our_way, ways

import tistreamlines as ts

SCANS = "1000:20:64:2,3000:20:64:2"
Peaks = dict[Callable[[Known, Path], Functions], dict[str, float]]  # scores by the functions, which ways may share


def data_of(options: argparse.Namespace) -> Iterator[Known]:
    """Make the data one after the other."""
    seeds = [int(seed) for seed in options.seeds.split(",")]
    if options.fibercup is not None:
        yield from (FiberCup(options.fibercup, seed) for seed in seeds)
        return
    for geometry in options.geometries.split(","):
        for scan in map(Scan.read, options.scans.split(",")):
            yield from (Truth(geometry, scan, seed) for seed in seeds)


def rows(options: argparse.Namespace, chosen: dict[str, Way]) -> Iterator[dict[str, Any]]:
    """Score each way on all data."""
    of_one = partial(rows_of, count=options.nseeds, chosen=chosen, room=options.folder)
    if options.jobs == 1:
        yield from chain.from_iterable(map(of_one, data_of(options)))
        return
    spawn = get_context("spawn")
    numbers = spawn.SimpleQueue()
    for number in range(options.jobs):
        numbers.put(number)
    with ProcessPoolExecutor(options.jobs, spawn, take_cores, (numbers, options.jobs)) as pool:
        yield from chain.from_iterable(pool.map(of_one, data_of(options)))


def take_cores(numbers: Any, jobs: int) -> None:
    """Leave this process, and the programs that it calls, every so many of the cores."""
    cores, number = sorted(os.sched_getaffinity(0)), numbers.get()
    os.sched_setaffinity(0, cores[number % len(cores) :: jobs])
    warnings.simplefilter("ignore")


def rows_of(known: Known, count: int, chosen: dict[str, Way], room: Path | None) -> list[dict[str, Any]]:
    """Score each way on the same data, whose folder is kept in ``room``, if there is one."""
    with tempfile.TemporaryDirectory() as passing:
        about = (value for name, value in known.about.items() if name != "tissues")
        folder = Path(passing) if room is None else room / "_".join(map(str, about))
        folder.mkdir(parents=True, exist_ok=True)
        known.save(folder)
        peaks: Peaks = {}
        return [
            {"way": name, **known.about} | scored(known, folder, count, way, peaks) for name, way in chosen.items()
        ]


def scored(known: Known, folder: Path, count: int, way: Way, peaks: Peaks) -> dict[str, Any]:
    """Track and score streamlines and peaks; a way that fails is a row that says why."""
    begun = time.perf_counter()
    try:
        lines = way.track(known, folder, count)
        row = {"seconds": round(time.perf_counter() - begun, 1)}
        if way.functions is not None and way.functions not in peaks:
            peaks[way.functions] = rounded(known.peak_scores(peaks_of(way.functions(known, folder), known.white)))
        return rounded(known.score(lines)) | row | (peaks[way.functions] if way.functions is not None else {})
    except (ts.TrackingError, ValueError, RuntimeError) as error:
        return {"failed": f"{type(error).__name__}: {error}".replace(f"{folder}/", "")[:200]}


def rounded(scores: dict[str, float]) -> dict[str, float]:
    """Round scores for the file."""
    return {name: round(float(value), 3) for name, value in scores.items()}


def printed(rows_of_ways: list[dict[str, Any]]) -> Iterator[str]:
    """Write the mean scores of each way by scan."""
    names = (
        "VC", "IC", "NC", "valid_bundles", "overlap", "overreach", "r", "mm", "median_mm", "peak_error",
        "fibres_missed", "peaks_spurious", "coherence",
    )
    table = means(rows_of_ways)
    names = [name for name in names if any(name in scores for *_, scores in table)]
    yield "".join(f"{name:>11}" for name in SCAN) + f" {'way':24}" + "".join(f"{name:>15}" for name in names)
    for scan, way, scores in table:
        cells = "".join(f"{scores[name]:15.3f}" if name in scores else f"{'':15}" for name in names)
        yield "".join(f"{value!s:>11}" for value in scan) + f" {way:24}{cells}"


def value_of(text: str) -> Any:
    """Return an option's value, which is a number or a word."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def main() -> None:
    """Score, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--geometries", default=",".join(GEOMETRIES))
    parser.add_argument("--scans", default=SCANS)
    parser.add_argument("--half", choices=HALVES)
    parser.add_argument("--fibercup", type=Path, metavar="FOLDER")
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--nseeds", type=int, default=5000)
    parser.add_argument("--ways", default=",".join(ways()))
    parser.add_argument("--set", nargs="+", action="append", default=[], metavar="WAY OPTION=VALUE")
    parser.add_argument("--no-peaks", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.half is not None:
        options.scans, options.seeds = ",".join(HALVES[options.half].scans), str(HALVES[options.half].seed)
    warnings.simplefilter("ignore")
    chosen = {name: way for name, way in ways().items() if name in options.ways.split(",")}
    for name, *words in options.set:
        pairs = (word.split("=", 1) for word in words)
        chosen[name] = our_way(**{key: value_of(value) for key, value in pairs})
    if options.no_peaks:
        chosen = {name: Way(way.track) for name, way in chosen.items()}
    scores = []
    for row in rows(options, chosen):
        scores.append(row)
        sys.stderr.write(f"{json.dumps(row)}\n")
    sys.stdout.write("\n".join(printed(scores)) + "\n")
    if options.out is not None:
        write_record(options.out, rows=scores)


if __name__ == "__main__":
    main()
