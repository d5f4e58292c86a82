"""``tistreamlines map`` beside MRtrix3's tck2connectome and tckmap and DIPY's density_map: time, nodes and maps.

    python benchmarks/mapping.py STREAMLINES.tck GRID --repeats 5 --copies 10 --out FILE

GRID is an image whose voxels the maps have. Its voxels are the parcellation too, with 125 labels such that no two
neighbours have the same. ``copies`` joins the file with itself, so that the start of the programs matters less. The
programs of MRtrix3 have two threads, and ``map`` as many as there are processors. DIPY is compared on the first 5000
streamlines, with up to 40 points in place of each one, along the same segments.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
from dipy.tracking.utils import density_map
from records import write_record

from tistreamlines.io.tractograms import batch_of, stored_batches
from tistreamlines.space.batch import Batch
from tistreamlines.tracking.products.density.density import Density
from tistreamlines.tracking.products.density.map import grid_of_map

OURS = [sys.executable, "-m", "tistreamlines", "map", "lines.tck", "--force"]
MRTRIX = ["-quiet", "-force", "-nthreads", "2"]
COMMANDS = {
    "map, matrix and density": [*OURS, "--connectome", "labels.nii", "a.csv", "--density", "a.nii", "--density-grid",
                                "labels.nii"],
    "map, matrix": [*OURS, "--connectome", "labels.nii", "c.csv"],
    "map, density": [*OURS, "--density", "d.nii", "--density-grid", "labels.nii"],
    "tck2connectome": ["tck2connectome", "lines.tck", "labels.nii", "b.csv", *MRTRIX],
    "tckmap": ["tckmap", "lines.tck", "b.nii", "-template", "labels.nii", *MRTRIX],
}
FIRST = 5000


def measured(command: list[str], folder: Path) -> tuple[float, float, float]:
    """Run a command; return its wall time (s), its processor time (s) and its memory (MB)."""
    timer = ["/usr/bin/time", "-f", "%e %U %S %M", "-o", "time.txt"]
    subprocess.run([*timer, *command], cwd=folder, stdout=subprocess.DEVNULL, check=True)
    wall, user, system, kilobytes = map(float, (folder / "time.txt").read_text().split())
    return wall, user + system, kilobytes / 1024


def timed(folder: Path, repeats: int) -> list[dict[str, Any]]:
    """Time the commands in turn."""
    seconds = np.array([[measured(command, folder) for command in COMMANDS.values()] for _ in range(repeats)])
    return [
        {"command": name, "repeats": repeats, "load": os.getloadavg()[0]}
        | {f"wall_s_{which}": round(float(of(turns[:, 0])), 2) for which, of in (("min", np.min), ("max", np.max))}
        | {f"cpu_s_{which}": round(float(of(turns[:, 1])), 2) for which, of in (("min", np.min), ("max", np.max))}
        | {"memory_mb": round(float(turns[:, 2].max()))}
        for name, turns in zip(COMMANDS, seconds.transpose(1, 0, 2), strict=True)
    ]


def other_ends(folder: Path, labels: str) -> dict[str, Any]:
    """Count the ends that tck2connectome -assignment_end_voxels takes to another node."""
    command = f"tck2connectome one.tck {labels} b.csv -assignment_end_voxels -out_assignments b.txt"
    measured([*command.split(), *MRTRIX], folder)
    ours = [*OURS, "--connectome", labels, "e.csv", "--connectome-assignment", "end-voxel", "--connectome-pairs"]
    measured([word.replace("lines.tck", "one.tck") for word in ours], folder)
    pairs = [np.loadtxt(folder / name, dtype=int) for name in ("e_pairs.tsv", "b.txt")]
    return {"labels": labels, "ends": pairs[0].size, "other_nodes": int((pairs[0] != pairs[1]).sum())}


def finer(line: np.ndarray, times: int) -> np.ndarray:
    """Return a streamline with that many points for each of its own, along the same segments."""
    at = np.arange((len(line) - 1) * times + 1) / times
    return np.stack([np.interp(at, np.arange(len(line)), values) for values in line.T], axis=1).astype(np.float32)


def beside_dipy(folder: Path) -> list[dict[str, Any]]:
    """Compare maps of the same segments, with more and more points on them."""
    space, runs = grid_of_map(folder / "labels.nii"), []
    batch = Batch.concatenate(stored_batches(folder / "one.tck"))[:FIRST]
    lines = np.split(batch.points, batch.offsets[1:-1])
    for times in (1, 10, 40):
        dense = [finer(line, times) for line in lines]
        density = Density(space, batch.longest_step + 1e-3, 2)
        density.add(batch_of(np.concatenate(dense), np.array([len(line) for line in dense])))
        ours, theirs = density.counts(), density_map(dense, space.affine, space.shape)
        passed = (ours > 0) | (theirs > 0)
        runs.append({
            "points_for_each": times, "streamlines": len(dense), "voxels": int(passed.sum()),
            "share_of_equal_voxels": float(np.mean(ours[passed] == theirs[passed])),
            "greatest_difference": int(np.abs(ours - theirs).max()), "dipy_sum": int(theirs.sum()),
            "our_sum": int(ours.sum()),
        })
    return runs


def main() -> None:
    """Make the labels, time the commands, and compare nodes and maps."""
    parser = argparse.ArgumentParser()
    parser.add_argument("streamlines", type=Path)
    parser.add_argument("grid", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--copies", type=int, default=10)
    parser.add_argument("--out", type=Path, required=True)
    options, runs = parser.parse_args(), []
    with tempfile.TemporaryDirectory() as work:
        folder, image = Path(work), nib.load(options.grid)
        i, j, k = np.indices(image.shape[:3]) % 5
        nib.save(nib.Nifti1Image((1 + i + 5 * j + 25 * k).astype(np.int16), image.affine), folder / "labels.nii")
        measured(["mrconvert", "labels.nii", "labels.mif", "-quiet"], folder)
        names = [f"{number}.tck" for number in range(options.copies)]
        for name in ("one.tck", *names):
            (folder / name).symlink_to(options.streamlines.resolve())
        measured(["tckedit", *names, "lines.tck", "-quiet"], folder)
        runs += timed(folder, options.repeats)
        runs += [other_ends(folder, labels) for labels in ("labels.nii", "labels.mif")]
        runs += beside_dipy(folder)
    write_record(options.out, runs=runs)


if __name__ == "__main__":
    main()
