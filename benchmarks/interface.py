"""Compare seeds at the interface of grey and white matter with those of MRtrix3's tckgen: speed, and where they lie.

    python benchmarks/interface.py NSEEDS [--five FILE] --out FILE

A ball of white matter in a shell of grey matter is written as five tissues, a large and a small one, with a gradual
change (4 mm) and with an abrupt one, in voxels of 1 mm; FILE is another segmentation. 5tt2gmwmi makes the mask, and
``tckgen -algorithm seedtest`` writes its seeds. Speeds are those of one thread, by its CPU time. The seeds in each cube
are counted, and the counts compared by a chi-square test; ``spread`` is the standard deviation of their ratios less 1,
and ``chance`` what it would be if both were drawn alike, for the cubes with at least 1000 seeds of tckgen.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
from records import write_record
from scipy.stats import chi2_contingency

from tistreamlines.tracking.seeding.interface import interface_seeds, load_segmentation
from tistreamlines.tracking.seeding.seeds import Draw

CORTEX, ENOUGH = 4.0, 1000
CUBES = {45.3: 8, 10.3: 3}  # voxels along a side of a cube, by the radius of the ball in mm


def ball(radius: float, width: float, path: Path) -> Path:
    """Write a ball whose tissues change over a width, mm."""
    affine, size = np.eye(4), int(2 * (radius + CORTEX + 14))
    affine[:3, 3] = np.array([0.3, -0.2, 0.1]) - (size - 1) / 2
    away = np.linalg.norm(np.indices((size,) * 3) + affine[:3, 3, None, None, None], axis=0)
    white, head = (np.clip(0.5 + (edge - away) / width, 0, 1) for edge in (radius, radius + CORTEX))
    parts = (1 - white) * head, 0 * white, white * head, 1 - head, 0 * white
    nib.save(nib.Nifti1Image(np.stack(parts, axis=-1).astype(np.float32), affine), path)
    return path


def children() -> float:
    """Return the CPU time of the programs that have ended, seconds."""
    times = os.times()
    return times.children_user + times.children_system


def tckgen(five: Path, mask: Path, count: int, to: Path) -> tuple[np.ndarray, float]:
    """Return the seeds of tckgen, RASmm, and how many it finds in a second."""
    subprocess.run(["5tt2gmwmi", five, mask, "-quiet", "-force"], check=True)
    words = ["-seed_gmwmi", mask, "-act", five, *f"-select {count} -seeds 0 -minlength 0 -nthreads 0 -quiet".split()]
    begun = children()
    subprocess.run(["tckgen", "-force", "-algorithm", "seedtest", five, to, *words], check=True,
                   env=os.environ | {"MRTRIX_RNG_SEED": "3"})
    seconds = children() - begun
    points: Any = nib.streamlines.load(to).streamlines
    return points.get_data(), count / seconds


def compared(five: Path, cube: int, count: int, folder: Path) -> dict[str, Any]:
    """Find as many seeds with both programs, and compare those in cubes of so many voxels along a side."""
    mask = folder / "mask.nii"
    theirs, their_speed = tckgen(five, mask, count, folder / "seeds.tck")
    image: Any = nib.load(mask)
    weights, space = np.asarray(image.dataobj), load_segmentation(five).space
    voxels = np.argwhere(weights).astype(np.int32)
    seeds = interface_seeds(five, voxels, weights[tuple(voxels.T)], image.affine, space, Draw(count, 0, 1))
    seeds.points(0, 1)  # compiles
    begun = time.process_time()
    ours = seeds.points(0, count)
    speed = count / (time.process_time() - begun)
    sides = -(-np.array(space.shape) // cube) + 1
    places = [np.floor(points / cube).astype(int) + 1 for points in (ours, space.to_voxel(theirs))]
    numbers = [np.ravel_multi_index(tuple(place.T), tuple(sides)) for place in places]
    counts = np.array([np.bincount(number, minlength=sides.prod()) for number in numbers])
    counts = counts[:, counts[1] >= ENOUGH]
    return {
        "segmentation": five.stem, "seeds": count, "seeds_per_second": round(speed),
        "tckgen_per_second": round(their_speed), "voxels_along_a_cube": cube,
        "cubes": counts.shape[1], "p": float(chi2_contingency(counts).pvalue),
        "spread": float(np.std(counts[0] / counts[1] - 1)), "chance": float(np.sqrt((2 / counts[1]).mean())),
    }


def main() -> None:
    """Compare the segmentations, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("nseeds", type=int)
    parser.add_argument("--five", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options, runs = parser.parse_args(), []
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        cases = [] if options.five is None else [(options.five, 3)]
        for radius, cube in CUBES.items():
            for name, width in (("gradual", 4.0), ("abrupt", 1e-9)):
                cases.append((ball(radius, width, folder / f"{name}, {radius:g} mm.nii"), cube))
        for path, cube in cases:
            runs.append(compared(path, cube, options.nseeds, folder))
            print(runs[-1])
    write_record(options.out, runs=runs)


if __name__ == "__main__":
    main()
