"""Standard errors of a connectome beside the spread of runs with other seeds and random numbers.

    python benchmarks/jackknife.py FOLDER NSEEDS --out FILE [--runs N] [--nodes N]

FOLDER contains dwi.nii.gz, dwi.bval, dwi.bvec and mask.nii.gz; the parcellation is that of products.py. Of the ten
largest edges, the root mean square of the jackknife's errors of all runs is compared with the standard deviation of the
values.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from products import make_labels
from records import write_record

import tistreamlines as ts

MEASURES = ("count", "mean-length")
EDGES = 10


def main() -> None:
    """Track as often as asked for, and compare."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("nseeds", type=int)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--nodes", type=int, default=84)
    options = parser.parse_args()
    series = [options.folder / name for name in ("dwi.nii.gz", "dwi.bval", "dwi.bvec")]
    runs: list[Any] = []
    with tempfile.TemporaryDirectory() as work:
        to = Path(work)
        make_labels(options.folder / "mask.nii.gz", options.nodes, to / "labels.nii.gz")
        common: dict[str, Any] = {"mask": options.folder / "mask.nii.gz", "nseeds": options.nseeds, "dg": "prob"}
        common |= {"arch": "cpu", "force": True, "cache_dir": to / "cache", "connectome_measure": MEASURES}
        for number in range(options.runs):
            result = ts.track(
                *series, connectome=(to / "labels.nii.gz", to / "a.csv"), seed_seed=number, rng_seed=number, **common
            )
            runs.append(result.products["connectome"][0])
    rows, columns = np.triu_indices(options.nodes)
    values = {name: np.array([table.values[name][rows, columns] for table in runs]) for name in MEASURES}
    errors = {name: np.array([table.errors[name][rows, columns] for table in runs]) for name in MEASURES}
    largest = np.argsort(values["count"].mean(axis=0))[::-1][:EDGES]
    lines = []
    for name in MEASURES:
        spread = values[name][:, largest].std(axis=0, ddof=1)
        jackknife = np.sqrt((errors[name][:, largest] ** 2).mean(axis=0))
        lines.append({
            "measure": name, "runs": options.runs, "mean": values[name][:, largest].mean(axis=0).round(3).tolist(),
            "spread": spread.round(4).tolist(), "jackknife": jackknife.round(4).tolist(),
            "ratio": (jackknife / spread).round(3).tolist(),
            "ratio_of_root_mean_squares": round(float(np.sqrt((jackknife**2).sum() / (spread**2).sum())), 3),
            "mean_ratio": round(float((jackknife / spread).mean()), 3),
        })
        print(lines[-1])
    write_record(options.out, runs=lines)


if __name__ == "__main__":
    main()
