"""Many parcellations in one pass of ``tistreamlines map``: what each costs, and that its matrices are QSIRecon's.

    python benchmarks/atlases.py STREAMLINES.tck MASK --atlases 4 92 --compared 8 --out FILE

The parcellations have 50 to 1,000 nodes in the shell of the mask, of four kinds by turns: plain, with holes, with
labels that leave numbers out, and on a rotated grid of other voxels. ``--kinds plain`` has the first alone. Weights are
lognormal, and every 97th is 0. Of the first ``compared`` ones, the four matrices are compared with those of
tck2connectome, called as QSIRecon's ``mrtrix_multishell_msmt_ACT-hsvs`` calls it, of .mif files: the affine of a NIfTI
file is another one there, in the last digits.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import nibabel as nib
import numpy as np
from mapping import measured
from records import write_record
from scipy.ndimage import distance_transform_edt
from scipy.spatial import cKDTree

from tistreamlines.io.tractograms import stored_batches

LEAST, MOST = 50, 1000  # nodes
SHELL = 8  # voxels from the border of the mask, which have nodes
HOLES = 0.3  # of the voxels
TURNED = 0.3  # radians
OTHER = 1.3  # mm, the side of other voxels
KINDS = ("plain", "holes", "gaps", "grid")
OPTIONS = ["-symmetric", "-assignment_radial_search", "2", "-quiet", "-force", "-nthreads", "2"]
MEASURES = {  # of QSIRecon, with its options of tck2connectome
    "sift_radius2_count": ["-tck_weights_in", "w.txt"],
    "sift_invnodevol_radius2_count": ["-tck_weights_in", "w.txt", "-scale_invnodevol"],
    "radius2_count": [],
    "radius2_meanlength": ["-scale_length", "-stat_edge", "mean"],
}


def make_atlas(mask: Path, number: int, count: int, kinds: tuple[str, ...], to: Path) -> None:
    """Write a parcellation of the shell of the mask."""
    image, rng, kind = nib.load(mask), np.random.default_rng(number), kinds[number % len(kinds)]
    inside, affine = image.get_fdata() > 0, image.affine
    shell = inside & (distance_transform_edt(inside) <= SHELL)
    if kind == "grid":
        turn = np.eye(4)
        turn[:2, :2] = [[np.cos(TURNED), -np.sin(TURNED)], [np.sin(TURNED), np.cos(TURNED)]]
        affine = affine @ turn @ np.diag([*(OTHER / np.linalg.norm(affine[:3, :3], axis=0)), 1])
        shape = np.ceil(np.array(inside.shape) * np.linalg.norm(image.affine[:3, :3], axis=0) / OTHER).astype(int)
        places = nib.affines.apply_affine(np.linalg.inv(image.affine) @ affine, np.argwhere(np.ones(shape)))
        nearest = np.rint(places).astype(int)
        there = ((nearest >= 0) & (nearest < inside.shape)).all(axis=1)
        nearest[~there] = 0
        shell = (there & shell[tuple(nearest.T)]).reshape(shape)
    voxels = np.argwhere(shell)
    nodes = int(np.linspace(LEAST, MOST, max(count, 2))[number])
    centres = voxels[rng.choice(len(voxels), nodes, replace=False)]
    labels = np.zeros(shell.shape, np.int16)
    labels[shell] = cKDTree(centres).query(voxels)[1] + 1
    if kind == "gaps":
        labels *= 3
    if kind == "holes":
        labels[rng.random(labels.shape) < HOLES] = 0
    nib.save(nib.Nifti1Image(labels, affine), to / f"a{number}.nii.gz")


def mapped(folder: Path, count: int) -> dict[str, object]:
    """Make the matrices of so many parcellations; return what it takes."""
    command = [sys.executable, "-m", "tistreamlines", "map", "lines.tck", "--force", "--weights", "w.txt"]
    command += ["--connectome-measure", "qsirecon"]
    for number in range(count):
        command += ["--connectome", f"a{number}.nii.gz", f"m{number}.csv"]
    wall, cpu, memory = measured(command, folder)
    return {
        "atlases": count, "wall_s": round(wall, 2), "cpu_s": round(cpu, 2), "memory_mb": round(memory),
        "load": os.getloadavg()[0],
    }


def compared(folder: Path, number: int) -> dict[str, object]:
    """Return how the matrices of a parcellation differ from tck2connectome's: greatest differences, relative."""
    row: dict[str, object] = {"atlas": number}
    subprocess.run(["mrconvert", f"a{number}.nii.gz", f"a{number}.mif", "-quiet", "-force"], cwd=folder, check=True)
    command = [sys.executable, "-m", "tistreamlines", "map", "lines.tck", "--force", "--weights", "w.txt"]
    command += ["--connectome-measure", "qsirecon", "--connectome", f"a{number}.mif", f"m{number}.csv"]
    measured(command, folder)
    for name, options in MEASURES.items():
        command = ["tck2connectome", "lines.tck", f"a{number}.mif", "t.csv", *OPTIONS, *options]
        subprocess.run(command, cwd=folder, check=True)
        file = f"m{number}.csv" if name == "sift_radius2_count" else f"m{number}_{name}.csv"
        ours, theirs = (np.loadtxt(folder / path, delimiter=",") for path in (file, "t.csv"))
        assert np.array_equal(ours > 0, theirs > 0), (number, name)
        edges = theirs > 0
        row |= {"nodes": len(ours), "edges": int(np.triu(edges).sum())}
        row[name] = float(np.abs(ours[edges] / theirs[edges] - 1).max())
    return row


def main() -> None:
    """Make parcellations and weights, time the commands, and compare matrices."""
    parser = argparse.ArgumentParser()
    parser.add_argument("streamlines", type=Path)
    parser.add_argument("mask", type=Path)
    parser.add_argument("--atlases", type=int, nargs="+", default=[4, 92])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--compared", type=int, default=8)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        (folder / "lines.tck").symlink_to(options.streamlines.resolve())
        for number in range(max(options.atlases)):
            make_atlas(options.mask, number, max(options.atlases), tuple(options.kinds), folder)
        streamlines = sum(map(len, stored_batches(options.streamlines)))
        weights = np.random.default_rng(1).lognormal(0, 1.5, streamlines)
        weights[::97] = 0
        np.savetxt(folder / "w.txt", weights, "%.10g")
        mapped(folder, 1)  # kernels are compiled
        runs = [mapped(folder, count) for count in options.atlases]
        matrices = [compared(folder, number) for number in range(min(options.compared, max(options.atlases)))]
    write_record(options.out, streamlines=streamlines, kinds=options.kinds, runs=runs, matrices=matrices)


if __name__ == "__main__":
    main()
