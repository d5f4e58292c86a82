"""Whole-brain bootstrap tractography, from files to a tractogram.

Run it without arguments on a small phantom in a temporary folder, or on your own series:

    python bootstrap.py dwi.nii.gz dwi.bval dwi.bvec brain.trx
"""

import sys
import tempfile
from pathlib import Path

import tistreamlines as ts
from tistreamlines.phantom.phantom import make_phantom, save_phantom


def small_phantom(folder):
    """Write a head of known bundles; return the paths of dwi, bvals and bvecs."""
    return save_phantom(make_phantom((30, 36, 28), voxel_mm=5.0, n_b0=2, n_dirs=32), folder)


def main(arguments):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        *series, output = arguments or [*small_phantom(folder), folder / "brain.trx"]

        # The whole: seeds where FA > 0.25, steps of half a voxel, until FA is 0.1 or the turn is over 60 degrees.
        # The device is the best one here; the streamlines are the same on each.
        stats = ts.track(*series, output, nseeds=2000, model="opdt", min_length=20)
        print(f"{stats['streamlines']} streamlines of {stats['mean_mm']:.0f} mm on average, on {stats['arch']}")
        print(f"stopped because: {stats['stop_reasons']}")

        # Without an output, the streamlines come batch by batch and nothing is written. Another rng_seed draws anew.
        longest = 0
        for batch in ts.track(*series, nseeds=2000, rng_seed=1, chunk_size=500):
            longest = max(longest, batch.lengths.max(initial=0))
        print(f"drawn anew, the longest has {longest} points")


if __name__ == "__main__":
    main(sys.argv[1:])
