"""Parallel transport tractography: smooth ways, each step judged by what lies along a probe ahead.

Run it without arguments on a small phantom in a temporary folder, or on your own series:

    python ptt.py dwi.nii.gz dwi.bval dwi.bvec brain.trx
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import tistreamlines as ts
from tistreamlines.phantom.phantom import make_phantom, save_phantom


def small_phantom(folder):
    """Write a head of known bundles; return the paths of dwi, bvals and bvecs."""
    return save_phantom(make_phantom((30, 36, 28), voxel_mm=5.0, n_b0=2, n_dirs=48), folder)


def main(arguments):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        *series, output = arguments or [*small_phantom(folder), folder / "brain.trx"]

        # The default rule is DIPY's, whose probes are as long as said only where voxels have sides of 1 mm.
        # A step bends by at most max_angle times the mean voxel side in mm: by 20 degrees on the phantom's 5 mm.
        kept = {"dg": "ptt", "nseeds": 2000, "probe_rule": "paper", "max_angle": 4, "cache_dir": folder / "cache"}
        stats = ts.track(*series, output, min_length=20, **kept)
        print(f"{stats['streamlines']} streamlines of {stats['mean_mm']:.0f} mm on average, on {stats['arch']}")
        print(f"stopped because: {stats['stop_reasons']}")

        # A longer probe looks further ahead. The model is not fitted again: the cache keeps it.
        for length in (1.5, 15):
            turns = np.concatenate([turns_of(batch) for batch in ts.track(*series, probe_length=length, **kept)])
            print(f"with probes of {length} mm, a step turns by {turns.mean():.1f} degrees on average")


def turns_of(batch):
    """Angle between each two steps, degrees."""
    steps = np.diff(batch.points.astype(float), axis=0)
    steps /= np.maximum(np.linalg.norm(steps, axis=1, keepdims=True), 1e-9)
    angles = np.degrees(np.arccos(np.clip((steps[1:] * steps[:-1]).sum(axis=1), -1, 1)))
    # the step from one streamline to the next is none
    number = np.repeat(np.arange(len(batch)), batch.lengths)
    return angles[number[2:] == number[:-2]]


if __name__ == "__main__":
    main(sys.argv[1:])
