"""Track through samples of fibres in several ways, and compare with the probabilistic getter on the same series.

    python benchmarks/samples.py SAMPLES SERIES [--phantom] [--nseeds N] [--out FILE]

SAMPLES is a folder that ball_and_sticks.py has written, SERIES the one it was drawn from: dwi.nii.gz, dwi.bval,
dwi.bvec and mask.nii.gz. All ways have the same random seeds: in voxels whose mean f of fibre 1 is above 0.3, with
--phantom in those that bundles fill to more than a half. "f above 0.1" ends streamlines where the mean f of fibre 1 is
at most 0.1 instead of outside the brain. With --phantom, "valid" is the share of streamlines with one end in each of
the two end regions of a bundle, in %, and "bundles" has it for each. "r" is the correlation of the density of
streamlines with that of ``prob``. Steps a second are those of tracking alone; streamlines below 5 voxels are dropped,
as by default.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
from records import write_record

import tistreamlines as ts
from tistreamlines.phantom.phantom import Phantom, joined_share, make_phantom

WIDTH_MM = 150.0  # of ball_and_sticks.py's phantom
SEED_F, LEAST_F, FILLED = 0.3, 0.1, 0.5
WAYS: dict[str, dict[str, Any]] = {
    "bedpostx": {}, "modified Euler": {"modified_euler": True}, "random fibre": {"random_fibre": True},
    "use f": {"use_f": True}, "f above 0.1": {"stopping": "threshold", "stop_threshold": LEAST_F},
}


def summary(
    result: ts.TrackResult, density: np.ndarray, reference: np.ndarray, phantom: Phantom | None
) -> dict[str, Any]:
    """Return the numbers of a run; both densities are counts of streamlines (x, y, z)."""
    ends = result.stop_reasons
    row: dict[str, Any] = {
        "streamlines": len(result), "mean_mm": round(result.mean_mm, 1), "median_mm": round(result.median_mm, 1),
        "no_direction": round(ends.get("no_direction", 0) / sum(ends.values()), 3),
        "r": round(float(np.corrcoef(density.ravel(), reference.ravel())[0, 1]), 3) if density.any() else None,
        "seconds": round(result.seconds["track"], 2),
        "streamlines_per_second": round(result.streamlines_per_second),
        "points_per_second": round(result.points / result.seconds["track"]),
    }
    lines = list(result)
    if phantom is not None and lines:
        joined = joined_share(phantom, np.concatenate(lines), np.cumsum([0, *map(len, lines)]))
        shares = {name: round(100 * count / joined.total, 2) for name, count in joined.per_bundle.items()}
        row |= {"valid": round(100 * joined.share, 1), "bundles": shares}
    return row


def main() -> None:
    """Track, write and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("samples", type=Path)
    parser.add_argument("series", type=Path)
    parser.add_argument("--phantom", action="store_true")
    parser.add_argument("--nseeds", type=int, default=20_000)
    parser.add_argument("--arch", default="cpu")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    first = nib.load(arguments.samples / "merged_f1samples.nii.gz")
    mean_f = nib.Nifti1Image(np.mean(first.dataobj, axis=3, dtype=np.float32), first.affine)
    shape = tuple(map(int, first.shape[:3]))
    phantom = make_phantom(shape, WIDTH_MM / shape[0]) if arguments.phantom else None
    if phantom is None:
        place = mean_f.get_fdata() > SEED_F
    else:
        place = sum(bundle.membership for bundle in phantom.bundles) > FILLED
    common = {
        "seed_mask": nib.Nifti1Image(place.astype(np.uint8), first.affine),
        "nseeds": arguments.nseeds, "arch": arguments.arch,
    }
    series = [arguments.series / f"dwi.{suffix}" for suffix in ("nii.gz", "bval", "bvec")]
    rows = []
    with tempfile.TemporaryDirectory() as name:
        def run(*inputs: Path, **options: Any) -> tuple[ts.TrackResult, np.ndarray]:
            """Track and count."""
            path = Path(name) / "density.nii.gz"
            result = ts.track(*inputs, output=Path(name) / "all.trx", density=path, force=True, **common, **options)
            return result, nib.load(path).get_fdata()

        prob, reference = run(*series, dg="prob", mask=arguments.series / "mask.nii.gz")
        rows.append({"way": "prob"} | summary(prob, reference, reference, phantom))
        for way, options in WAYS.items():
            stop = {"stop_map": mean_f} if "stopping" in options else {}
            rows.append({"way": way} | summary(*run(bedpostx=arguments.samples, **options, **stop), reference, phantom))
    for row in rows:
        print(row)
    if arguments.out:
        write_record(arguments.out, nseeds=arguments.nseeds, rows=rows)


if __name__ == "__main__":
    sys.exit(main())
