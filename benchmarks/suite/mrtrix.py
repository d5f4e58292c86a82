"""MRtrix3's tckgen as a peer: iFOD2 or iFOD1 for prob, SD_STREAM for det, on the same harmonics as all targets."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from tistreamlines.benchmarks.cases import STOP
from tistreamlines.benchmarks.problem import Problem, samples
from tistreamlines.benchmarks.streamlines import Track, timer_of
from tistreamlines.space.harmonics import turn_coefficients

THRESHOLD = 0.1
ALGORITHMS = {"tckgen": {"prob": "iFOD2", "det": "SD_STREAM"}, "tckgen-ifod1": {"prob": "iFOD1"}}


def missing() -> str:
    """Return why tckgen cannot run, or "" if it can."""
    return "" if shutil.which("tckgen") else "tckgen is not on the PATH: install MRtrix3 (Debian's package mrtrix3)"


def in_world(problem: Problem) -> np.ndarray:
    """Return the CSD coefficients along the scanner axes (RAS), as MRtrix3 expects them."""
    return turn_coefficients(problem.csd, problem.space.axes.T, "descoteaux07_legacy")


def open_tckgen(name: str, problem: Problem) -> Track:
    """Write the input files of tckgen, which places its own seeds in the same mask."""
    import nibabel as nib
    from dipy.reconst.shm import convert_sh_descoteaux_tournier

    folder = tempfile.TemporaryDirectory()
    root = Path(folder.name)

    def image(name: str, array: np.ndarray) -> str:
        nib.save(nib.Nifti1Image(array, problem.space.affine), root / name)
        return str(root / name)

    fod = image("fod.nii", convert_sh_descoteaux_tournier(in_world(problem)).astype(np.float32))
    # other targets use a tenth of each voxel's maximum; tckgen supports only one amplitude for all voxels
    white = problem.white
    cutoff = THRESHOLD * float(np.median(samples(problem.csd[white]).max(axis=-1)))
    seeded = image("seeds.nii", white.astype(np.uint8))
    mask = image("mask.nii", (problem.fa > STOP).astype(np.uint8))
    method = problem.method
    command = [
        "tckgen", fod, str(root / "out.tck"), "-force", "-quiet", "-algorithm", ALGORITHMS[name][method.dg],
        "-seed_image", seeded, "-select", "0", "-mask", mask,
        "-cutoff", f"{cutoff:g}", "-step", f"{problem.step_mm:g}", "-angle", f"{method.max_angle:g}", "-minlength", "0",
        "-maxlength", f"{2 * method.max_steps * problem.step_mm:g}",
    ]
    if problem.threads:
        command += ["-nthreads", str(problem.threads)]

    return timer_of(
        lambda count: subprocess.run([*command, "-seeds", str(count)], check=True, stdout=subprocess.DEVNULL),
        # the function holds the folder, which otherwise would be removed
        lambda _: nib.streamlines.load(Path(folder.name) / "out.tck").streamlines,
    )
