"""Compare streamline density with MRtrix3's tckgen on differently oriented grids, from bvecs and from MRtrix3's FODs.

    python benchmarks/frames.py FOLDER NSEEDS [--out FILE]

FOLDER contains dwi.nii.gz, dwi.bval, dwi.bvec (along the voxel axes, as DIPY reads them) and mask.nii.gz. The scan is
written on a grid along the scanner axes (trivial). mrtransform and mrconvert, which exports FSL's gradients, produce
the other grids from it. On each grid dwi2fod fits harmonics of order 6 with the response of the trivial grid. tckgen
(iFOD1), ``prob`` from the series and ``prob`` from dwi2fod's file then track the same voxels with the same step size,
angle and stop map. The correlations are between visit maps in the mask. No frame option is given.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
from scipy.spatial.transform import Rotation

import tistreamlines as ts
from tistreamlines.benchmarks.streamlines import concatenate_lines, correlation, density, lengths_mm
from tistreamlines.run.record import versions
from tistreamlines.space.batch import Space

ORDER, ANGLE, STOP, SEEDED = 6, 20.0, 0.1, 0.25
POLE = np.array([1, 2, -1.5]) / np.linalg.norm([1, 2, -1.5])
# degrees about POLE, and MRtrix3's strides
GRIDS = {"trivial": (0, "1,2,3,4"), "LAS": (0, "-1,2,3,4"), "permuted": (0, "3,1,-2,4")} | {
    f"{angle} degrees, {hand}": (angle, strides)
    for angle in (5, 20, 45)
    for hand, strides in (("right-handed", "1,2,3,4"), ("left-handed", "-1,2,3,4"))
}


def mrtrix(*words: Any) -> None:
    """Run a program of MRtrix3."""
    subprocess.run([*map(str, words), "-quiet", "-force"], check=True)


def trivial(folder: Path, to: Path) -> None:
    """Write the scan on a grid along the scanner axes, with gradients in FSL's format."""
    for name in ("dwi", "mask"):
        image = nib.load(folder / f"{name}.nii.gz")
        affine = np.diag([*Space(image.affine, image.shape[:3]).voxel_sizes, 1.0])
        nib.save(nib.Nifti1Image(np.asarray(image.dataobj), affine), to / f"{name}.nii")
    bvecs = np.loadtxt(folder / "dwi.bvec")
    np.savetxt(to / "dwi.bvec", (bvecs if len(bvecs) == 3 else bvecs.T) * [[-1], [1], [1]])
    gradients = ["-fslgrad", to / "dwi.bvec", folder / "dwi.bval"]
    mrtrix("mrconvert", to / "dwi.nii", *gradients, to / "dwi.mif")
    mrtrix("dwi2response", "tournier", to / "dwi.mif", "-mask", to / "mask.nii", to / "response.txt", "-lmax", ORDER)


def place(root: Path, to: Path, angle: float, strides: str) -> None:
    """Write the scan, its FA, seeds and harmonics on another grid."""
    turn = np.eye(4)
    turn[:3, :3] = Rotation.from_rotvec(np.radians(angle) * POLE).as_matrix()
    np.savetxt(to / "turn.txt", turn)
    for name, volumes in (("dwi.mif", strides), ("mask.nii", strides.rsplit(",", 1)[0])):
        mrtrix("mrtransform", root / name, "-linear", to / "turn.txt", to / "turned.mif")
        mrtrix("mrconvert", to / "turned.mif", "-strides", volumes, to / f"{name[:-4]}.mif")
    mrtrix("mrconvert", to / "mask.mif", "-datatype", "uint8", to / "mask.nii")
    mrtrix("mrconvert", to / "dwi.mif", to / "dwi.nii", "-export_grad_fsl", to / "dwi.bvec", to / "dwi.bval")
    mrtrix("dwi2tensor", to / "dwi.mif", "-mask", to / "mask.nii", to / "tensor.mif")
    mrtrix("tensor2metric", to / "tensor.mif", "-fa", to / "fa.nii")
    for name, least in (("seeds", SEEDED), ("inside", STOP)):
        mrtrix("mrthreshold", to / "fa.nii", "-abs", least, "-mask", to / "mask.nii", to / f"{name}.nii")
    mrtrix("dwi2fod", "csd", to / "dwi.mif", root / "response.txt", to / "fod.nii", "-mask", to / "mask.nii",
           "-lmax", ORDER)


def tckgen(at: Path, nseeds: int, cutoff: float, step: float) -> Any:
    """Track with tckgen, which uses other random numbers in each run."""
    mrtrix("tckgen", at / "fod.nii", at / "out.tck", "-algorithm", "iFOD1", "-seed_image", at / "seeds.nii", "-mask",
           at / "inside.nii", "-select", 0, "-seeds", nseeds, "-cutoff", cutoff, "-step", step, "-angle", ANGLE,
           "-minlength", 2 * step)
    return concatenate_lines(nib.streamlines.load(at / "out.tck").streamlines, 0.0)


def ours(at: Path, nseeds: int, step: float, **source: Any) -> Any:
    """Track with prob."""
    series = [] if source else [at / name for name in ("dwi.nii", "dwi.bval", "dwi.bvec")]
    source = source or {"sh_order": ORDER, "mask": at / "mask.nii"}
    batches = ts.stream(
        *series, dg="prob", nseeds=nseeds, max_angle=ANGLE, step_size=f"{step}mm", stop_map=at / "fa.nii",
        stop_threshold=STOP, seed_mask=at / "seeds.nii", min_length=2 * step, max_directions=1, **source,
    )
    return concatenate_lines([line for batch in batches for line in batch], 0.0)


def measure(root: Path, at: Path, nseeds: int) -> dict[str, Any]:
    """Track on one grid; return the correlations of the density maps."""
    image = nib.load(at / "mask.nii")
    space, mask = Space(image.affine, image.shape), np.asarray(image.dataobj) > 0
    step = float(space.voxel_sizes.min()) / 2
    cutoff = 0.1 * float(np.percentile(np.asarray(nib.load(at / "fod.nii").dataobj)[..., 0][mask], 90)) * 3
    runs = {
        "tckgen": tckgen(at, nseeds, cutoff, step),
        "tckgen again": tckgen(at, nseeds, cutoff, step),
        "from bvecs": ours(at, nseeds, step),
        "from harmonics": ours(at, nseeds, step, sh=at / "fod.nii", sh_basis="tournier07"),
    }
    maps = {name: density(run, space) for name, run in runs.items()}
    return {
        "determinant": int(np.sign(np.linalg.det(space.affine[:3, :3]))),
        "mean_mm": {name: round(float(lengths_mm(run).mean()), 2) for name, run in runs.items()},
        "correlation_with_tckgen": {
            name: round(correlation(maps["tckgen"], maps[name], mask), 4) for name in list(maps)[1:]
        },
    }


def main() -> None:
    """Compare all grids, and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("nseeds", type=int)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    rows = {}
    with tempfile.TemporaryDirectory() as held:
        root = Path(held)
        trivial(chosen.folder, root)
        for number, (name, (angle, strides)) in enumerate(GRIDS.items()):
            at = root / str(number)
            at.mkdir()
            place(root, at, angle, strides)
            rows[name] = measure(root, at, chosen.nseeds)
            print(name, json.dumps(rows[name]), flush=True)
    if chosen.out:
        record = {
            "command": f"python benchmarks/frames.py {chosen.folder.name} {chosen.nseeds}", "versions": versions(),
            "mrtrix3": subprocess.check_output(["mrinfo", "-version"], text=True).split()[2],
            "data": chosen.folder.name, "nseeds": chosen.nseeds, "grids": rows,
        }
        chosen.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
