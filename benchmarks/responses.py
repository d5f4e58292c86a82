"""Compare the responses of --response fa and tournier with MRtrix3's dwi2response tournier, and with the truth.

    python benchmarks/responses.py [--geometries NAMES] [--scans B:SNR:DIRECTIONS:MM,...] [--data FOLDER] [--out FILE]

The phantoms are those of benchmarks/quality.py, whose fibres have a known tensor. FOLDER has dwi.nii.gz, dwi.bval,
dwi.bvec and mask.nii.gz. Zonal harmonics of the even degrees from 0 on, orthonormal, and seconds.
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

import numpy as np
from dipy.reconst.csdeconv import ConstrainedSphericalDeconvModel
from records import write_record
from truth.scan import Scan
from truth.truth import ACROSS, ALONG, SIGNAL, Truth

from tistreamlines.fit.response import csd_response, iterative_response
from tistreamlines.fit.shells import on_shell, shell_of_models
from tistreamlines.io import nifti

ORDER = 8


def compared(folder: Path, tensor: bool) -> dict[str, Any]:
    """Return the zonal harmonics of each way for the series in a folder, and those of the phantoms' tensor."""
    dwi = nifti.load_dwi(*(folder / f"dwi.{suffix}" for suffix in ("nii.gz", "bval", "bvec")))
    mask = nifti.load_mask(folder / "mask.nii.gz", dwi.space)
    data, gtab = on_shell(dwi.data, dwi.gtab, shell_of_models)

    def zonal(response: tuple[Any, float]) -> list[float]:
        model: Any = ConstrainedSphericalDeconvModel(gtab, response, sh_order_max=ORDER)
        first = [np.flatnonzero(model.l_values == degree)[0] for degree in range(0, ORDER + 1, 2)]
        degrees = np.arange(0, ORDER + 1, 2)
        return (np.diagonal(model.R)[first] * np.sqrt((2 * degrees + 1) / (4 * np.pi))).tolist()

    responses: dict[str, Any] = {"true": zonal((np.array([ALONG, ACROSS, ACROSS]), SIGNAL))} if tensor else {}
    responses["fa"] = zonal(csd_response(data, gtab, mask)[0])
    iterative_response(data, gtab, mask, ORDER)  # compiles
    begun = time.perf_counter()
    responses["tournier"] = iterative_response(data, gtab, mask, ORDER).dwi_response.tolist()
    responses["seconds"] = time.perf_counter() - begun
    with tempfile.TemporaryDirectory() as scratch:
        inputs = [str((folder / name).resolve()) for name in ("dwi.nii.gz", "mask.nii.gz", "dwi.bvec", "dwi.bval")]
        options = ["-mask", inputs[1], "-fslgrad", *inputs[2:], "-scratch", scratch, "-quiet", "-lmax", str(ORDER)]
        begun = time.perf_counter()
        subprocess.run(["dwi2response", "tournier", inputs[0], "response.txt", *options], cwd=scratch, check=True)
        responses["mrtrix_seconds"] = time.perf_counter() - begun
        responses["mrtrix"] = np.loadtxt(Path(scratch) / "response.txt").tolist()
    return {name: np.round(value, 3).tolist() for name, value in responses.items()}


def main() -> None:
    """Compare, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--geometries", default="crossings,tangle")
    parser.add_argument("--scans", default="1000:20:64:2,3000:20:64:2")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = []
    for geometry in options.geometries.split(","):
        for scan in map(Scan.read, options.scans.split(",")):
            with tempfile.TemporaryDirectory() as folder:
                Truth(geometry, scan, 1).save(Path(folder))
                rows.append({"series": geometry, **scan.about} | compared(Path(folder), tensor=True))
            sys.stdout.write(f"{json.dumps(rows[-1])}\n")
    if options.data is not None:
        rows.append({"series": options.data.name} | compared(options.data, tensor=False))
        sys.stdout.write(f"{json.dumps(rows[-1])}\n")
    if options.out is not None:
        write_record(options.out, rows=rows)


if __name__ == "__main__":
    main()
