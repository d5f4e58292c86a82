"""Compare the fixels of ``tistreamlines fixels`` with those of MRtrix3's fod2fixel: their numbers, values and CPU time.

    python benchmarks/fixels.py FOD... --out FILE

FOD is an image of harmonics in the basis tournier07, such as dwi2fod writes. Both programs use all cores; CPU times are
those of the whole commands, with warm caches. Densities and directions are compared in the voxels in which both have as
many fixels.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
from records import write_record


def timed(*command: object) -> dict[str, float]:
    """Run a program; return the seconds that it took."""
    before, begun = os.times(), time.perf_counter()
    subprocess.run(list(map(str, command)), check=True)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return {"cpu_seconds": round(cpu, 2), "seconds": round(time.perf_counter() - begun, 2)}


def read(folder: Path, name: str) -> np.ndarray:
    """Return an image along the axes of its header, which MRtrix3 stores in another order."""
    out = folder.parent / "straight.nii"
    axes = "1,2,3,4" if name == "index" else "1,2,3"
    subprocess.run(["mrconvert", folder / f"{name}.mif", out, "-strides", axes, "-quiet", "-force"], check=True)
    image: Any = nib.load(out)
    return np.asarray(image.dataobj).squeeze().copy()


def compared(fod: Path, folder: Path) -> dict[str, Any]:
    """Find the fixels with both programs, and compare them."""
    ours, theirs = folder / "ours", folder / "theirs"
    call = [sys.executable, "-m", "tistreamlines", "fixels", fod, ours, "--sh-basis", "tournier07", "-q", "--force"]
    timed(*call)  # compiles
    times = {"tistreamlines": timed(*call)}
    times["fod2fixel"] = timed("fod2fixel", fod, theirs, "-afd", "afd.mif", "-quiet", "-force")
    index, other = read(ours, "index"), read(theirs, "index")
    counts = index[..., 0]
    either = (counts > 0) | (other[..., 0] > 0)
    same = either & (counts == other[..., 0])
    fixels, other_fixels = (np.concatenate([first + np.arange(n) for n, first in images[same].astype(int)])
                            for images in (index, other))
    densities, others = read(ours, "afd")[fixels], read(theirs, "afd")[other_fixels]
    cosines = np.abs((read(ours, "directions")[fixels] * read(theirs, "directions")[other_fixels]).sum(axis=1))
    return {
        "fod": fod.name, "voxels": int(either.sum()), "fixels": int(counts.sum()),
        "fod2fixels_fixels": int(other[..., 0].sum()), "voxels_with_as_many": float(same.sum() / either.sum()),
        "r_of_densities": float(np.corrcoef(densities, others)[0, 1]) if np.ptp(others) else None,
        "largest_difference_of_densities": float(np.abs(densities - others).max()),
        "within_1_degree": float((cosines > np.cos(np.radians(1))).mean()),
        "largest_angle": float(np.degrees(np.arccos(np.minimum(cosines, 1)).max())), **times,
    }


def main() -> None:
    """Compare the images, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fods", type=Path, nargs="+", metavar="FOD")
    parser.add_argument("--out", type=Path, required=True)
    options, runs = parser.parse_args(), []
    for fod in options.fods:
        with tempfile.TemporaryDirectory() as work:
            runs.append(compared(fod, Path(work)))
            print(runs[-1])
    write_record(options.out, runs=runs)


if __name__ == "__main__":
    main()
