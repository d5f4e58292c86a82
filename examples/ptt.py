"""Parallel transport tractography: smooth streamlines, each step chosen by the orientations along a probe ahead of it.

Run it without arguments on a small phantom in a temporary folder, or on your own series:

    python ptt.py dwi.nii.gz dwi.bval dwi.bvec brain.trx
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import tistreamlines as ts
from tistreamlines.phantom.phantom import make_phantom, save_phantom


def main(arguments):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments:
            *series, output = arguments
        else:
            phantom = make_phantom((30, 36, 28), voxel_mm=5.0, n_b0=2, n_dirs=48)
            series, output = save_phantom(phantom, folder), folder / "brain.trx"

        # With the default rule, which is DIPY's, probes have the length given only where voxels have sides of 1 mm.
        # A step turns by at most max_angle times the mean voxel side in mm: by 20 degrees on the phantom's 5 mm.
        common = {"dg": "ptt", "nseeds": 2000, "probe_rule": "paper", "max_angle": 4, "cache_dir": folder / "cache"}
        result = ts.track(*series, output, min_length=20, **common)
        print(f"{result.n_streamlines} streamlines of {result.mean_mm:.0f} mm on average, on {result.arch}")
        print(f"stop reasons: {result.stop_reasons}")

        # A longer probe looks further ahead. The fitted model is read from the cache.
        for length in (1.5, 15):
            batches = ts.stream(*series, probe_length=length, **common)
            turns = np.concatenate([turns_of(streamline) for batch in batches for streamline in batch])
            print(f"with probes of {length} mm, a step turns by {turns.mean():.1f} degrees on average")


def turns_of(streamline):
    """Return the angles between successive steps, degrees."""
    steps = np.diff(streamline.astype(float), axis=0)
    steps /= np.maximum(np.linalg.norm(steps, axis=1, keepdims=True), 1e-9)
    return np.degrees(np.arccos(np.clip((steps[1:] * steps[:-1]).sum(axis=1), -1, 1)))


if __name__ == "__main__":
    main(sys.argv[1:])
