"""Compare tracking with DIPY's: same seeds, same stop map, several runs of each.

    python benchmarks/parity.py FOLDER NSEEDS [--dg boot|prob|det|ptt] [--model opdt|csa] [--seeds-from FILE] [--runs K]
        [--first F] [--threads N] [--out FILE]

FOLDER contains dwi.nii.gz, dwi.bval, dwi.bvec and mask.nii.gz. Seeds are random in voxels of the mask with FA above
0.25, or come from FILE (.npy, RASmm, n x 3). The stop map is FA with threshold 0.1. Streamlines of a single point are
discarded. The RNG seeds of the runs are F to F + K - 1 in both packages. --out adds the result to a JSON file, and
replaces an earlier one with the same data, getter, model and number of seeds. boot and ptt are compared with
LocalTracking, prob and det with DIPY's threaded trackers from DIPY's initial directions. All getters but boot use CSD
of order 8.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # DIPY's matrix products are small and slower with more threads

import argparse
import json
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from trackers import BLOCKS, Case, Lines, dipys, load, method_of, ours

from tistreamlines.benchmarks.cases import COMMON, STOP

REPLICATES = 200


@dataclass
class Run:
    """Lengths, visits and time of a run, by block of seeds.

    Parameters
    ----------
    lengths : (n,) int
        Number of points of each streamline.
    block : (n,) int
        Block of the streamline's seed.
    visits : (BLOCKS, voxels of the mask) float32
        Number of streamlines that visit each voxel.
    seconds : time spent tracking.
    """

    lengths: np.ndarray
    block: np.ndarray
    visits: np.ndarray
    seconds: float


def gather(case: Case, lines: Lines) -> Run:
    """Discard streamlines of one point, and summarise the others by block of seeds."""
    from dipy.tracking.utils import density_map

    lengths = np.array([len(line) for line in lines.points])
    kept = np.flatnonzero(lengths > 1)
    block = lines.seed[kept] * BLOCKS // len(case.seeds)
    visits = np.zeros((BLOCKS, int(case.mask.sum())), np.float32)
    for b in range(BLOCKS):
        parts = [lines.points[i] for i in kept[block == b]]
        visits[b] = density_map(parts, case.space.affine, case.mask.shape)[case.mask]
    return Run(lengths[kept], block, visits, lines.seconds)


def alike(lines: Lines, others: Lines) -> dict[str, Any]:
    """Return the fraction of streamlines that have the same number of points in both runs, all within 0.1 mm."""
    a, b = lines.by_start(), others.by_start()
    near = [k in b and len(a[k]) == len(b[k]) and float(np.abs(a[k] - b[k]).max()) <= 0.1 for k in a]
    either = len(a.keys() | b.keys())
    return {"streamlines": [len(a), len(b)], "share_within_0.1_mm": round(sum(near) / either, 5)}


# ------------------------------------------------------------------------------------------------------- statistics
def resampled(statistic: Any) -> tuple[float, float]:
    """Return a statistic of blocks of seeds, and its bootstrap standard error.

    Parameters
    ----------
    statistic : callable
        Takes the number of times that each block counts, (BLOCKS,) int.
    """
    draws = np.random.default_rng(0).integers(BLOCKS, size=(REPLICATES, BLOCKS))
    spread = [statistic(np.bincount(draw, minlength=BLOCKS)) for draw in draws]
    return float(statistic(np.ones(BLOCKS, int))), float(np.std(spread, ddof=1))


def grouped_median(lengths: np.ndarray) -> float:
    """Return the median of grouped data: integers, interpolated within the median value."""
    middle = int(np.median(lengths))
    below, here = np.count_nonzero(lengths < middle), np.count_nonzero(lengths == middle)
    return middle - 0.5 + (len(lengths) / 2 - below) / max(here, 1)


def difference(runs: dict[str, list[Run]], figure: Any) -> dict[str, float]:
    """Return the relative difference from DIPY in percent of a mean figure, and its standard error over seeds.

    Parameters
    ----------
    runs : dict of list of Run
        Runs of each package on the same seeds.
    figure : callable
        Takes the lengths of streamlines, (n,) int.
    """

    def percent(counted: np.ndarray) -> float:
        means = {n: np.mean([figure(np.repeat(r.lengths, counted[r.block])) for r in of]) for n, of in runs.items()}
        return 100 * float(means["ours"] / means["dipy"] - 1)

    value, error = resampled(percent)
    spread = {f"{n}_run_to_run_sd_percent": deviation([figure(r.lengths) for r in of]) for n, of in runs.items()}
    return {"percent": round(value, 3), "standard_error": round(error, 3)} | spread


def deviation(values: list[float]) -> float:
    """Return the standard deviation in percent of the mean."""
    return round(100 * float(np.std(values, ddof=1) / np.mean(values)), 3)


def correlations(runs: dict[str, list[Run]]) -> dict[str, Any]:
    """Return the mean correlations of visit maps in the mask, over pairs of runs.

    The noise-free correlation is that between the packages over the geometric mean of those within each; it is 1 if
    both have the same map on average, however much single runs vary.
    """
    count, visits = len(runs["ours"]), [run.visits for name in ("ours", "dipy") for run in runs[name]]
    within = np.triu_indices(count, 1)

    def means(counted: np.ndarray) -> tuple[float, float, float]:
        table = np.corrcoef([counted.astype(np.float32) @ v for v in visits])
        ours, dipys = table[:count, :count][within], table[count:, count:][within]
        return float(table[:count, count:].mean()), float(dipys.mean()), float(ours.mean())

    def lead(counted: np.ndarray) -> float:
        across, dipys, _ = means(counted)
        return across - dipys

    def free(counted: np.ndarray) -> float:
        across, dipys, ours = means(counted)
        return across / float(np.sqrt(dipys * ours))

    names = ("ours_with_dipy", "dipy_run_to_run", "ours_run_to_run")
    whole = dict(zip(names, (round(value, 5) for value in means(np.ones(BLOCKS, int))), strict=True))
    for name, statistic in (("ours_with_dipy_less_dipy_run_to_run", lead), ("free_of_noise", free)):
        value, error = resampled(statistic)
        whole[name] = {"value": round(value, 5), "standard_error": round(error, 5)}
    return whole


def summary(run: Run) -> dict[str, Any]:
    """Return counts, lengths and speed of a run."""
    points = int(run.lengths.sum())
    return {
        "streamlines": len(run.lengths), "points": points, "mean_points": round(float(run.lengths.mean()), 3),
        "median_points": float(np.median(run.lengths)), "grouped_median_points": round(grouped_median(run.lengths), 3),
        "seconds": round(run.seconds, 3),
        "mpoints_per_second": round(points / run.seconds / 1e6, 5),
    }


def bars(gaps: dict[str, Any], correlation: dict[str, Any]) -> dict[str, bool]:
    """Return whether each criterion is met."""
    gap = {figure: abs(v["percent"]) for figure, v in gaps.items()}
    return {
        "streamlines_within_1_percent": gap["streamlines"] <= 1,
        "mean_points_within_2_percent": gap["mean_points"] <= 2,
        "median_points_within_2_percent": gap["median_points"] <= 2,
        "correlation_at_least_0.99_or_dipys_own": correlation["ours_with_dipy"]
        >= min(0.99, correlation["dipy_run_to_run"]),
    }


def distances(runs: dict[str, list[Run]]) -> dict[str, Any]:
    """Return the mean and maximum Kolmogorov-Smirnov distance of lengths, over pairs of runs."""
    from scipy.stats import ks_2samp

    kinds = {"ours_with_dipy": list(product(runs["ours"], runs["dipy"]))}
    kinds |= {f"{name}_run_to_run": list(combinations(of, 2)) for name, of in runs.items()}
    nearest = {}
    for kind, pairs in kinds.items():
        values = [float(ks_2samp(a.lengths, b.lengths).statistic) for a, b in pairs]
        nearest[kind] = {"mean": round(float(np.mean(values)), 5), "greatest": round(max(values), 5)}
    return nearest


def compare(runs: dict[str, list[Run]]) -> dict[str, Any]:
    """Return all figures and criteria of a case."""
    figures = {"streamlines": len, "points": np.sum, "mean_points": np.mean, "median_points": np.median}
    gaps = {name: difference(runs, of) for name, of in (figures | {"grouped_median_points": grouped_median}).items()}
    correlation = correlations(runs)
    passed = {name: bool(value) for name, value in bars(gaps, correlation).items()}
    speed = {n: sum(r.lengths.sum() for r in of) / sum(r.seconds for r in of) for n, of in runs.items()}
    return {
        "runs": {name: [summary(run) for run in of] for name, of in runs.items()},
        "differences": gaps,
        "density_correlation": correlation,
        "length_ks": distances(runs),
        "times_dipys_speed": round(float(speed["ours"] / speed["dipy"]), 1),
        "bars": passed,
        "passed": all(passed.values()),
    }


# ----------------------------------------------------------------------------------------------------------- record
def cpu_model() -> str:
    """Return the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        import platform

        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def circumstances(options: argparse.Namespace, seeds: int) -> dict[str, Any]:
    """Return data, command, versions, date and processor of the comparison."""
    method = method_of(options.dg, options.model)
    words = [os.path.relpath(w) if Path(w).is_absolute() else w for w in sys.argv[1:]]
    return {
        "data": options.folder.resolve().name, "dg": options.dg, "model": options.model, "seeds": seeds,
        "random_seeds": list(range(options.first, options.first + options.runs)),
        "command": " ".join(["python benchmarks/parity.py", *words]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {n: version(n) for n in ("dipy", "numpy", "numba")} | {"python": sys.version.split()[0]},
        "machine": {"cpu": cpu_model(), "cores": os.cpu_count(), "note": "cores shared with other work: rough times"},
        "settings": COMMON | dict(method.options) | {
            "max_angle": method.max_angle, "fa_threshold": STOP, "max_steps": method.max_steps,
            "step": "half the smallest side", "threads": options.threads,
        },
    }


def store(path: Path, result: dict[str, Any]) -> None:
    """Add a result to a JSON list, or replace the one of the same case."""
    key = ("data", "dg", "model", "seeds")
    old = json.loads(path.read_text()) if path.exists() else []
    kept = [r for r in old if any(r.get(k) != result[k] for k in key)]
    path.write_text(json.dumps(sorted([*kept, result], key=lambda r: [str(r.get(k)) for k in key]), indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("nseeds", type=int)
    parser.add_argument("--dg", choices=("boot", "prob", "det", "ptt"), default="boot")
    parser.add_argument("--model", choices=("opdt", "csa", "csd"))
    parser.add_argument("--threads", type=int)
    parser.add_argument("--seeds-from", type=Path)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    options.model = options.model or ("opdt" if options.dg == "boot" else "csd")
    case = load(options.folder, options.nseeds, options.seeds_from, options.dg, options.model, options.threads)
    runs: dict[str, list[Run]] = {"ours": [], "dipy": []}
    last: dict[str, Lines] = {}
    for name, tracker in (("ours", ours), ("dipy", dipys)):
        for number in range(options.first, options.first + options.runs):
            last[name] = tracker(case, number)
            runs[name].append(gather(case, last[name]))
            print(name, json.dumps(summary(runs[name][-1])), file=sys.stderr, flush=True)
    result = circumstances(options, len(case.seeds)) | compare(runs)
    if options.dg == "det":
        result["one_by_one"] = alike(last["ours"], last["dipy"])
    if options.out is not None:
        store(options.out, result)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
