"""The same task with DIPY's probabilistic_tracking and with tistreamlines: from a diffusion series to a tractogram.

Both fit constrained spherical deconvolution of order 8, place 2000 random seeds where FA is above 0.25, and take steps
of half a voxel. Streamlines turn by at most 30 degrees a step and stop where FA is 0.2 or less. The example runs on a
small phantom in a temporary folder, without arguments.
"""

import tempfile
from pathlib import Path

import nibabel as nib
import numpy as np
from dipy.core.gradients import gradient_table
from dipy.data import default_sphere
from dipy.io.stateful_tractogram import Space, StatefulTractogram
from dipy.io.streamline import save_tractogram
from dipy.reconst.csdeconv import ConstrainedSphericalDeconvModel, auto_response_ssst
from dipy.reconst.dti import TensorModel
from dipy.tracking.stopping_criterion import ThresholdStoppingCriterion
from dipy.tracking.streamline import length
from dipy.tracking.tracker import probabilistic_tracking
from dipy.tracking.utils import random_seeds_from_mask

import tistreamlines as ts
from tistreamlines.phantom.phantom import make_phantom


def with_dipy(data, gtab, affine, mask, path):
    fa = np.nan_to_num(TensorModel(gtab).fit(data, mask=mask).fa)
    response, _ = auto_response_ssst(gtab, data, roi_radii=10, fa_thr=0.7)
    fit = ConstrainedSphericalDeconvModel(gtab, response, sh_order_max=8).fit(data, mask=mask)
    seeds = random_seeds_from_mask(fa > 0.25, affine, seeds_count=2000, seed_count_per_voxel=False)
    criterion = ThresholdStoppingCriterion(fa, 0.2)
    streamlines = probabilistic_tracking(
        seeds, criterion, affine, sh=fit.shm_coeff, sphere=default_sphere, max_angle=30, step_size=2.5,
        random_seed=1_000_000,  # with a small one, many seeds share the same random numbers in DIPY
    )
    sft = StatefulTractogram(streamlines, nib.Nifti1Image(data, affine), Space.RASMM)
    save_tractogram(sft, path)
    return sft


def with_tistreamlines(data, gtab, affine, mask, path):
    result = ts.track(
        data, gtab=gtab, affine=affine, mask=mask, output=path, dg="prob", like="dipy", nseeds=2000, max_angle=30,
        fa_threshold=0.2, max_directions=1, min_length=2,
    )
    return result.to_sft()


def main():
    phantom = make_phantom((30, 36, 28), voxel_mm=5.0, n_b0=2, n_dirs=48)
    gtab = gradient_table(phantom.bvals, bvecs=phantom.bvecs)
    with tempfile.TemporaryDirectory() as folder:
        for track in (with_dipy, with_tistreamlines):
            path = str(Path(folder) / f"{track.__name__}.trk")
            sft = track(phantom.data, gtab, phantom.affine, phantom.mask, path)
            print(f"{track.__name__}: {len(sft)} streamlines of {np.mean(length(sft.streamlines)):.0f} mm on average")


if __name__ == "__main__":
    main()
