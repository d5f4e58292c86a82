"""Compare tracking with DIPY's: same seeds, same stop map, several runs of each.

    python benchmarks/parity.py FOLDER NSEEDS [--dg boot|prob|det|ptt] [--model opdt|csa] [--seeds-from FILE] [--runs K]
        [--first F] [--threads N] [--out FILE]

FOLDER holds dwi.nii.gz, dwi.bval, dwi.bvec, mask.nii.gz.  Seeds are random in the voxels of the mask whose FA is over
0.25, or come from FILE (.npy, RASmm, n x 3).  FA with threshold 0.1 is the stop map.  Streamlines of a single point are
dropped on both sides.  The runs' random seeds are F to F + K - 1 in both packages.  --out adds the result to a JSON
file, in place of an older one of the same data, getter, model and number of seeds.  boot and ptt are compared with
LocalTracking, prob and det with DIPY's threaded trackers, which get DIPY's initial directions.  All but boot follow CSD
of order 8.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # DIPY's products are small: more threads only get in each other's way

import argparse
import json
import sys
from dataclasses import dataclass
from datetime import datetime, timezone
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
    """One run's streamlines by block of seeds: lengths in points, and maps of visits; seconds spent.

    Parameters
    ----------
    lengths : points of each streamline.
    block : (n,) block of the streamline's seed.
    visits : (BLOCKS, voxels of the mask) streamlines that visit the voxel.
    seconds : time spent tracking.
    """

    lengths: np.ndarray
    block: np.ndarray
    visits: np.ndarray
    seconds: float


def gather(case: Case, lines: Lines) -> Run:
    """Drop streamlines of one point and sum the others up by block of seeds."""
    from dipy.tracking.utils import density_map

    lengths = np.array([len(line) for line in lines.points])
    kept = np.flatnonzero(lengths > 1)
    block = lines.seed[kept] * BLOCKS // len(case.seeds)
    visits = np.zeros((BLOCKS, int(case.mask.sum())), np.float32)
    for b in range(BLOCKS):
        some = [lines.points[i] for i in kept[block == b]]
        visits[b] = density_map(some, case.space.affine, case.mask.shape)[case.mask]
    return Run(lengths[kept], block, visits, lines.seconds)


def alike(one: Lines, other: Lines) -> dict[str, Any]:
    """Share of the streamlines of either that have as many points in the other and lie within 0.1 mm of it."""
    a, b = one.by_start(), other.by_start()
    near = [k in b and len(a[k]) == len(b[k]) and float(np.abs(a[k] - b[k]).max()) <= 0.1 for k in a]
    either = len(a.keys() | b.keys())
    return {"streamlines": [len(a), len(b)], "share_within_0.1_mm": round(sum(near) / either, 5)}


# ------------------------------------------------------------------------------------------------------- statistics
def resampled(statistic: Any) -> tuple[float, float]:
    """A statistic of blocks of seeds, and its standard error: its spread when blocks are drawn with replacement.

    Parameters
    ----------
    statistic : takes (BLOCKS,) int, how often each block counts.
    """
    draws = np.random.default_rng(0).integers(BLOCKS, size=(REPLICATES, BLOCKS))
    spread = [statistic(np.bincount(draw, minlength=BLOCKS)) for draw in draws]
    return float(statistic(np.ones(BLOCKS, int))), float(np.std(spread, ddof=1))


def grouped_median(lengths: np.ndarray) -> float:
    """The median of whole numbers, interpolated in the one it falls on (which alone may be several % of the median)."""
    middle = int(np.median(lengths))
    below, here = np.count_nonzero(lengths < middle), np.count_nonzero(lengths == middle)
    return middle - 0.5 + (len(lengths) / 2 - below) / max(here, 1)


def difference(runs: dict[str, list[Run]], figure: Any) -> dict[str, float]:
    """Relative difference in %, ours less DIPY's, between the runs' mean figures, and its standard error over seeds.

    Parameters
    ----------
    runs : each package's runs on the same seeds.
    figure : takes the lengths of the streamlines counted.
    """

    def percent(counted: np.ndarray) -> float:
        means = {n: np.mean([figure(np.repeat(r.lengths, counted[r.block])) for r in of]) for n, of in runs.items()}
        return 100 * float(means["ours"] / means["dipy"] - 1)

    value, error = resampled(percent)
    spread = {f"{n}_run_to_run_sd_percent": deviation([figure(r.lengths) for r in of]) for n, of in runs.items()}
    return {"percent": round(value, 3), "standard_error": round(error, 3)} | spread


def deviation(values: list[float]) -> float:
    """Standard deviation in % of the mean."""
    return round(100 * float(np.std(values, ddof=1) / np.mean(values)), 3)


def correlations(runs: dict[str, list[Run]]) -> dict[str, Any]:
    """Mean correlations, over pairs of runs, of the maps of visits in the mask.

    Free of noise is the correlation across packages over the geometric mean of those within each: 1 when both make the
    same map on the average, however much one run's map differs from the next.
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
    """Counts, lengths and speed of a run."""
    points = int(run.lengths.sum())
    return {
        "streamlines": len(run.lengths), "points": points, "mean_points": round(float(run.lengths.mean()), 3),
        "median_points": float(np.median(run.lengths)), "grouped_median_points": round(grouped_median(run.lengths), 3),
        "seconds": round(run.seconds, 3),
        "mpoints_per_second": round(points / run.seconds / 1e6, 5),
    }  # fmt: skip


def bars(gaps: dict[str, Any], correlation: dict[str, Any]) -> dict[str, bool]:
    """Which bars are passed."""
    gap = {figure: abs(v["percent"]) for figure, v in gaps.items()}
    return {
        "streamlines_within_1_percent": gap["streamlines"] <= 1,
        "mean_points_within_2_percent": gap["mean_points"] <= 2,
        "median_points_within_2_percent": gap["median_points"] <= 2,
        "correlation_at_least_0.99_or_dipys_own": correlation["ours_with_dipy"]
        >= min(0.99, correlation["dipy_run_to_run"]),
    }


def distances(runs: dict[str, list[Run]]) -> dict[str, Any]:
    """Kolmogorov-Smirnov distances of the distributions of lengths, by pair of runs: their mean and greatest."""
    from scipy.stats import ks_2samp

    kinds = {"ours_with_dipy": list(product(runs["ours"], runs["dipy"]))}
    kinds |= {f"{name}_run_to_run": list(combinations(of, 2)) for name, of in runs.items()}
    found = {}
    for kind, pairs in kinds.items():
        values = [float(ks_2samp(a.lengths, b.lengths).statistic) for a, b in pairs]
        found[kind] = {"mean": round(float(np.mean(values)), 5), "greatest": round(max(values), 5)}
    return found


def compare(runs: dict[str, list[Run]]) -> dict[str, Any]:
    """All figures and the bars of a case."""
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
    """The processor's name, as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        import platform

        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def circumstances(options: argparse.Namespace, seeds: int) -> dict[str, Any]:
    """What was run, with what, when and where."""
    method = method_of(options.dg, options.model)
    words = [os.path.relpath(w) if Path(w).is_absolute() else w for w in sys.argv[1:]]
    return {
        "data": options.folder.resolve().name, "dg": options.dg, "model": options.model, "seeds": seeds,
        "random_seeds": list(range(options.first, options.first + options.runs)),
        "command": " ".join(["python benchmarks/parity.py", *words]),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "versions": {n: version(n) for n in ("dipy", "numpy", "numba")} | {"python": sys.version.split()[0]},
        "machine": {"cpu": cpu_model(), "cores": os.cpu_count(), "note": "cores shared with other work: rough times"},
        "settings": COMMON | dict(method.options) | {
            "max_angle": method.max_angle, "fa_threshold": STOP, "max_steps": method.max_steps,
            "step": "half the smallest side", "threads": options.threads,
        },
    }  # fmt: skip


def store(path: Path, result: dict[str, Any]) -> None:
    """Put a result into a JSON list, in place of an older one of the same case."""
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
