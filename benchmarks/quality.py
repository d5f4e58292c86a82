"""Score tractograms of phantoms whose bundles are known, by this package, DIPY and MRtrix3.

    python benchmarks/quality.py [--geometries NAMES] [--scans B:SNR:DIRECTIONS:MM,...] [--seeds SEEDS]
        [--nseeds N] [--ways NAMES] [--set WAY OPTION=VALUE ...] [--out FILE]

The geometries are those of tistreamlines/benchmarks/phantom/strands.py, each turned, jittered and measured with each of
--seeds. All ways begin in the voxels of white matter and end where they leave it. --set adds a way of this package
with its own options, as "det-sharp" with dg=det csd_lambda=0.1. The scores are explained in
tistreamlines/benchmarks/phantom/truth.py. Ways such as prob-like-dipy have --like dipy. DIPY itself runs as in its
examples: auto_response_ssst, CSD of order 8, 30 degrees; MRtrix3 with dwi2response tournier, dwi2fod csd and the
defaults of tckgen's algorithms but no minimal length.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np

import tistreamlines as ts
from tistreamlines.benchmarks.machine import commit, machine
from tistreamlines.benchmarks.phantom.strands import GEOMETRIES
from tistreamlines.benchmarks.phantom.truth import Lines, Scan, Truth

SCANS = "1000:20:64:2,3000:20:64:2"
RANDOM_SEED = 1_000_003  # a large one: see docs/drop-in-dipy.md
Way = Callable[[Truth, Path, int], Lines]


def ours(truth: Truth, folder: Path, count: int, **options: Any) -> Lines:
    """Track with this package."""
    found = ts.track(
        folder / "dwi.nii.gz", folder / "dwi.bval", folder / "dwi.bvec", mask=folder / "mask.nii.gz",
        stop_map=folder / "white.nii.gz", stop_threshold=0.5, seeds=truth.seeds(count), arch="cpu",
        cache_dir=folder / "cache", **options,
    )  # fmt: skip
    return found.to_sft().streamlines


def dipy(truth: Truth, folder: Path, count: int, getter: str) -> Lines:
    """Track with DIPY."""
    from dipy import direction
    from dipy.core.gradients import gradient_table
    from dipy.data import default_sphere
    from dipy.reconst.csdeconv import ConstrainedSphericalDeconvModel, auto_response_ssst
    from dipy.tracking.local_tracking import LocalTracking
    from dipy.tracking.stopping_criterion import ThresholdStoppingCriterion

    data = nib.load(folder / "dwi.nii.gz").get_fdata()
    gtab = gradient_table(np.loadtxt(folder / "dwi.bval"), bvecs=np.loadtxt(folder / "dwi.bvec").T)
    kept = folder / "dipy.npy"
    if not kept.exists():
        response, _ = auto_response_ssst(gtab, data, roi_radii=10, fa_thr=0.7)
        fitted = ConstrainedSphericalDeconvModel(gtab, response, sh_order_max=8).fit(data, mask=truth.mask)
        np.save(kept, fitted.shm_coeff)
    chosen = getattr(direction, getter).from_shcoeff(np.load(kept), max_angle=30.0, sphere=default_sphere)
    white = ThresholdStoppingCriterion(truth.white.astype(float), 0.5)
    lines = LocalTracking(
        chosen, white, truth.seeds(count), truth.affine, truth.scan.voxel_mm / 2, random_seed=RANDOM_SEED
    )
    return list(lines)


def mrtrix(truth: Truth, folder: Path, count: int, algorithm: str) -> Lines:
    """Track with MRtrix3."""
    del truth
    gradients = ["-fslgrad", "dwi.bvec", "dwi.bval"]
    steps = [
        ["dwi2response", "tournier", "dwi.nii.gz", "response.txt", "-mask", "mask.nii.gz", *gradients],
        ["dwi2fod", "csd", "dwi.nii.gz", "response.txt", "fod.mif", "-mask", "mask.nii.gz", *gradients],
    ]
    for step in steps if not (folder / "fod.mif").exists() else []:
        subprocess.run([*step, "-quiet", "-force"], cwd=folder, check=True)
    tckgen = ["tckgen", "fod.mif", "out.tck", "-algorithm", algorithm, "-seed_image", "white.nii.gz", "-select", "0"]
    options = ["-mask", "white.nii.gz", "-seeds", str(count), "-minlength", "0", "-quiet", "-force"]
    subprocess.run([*tckgen, *options], cwd=folder, check=True)
    return list(nib.streamlines.load(folder / "out.tck").streamlines)


def ways() -> dict[str, Way]:
    """Return what tracks by default, by name."""
    found: dict[str, Way] = {dg: partial(ours, dg=dg) for dg in ("boot", "prob", "det", "ptt")}
    found |= {f"{dg}-like-dipy": partial(ours, dg=dg, like="dipy") for dg in ("prob", "det", "ptt")}
    found |= {
        "dipy-det": partial(dipy, getter="DeterministicMaximumDirectionGetter"),
        "dipy-prob": partial(dipy, getter="ProbabilisticDirectionGetter"),
    }
    if shutil.which("tckgen"):
        found |= {f"mrtrix-{name.lower()}": partial(mrtrix, algorithm=name) for name in ("SD_STREAM", "iFOD1", "iFOD2")}
    return found


def scans(text: str) -> list[Scan]:
    """Read scans such as 1000:20:64:2, b-value, SNR, directions and voxel in mm, joined by commas."""
    parts = [one.split(":") for one in text.split(",")]
    return [Scan(float(b), float(snr), int(directions), float(mm)) for b, snr, directions, mm in parts]


def rows(given: argparse.Namespace, chosen: dict[str, Way]) -> Iterator[dict[str, Any]]:
    """Score each way on each phantom."""
    for geometry in given.geometries.split(","):
        for scan in scans(given.scans):
            for seed in map(int, given.seeds.split(",")):
                truth = Truth(geometry, scan, seed)
                with tempfile.TemporaryDirectory() as folder:
                    truth.save(Path(folder))
                    for name, way in chosen.items():
                        about = {"way": name, "geometry": geometry, **vars(scan), "seed": seed}
                        yield about | scored(truth, Path(folder), given.nseeds, way)


def scored(truth: Truth, folder: Path, count: int, way: Way) -> dict[str, Any]:
    """Track and score; a way that fails is a row that says why."""
    begun = time.perf_counter()
    try:
        lines = way(truth, folder, count)
    except (ts.TrackingError, ValueError, subprocess.CalledProcessError) as error:
        return {"failed": f"{type(error).__name__}: {error}"[:200]}
    seconds = time.perf_counter() - begun
    return {name: round(float(value), 3) for name, value in truth.score(lines).items()} | {"seconds": round(seconds, 1)}


def means(found: list[dict[str, Any]]) -> Iterator[str]:
    """Write the mean scores of each way by b-value and SNR."""
    keys = ("VC", "IC", "NC", "valid_bundles", "overlap", "overreach", "r")
    yield f"{'b':>5} {'SNR':>4} {'way':18}" + "".join(f"{key:>14}" for key in keys)
    groups = sorted({(row["bval"], row["snr"], row["way"]) for row in found})
    for bval, snr, way in groups:
        mine = [row for row in found if (row["bval"], row["snr"], row["way"]) == (bval, snr, way) and "VC" in row]
        values = [np.mean([row[key] for row in mine]) if mine else np.nan for key in keys]
        yield f"{bval:5g} {snr:4g} {way:18}" + "".join(f"{value:14.3f}" for value in values)


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
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--nseeds", type=int, default=5000)
    parser.add_argument("--ways", default=",".join(ways()))
    parser.add_argument("--set", nargs="+", action="append", default=[], metavar="WAY OPTION=VALUE")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    chosen = {name: way for name, way in ways().items() if name in given.ways.split(",")}
    for name, *options in given.set:
        pairs = (option.split("=", 1) for option in options)
        chosen[name] = partial(ours, **{key: value_of(value) for key, value in pairs})
    found = []
    for row in rows(given, chosen):
        found.append(row)
        sys.stderr.write(f"{json.dumps(row)}\n")
    sys.stdout.write("\n".join(means(found)) + "\n")
    if given.out is not None:
        command = shlex.join(["python", "benchmarks/quality.py", *sys.argv[1:]])
        about = {"command": command, "commit": commit(), "machine": machine(), "rows": found}
        given.out.write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
