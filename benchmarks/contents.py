"""Sizes of tractograms by what they hold, and the difference between samples of FA and those of MRtrix3's tcksample.

    python benchmarks/contents.py FOLDER NSEEDS --out FILE

FOLDER contains dwi.nii.gz, dwi.bval, dwi.bvec and mask.nii.gz. MRtrix3's dwi2tensor and tensor2metric make the FA map,
in which NaN is set to 0. The seeds are tracked with ``prob`` on the CPU for each of the contents below.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
from records import write_record

import tistreamlines as ts
from tistreamlines.tracking.products.samples.sampler import STATISTICS

CONTENTS: list[dict[str, Any]] = [
    {}, {"sample": True}, {"sample": True, "sample_points": True}, {"endpoints_only": True}, {"points": "float16"},
    {"compress": 0.01}, {"compress": 0.1}, {"compress": 0.1, "points": "float16"},
]


def mrtrix(*words: Any) -> None:
    """Run a program of MRtrix3."""
    subprocess.run([*map(str, words), "-quiet", "-force"], check=True)


def make_fa(folder: Path, to: Path) -> Path:
    """Write an FA map without NaN."""
    gradients, mask = ["-fslgrad", folder / "dwi.bvec", folder / "dwi.bval"], ["-mask", folder / "mask.nii.gz"]
    mrtrix("dwi2tensor", folder / "dwi.nii.gz", to / "tensor.mif", *gradients, *mask)
    mrtrix("tensor2metric", to / "tensor.mif", "-fa", to / "FA.nii", *mask)
    image = nib.load(to / "FA.nii")
    nib.save(nib.Nifti1Image(np.nan_to_num(image.get_fdata(dtype=np.float32)), image.affine), to / "FA.nii")
    return to / "FA.nii"


def main() -> None:
    """Track the seeds for each content, and compare the samples."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("nseeds", type=int)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    series, runs = [options.folder / name for name in ("dwi.nii.gz", "dwi.bval", "dwi.bvec")], []
    with tempfile.TemporaryDirectory() as work:
        to = Path(work)
        fa = make_fa(options.folder, to)
        common: dict[str, Any] = {"mask": options.folder / "mask.nii.gz", "nseeds": options.nseeds, "dg": "prob"}
        common |= {"arch": "cpu", "force": True, "cache_dir": to / "cache"}
        for content in CONTENTS:
            more = content | ({"sample": fa} if "sample" in content else {})
            result = ts.track(*series, to / "a.trx", **common, **more)
            size = (to / "a.trx").stat().st_size
            runs.append({"content": content, "streamlines": len(result), "bytes": size})
        ts.track(*series, to / "b.tck", **common, sample=fa)
        table = np.genfromtxt(to / "b_samples.csv", delimiter=",", names=True)
        for which in STATISTICS:
            mrtrix("tcksample", to / "b.tck", fa, to / "values.txt", "-stat_tck", which)
            difference = np.abs(np.loadtxt(to / "values.txt") - table[f"FA_{which}"]).max()
            runs.append({"statistic": which, "streamlines": len(table), "greatest_difference": float(difference)})
    write_record(options.out, runs=runs)


if __name__ == "__main__":
    main()
