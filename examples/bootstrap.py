"""Whole-brain residual bootstrap tractography, from files to a tractogram.

Run it without arguments on a small phantom in a temporary folder, or on your own series:

    python bootstrap.py dwi.nii.gz dwi.bval dwi.bvec brain.trx
"""

import sys
import tempfile
from pathlib import Path

import tistreamlines as ts
from tistreamlines.phantom.phantom import make_phantom, save_phantom


def main(arguments):
    with tempfile.TemporaryDirectory() as folder:
        if arguments:
            *series, output = arguments
        else:
            phantom = make_phantom((30, 36, 28), voxel_mm=5.0, n_b0=2, n_dirs=32)
            series, output = save_phantom(phantom, Path(folder)), Path(folder) / "brain.trx"

        # Seeds are placed where FA is above 0.25. Streamlines stop where FA is 0.1 or less, or where they would have to
        # turn by more than 60 degrees. The best device is used; the streamlines are the same on every device.
        result = ts.track(*series, output, nseeds=2000, model="opdt", min_length=20)
        print(f"{result.n_streamlines} streamlines of {result.mean_mm:.0f} mm on average, on {result.arch}")
        print(f"stop reasons: {result.stop_reasons}")

        # stream() yields the streamlines in batches while tracking goes on, and writes nothing.
        batches = ts.stream(*series, nseeds=2000, rng_seed=1, chunk_size=500)
        longest = max(len(streamline) for batch in batches for streamline in batch)
        print(f"with another RNG seed, the longest has {longest} points")


if __name__ == "__main__":
    main(sys.argv[1:])
