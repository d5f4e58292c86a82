"""Probabilistic tractography: constrained spherical deconvolution, and a draw from its orientations in each step.

Run it without arguments on a small phantom in a temporary folder, or on your own series:

    python probabilistic.py dwi.nii.gz dwi.bval dwi.bvec brain.trx
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

        # The model is fitted first; a cache keeps it for the next run on the same series.
        kept = {"dg": "prob", "nseeds": 2000, "cache_dir": folder / "cache"}
        stats = ts.track(*series, output, min_length=20, **kept)
        print(f"{stats['streamlines']} streamlines of {stats['mean_mm']:.0f} mm on average, on {stats['arch']}")
        print(f"stopped because: {stats['stop_reasons']}")

        # Each rng_seed draws other ways from the same seeds: how far apart do they end?
        ends = [last_points(ts.track(*series, rng_seed=key, max_directions=1, **kept)) for key in (1, 2)]
        common = sorted(ends[0].keys() & ends[1].keys())
        apart = [np.linalg.norm(ends[0][seed] - ends[1][seed]) for seed in common]
        print(f"drawn twice, the ends of a seed's streamlines lie {np.median(apart):.1f} mm apart (median)")


def last_points(batches):
    """Last point of each seed's streamline, RASmm, by the seed's number."""
    return {
        int(seed): batch.points[end - 1]
        for batch in batches
        for seed, end in zip(batch.seed_number, batch.offsets[1:], strict=True)
    }


if __name__ == "__main__":
    main(sys.argv[1:])
