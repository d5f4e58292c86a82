"""MRtrix3's own tests: a folder with their inputs, and what calls its programs there.

MRTRIX3_TEST_DATA names a copy of MRtrix3's test_data, which has inputs and results. Without it, there is the phantom in
shared/data, and the installed programs make the results.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PHANTOM, STORED = ROOT.parent / "shared/data/mrtrix_sift_phantom", os.environ.get("MRTRIX3_TEST_DATA")
DATA = None if STORED is None else Path(STORED).resolve()
DRAWN = {"MRTRIX_RNG_SEED": "1", "MRTRIX_NTHREADS": "0"}  # tckgen makes the same streamlines each time


def inputs(folder: Path, program: str) -> Callable[[str], None]:
    """Link SIFT_phantom in a folder, and return what calls a program of MRtrix3 there; skip the test without these."""
    if shutil.which(program) is None:
        pytest.skip("MRtrix3 is not installed")
    if DATA is None and not PHANTOM.is_dir():
        pytest.skip("shared/data/mrtrix_sift_phantom is missing, and MRTRIX3_TEST_DATA names no other data")
    (folder / "SIFT_phantom").symlink_to(PHANTOM if DATA is None else DATA / "SIFT_phantom")

    def call(command: str) -> None:
        subprocess.run([*command.split(), "-quiet", "-force"], cwd=folder, env=os.environ | DRAWN, check=True)

    return call


def means_of_bundles(path: str) -> tuple[float, float]:
    """The means of an image in the upper and in the lower bundle of SIFT_phantom, which lies in the current folder."""
    upper, lower = (
        float(subprocess.run(
            ["mrstats", path, "-mask", f"SIFT_phantom/{half}.mif", "-output", "mean"], check=True, capture_output=True,
            text=True,
        ).stdout) for half in ("upper", "lower")
    )
    return upper, lower
