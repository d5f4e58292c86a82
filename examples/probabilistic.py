"""Probabilistic tractography on orientation functions from constrained spherical deconvolution.

Run it without arguments on a small phantom in memory, or on your own series:

    python probabilistic.py dwi.nii.gz dwi.bval dwi.bvec
"""

import sys
import tempfile

import numpy as np
from dipy.core.gradients import gradient_table

import tistreamlines as ts
from tistreamlines.phantom.phantom import make_phantom


def main(arguments):
    if arguments:
        series = dict(zip(("dwi", "bvals", "bvecs"), arguments, strict=True))
    else:
        phantom = make_phantom((30, 36, 28), voxel_mm=5.0, n_b0=2, n_dirs=48)
        gtab = gradient_table(phantom.bvals, bvecs=phantom.bvecs)
        series = {"dwi": phantom.data, "gtab": gtab, "affine": phantom.affine, "mask": phantom.mask}

    with tempfile.TemporaryDirectory() as cache:
        # Later runs on the same series read the fitted model from the cache.
        common = {**series, "dg": "prob", "nseeds": 2000, "max_directions": 1, "cache_dir": cache}
        result = ts.track(**common, min_length=20)
        print(f"{result.n_streamlines} streamlines of {result.mean_mm:.0f} mm on average, on {result.arch}")
        print(f"stop reasons: {result.stop_reasons}")
        print(f"DIPY's tractogram has {len(result.to_sft())} streamlines")

        # Another RNG seed gives other streamlines from the same seed points.
        ends = [last_points(ts.stream(**common, rng_seed=rng_seed)) for rng_seed in (1, 2)]
        apart = [np.linalg.norm(ends[0][seed] - ends[1][seed]) for seed in ends[0].keys() & ends[1].keys()]
        print(f"with two RNG seeds, the ends of a seed's streamlines lie {np.median(apart):.1f} mm apart (median)")


def last_points(batches):
    """Return the last point of each streamline, RASmm, by the number of its seed."""
    return {
        int(seed): streamline[-1]
        for batch in batches
        for seed, streamline in zip(batch.seed_number, batch, strict=True)
    }


if __name__ == "__main__":
    main(sys.argv[1:])
