"""iFOD1 and iFOD2 with ACT on an oblique grid in LAS order, beside the grid of the scan.

    python benchmarks/oblique.py FOLDER FIVE NSEEDS --out FILE [--fod FOD.mif] [--arch ARCH] [--only NAME,NAME]

FOLDER contains dwi.nii.gz, dwi.bval, dwi.bvec and mask.nii.gz, FIVE is a five-tissue-type image on their grid
(``benchmarks/five_tissues.py``). ``dwi2response tournier`` and ``dwi2fod csd`` make the FOD, unless --fod names one.
mrtransform turns FOD, tissues and mask by 25 degrees and reorients the FODs, and mrconvert stores them in LAS order.
The density of the turned brain is put back to the order of the first grid, without interpolation. Correlations are over
the voxels of the mask, and over cubes of voxels, for which fewer seeds suffice: between two runs on the grid of the
scan, which differ by chance ("again"), and with the turned one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
from frames import POLE, mrtrix
from products import make_fod
from records import write_record
from scipy.spatial.transform import Rotation

from tistreamlines.benchmarks.streamlines import correlation

DEGREES, LAS, CUBE = 25, "-1,2,3", 3  # CUBE: voxels along a side
KINDS = {"first": ("", 0), "again": ("", 1), "turned": ("turned-", 2)}  # images, and random seed


def turn(to: Path) -> None:
    """Write the turned images."""
    matrix = np.eye(4)
    matrix[:3, :3] = Rotation.from_rotvec(np.radians(DEGREES) * POLE).as_matrix()
    np.savetxt(to / "turn.txt", matrix)
    for name, strides in (("fod", f"{LAS},4"), ("5tt", f"{LAS},4"), ("mask", LAS)):
        more = ["-reorient_fod", "yes"] if name == "fod" else []
        mrtrix("mrtransform", to / f"{name}.mif", "-linear", to / "turn.txt", *more, to / "straight.mif")
        mrtrix("mrconvert", to / "straight.mif", "-strides", strides, to / f"turned-{name}.mif")


def tracked(dg: str, to: Path, kind: str, nseeds: int, arch: str) -> tuple[dict[str, Any], np.ndarray]:
    """Run our command; return its figures, and the density in RAS order of the voxel axes."""
    images, number = KINDS[kind]
    words = ["--sh", f"{images}fod.mif", "--sh-basis", "tournier07", "--seed-mask", f"{images}mask.mif", "--dg", dg]
    words += ["--act", f"{images}5tt.mif", "--nseeds", nseeds, "--seed-seed", number, "--rng-seed", number]
    words += ["--density", "density.nii", "--json-stats", "stats.json", "--force", "--quiet", "--arch", arch]
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-m", "tistreamlines", "track", *map(str, words)], check=True, cwd=to)
    row: dict[str, Any] = {"name": f"{dg}, {kind}", "seeds": nseeds, "seconds": round(time.perf_counter() - begun, 1)}
    stats = json.loads((to / "stats.json").read_text(encoding="utf-8"))
    row |= {"streamlines": stats["streamlines"], "mean_mm": round(stats["mean_mm"], 2)}
    mrtrix("mrconvert", to / "density.nii", "-strides", "1,2,3", to / f"{kind}.nii")
    return row, np.asarray(nib.load(to / f"{kind}.nii").dataobj)


def in_cubes(values: np.ndarray) -> np.ndarray:
    """Return the sums over cubes of voxels."""
    values = np.pad(values, [(0, -side % CUBE) for side in values.shape])
    return values.reshape([part for side in values.shape for part in (side // CUBE, CUBE)]).sum(axis=(1, 3, 5))


def main() -> None:
    """Track on both grids."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("five", type=Path)
    parser.add_argument("nseeds", type=int)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--fod", type=Path)
    parser.add_argument("--arch", default="cpu")
    parser.add_argument("--only", default="ifod1,ifod2")
    options = parser.parse_args()
    runs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as work:
        to, mask = Path(work), options.folder.resolve() / "mask.nii.gz"
        if options.fod is None:
            make_fod(options.folder, to)
        else:
            (to / "fod.mif").symlink_to(options.fod.resolve())
        for name, path in (("mask", mask), ("5tt", options.five.resolve())):
            mrtrix("mrconvert", path, to / f"{name}.mif")
        turn(to)
        inside = np.asarray(nib.load(mask).dataobj) > 0
        for dg in options.only.split(","):
            densities = {}
            for kind in KINDS:
                row, densities[kind] = tracked(dg, to, kind, options.nseeds, options.arch)
                runs.append(row)
                print(row, flush=True)
            for of, maps, where in (
                ("voxels", densities, inside),
                ("cubes", {kind: in_cubes(density) for kind, density in densities.items()}, in_cubes(inside) > 0),
            ):
                likeness = {kind: correlation(maps["first"], maps[kind], where) for kind in ("again", "turned")}
                rounded = {kind: round(value, 4) for kind, value in likeness.items()}
                runs.append({"name": f"correlations of {dg} in {of}"} | rounded)
            print(*runs[-2:], sep="\n", flush=True)
            write_record(options.out, runs=runs)


if __name__ == "__main__":
    main()
