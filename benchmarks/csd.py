"""Time constrained spherical deconvolution and compare it with DIPY; prints one line of JSON.

    python benchmarks/csd.py FOLDER [--order L] [--threads N] [--repeat K] [--arch A] [--no-dipy]

FOLDER contains dwi.nii.gz, dwi.bval, dwi.bvec and mask.nii.gz. Only the lowest shell is fitted. The times of the
repeats exclude compilation. The hash is that of the coefficients. DIPY's time is that of one model.fit with one BLAS
thread.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # DIPY's matrix products are small and slower with more threads

import argparse
import hashlib
import json
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np

TOLERANCE = 1e-4


def against_dipy(data, gtab, mask, response, order: int, fitted) -> dict[str, float]:
    """Return the seconds of DIPY's fit, and the largest difference in the coefficients."""
    from dipy.reconst.csdeconv import ConstrainedSphericalDeconvModel

    model = ConstrainedSphericalDeconvModel(gtab, response, sh_order_max=order)
    begun = time.perf_counter()
    coefficients = model.fit(data, mask=mask).shm_coeff
    seconds = time.perf_counter() - begun
    apart = np.abs(coefficients[mask] - fitted[mask]).max(axis=1)
    return {
        "dipy_seconds": round(seconds, 2), "greatest_difference": float(apart.max()),
        "greatest_coefficient": float(np.abs(coefficients[mask]).max()), "within": float((apart <= TOLERANCE).mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--order", type=int, default=8)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--arch", default="cpu")
    parser.add_argument("--no-dipy", action="store_true")
    options = parser.parse_args()
    from tistreamlines.fit.csd import fit_csd
    from tistreamlines.fit.response import csd_response
    from tistreamlines.fit.shells import on_shell, shell_of_models
    from tistreamlines.io import nifti

    dwi = nifti.load_dwi(*(options.folder / f"dwi.{suffix}" for suffix in ("nii.gz", "bval", "bvec")))
    mask = nifti.load_mask(options.folder / "mask.nii.gz", dwi.space)
    data, gtab = on_shell(dwi.data, dwi.gtab, shell_of_models)
    response, ratio = csd_response(data, gtab, mask)
    single = np.zeros_like(mask)
    single[tuple(np.argwhere(mask)[0])] = True
    where = {"threads": options.threads, "arch": options.arch}
    fit_csd(data, gtab, single, response, options.order, **where)
    seconds, fitted = [], None
    for _ in range(options.repeat):
        begun = time.perf_counter()
        fitted = fit_csd(data, gtab, mask, response, options.order, **where)
        seconds.append(round(time.perf_counter() - begun, 2))
    row = {
        "data": options.folder.name, "order": options.order, "voxels": int(mask.sum()), "cores": os.cpu_count(),
        **where, "response": [*map(float, response[0]), response[1]], "ratio": ratio,
        "seconds": seconds, "sha256": hashlib.sha256(fitted[mask].tobytes()).hexdigest(),
        **{name: version(name) for name in ("dipy", "numba", "numpy")},
    }
    if not options.no_dipy:
        row |= against_dipy(data, gtab, mask, response, options.order, fitted)
    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
