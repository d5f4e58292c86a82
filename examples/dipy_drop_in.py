"""A script written for DIPY, which tracks here: only the import of the criterion and of the function changes.

It follows DIPY's tutorial "An introduction to the Probabilistic Tractography". Run it without arguments on a small
phantom in memory, or on your own series; the last file is the tractogram that it writes:

    python dipy_drop_in.py dwi.nii.gz dwi.bval dwi.bvec brain.trk
"""

import sys

import nibabel as nib
import numpy as np
from dipy.core.gradients import gradient_table
from dipy.data import default_sphere
from dipy.io.gradients import read_bvals_bvecs
from dipy.io.image import load_nifti
from dipy.io.stateful_tractogram import Space, StatefulTractogram
from dipy.io.streamline import save_tractogram
from dipy.reconst.csdeconv import ConstrainedSphericalDeconvModel, auto_response_ssst
from dipy.reconst.dti import TensorModel
from dipy.segment.mask import median_otsu
from dipy.tracking.streamline import Streamlines, length
from dipy.tracking.utils import seeds_from_mask

# In place of "from dipy.tracking.stopping_criterion import ThresholdStoppingCriterion"
# and "from dipy.tracking.tracker import probabilistic_tracking".
from tistreamlines.dipy import ThresholdStoppingCriterion, probabilistic_tracking
from tistreamlines.phantom.phantom import make_phantom


def main(arguments):
    if arguments:
        hardi_fname, hardi_bval_fname, hardi_bvec_fname, tractogram_fname = arguments
        data, affine, hardi_img = load_nifti(hardi_fname, return_img=True)
        bvals, bvecs = read_bvals_bvecs(hardi_bval_fname, hardi_bvec_fname)
        gtab = gradient_table(bvals, bvecs=bvecs)
        _, mask = median_otsu(data, vol_idx=np.flatnonzero(gtab.b0s_mask))
    else:
        phantom = make_phantom((30, 36, 28), voxel_mm=5.0, n_b0=2, n_dirs=48)
        data, affine, mask, tractogram_fname = phantom.data, phantom.affine, phantom.mask, None
        hardi_img = nib.Nifti1Image(data, affine)
        gtab = gradient_table(phantom.bvals, bvecs=phantom.bvecs)

    fa = np.nan_to_num(TensorModel(gtab).fit(data, mask=mask).fa)
    seeds = seeds_from_mask(mask & (fa > 0.5), affine, density=1)
    sc = ThresholdStoppingCriterion(fa, 0.2)

    response, _ = auto_response_ssst(gtab, data, roi_radii=10, fa_thr=0.7)
    csd_model = ConstrainedSphericalDeconvModel(gtab, response, sh_order_max=6)
    csd_fit = csd_model.fit(data, mask=mask)

    streamline_generator = probabilistic_tracking(
        seeds,
        sc,
        affine,
        sh=csd_fit.shm_coeff,
        random_seed=1,
        sphere=default_sphere,
        max_angle=20,
        step_size=0.5,
    )
    streamlines = Streamlines(streamline_generator)
    print(f"{len(streamlines)} streamlines of {np.mean(length(streamlines)):.0f} mm on average from {len(seeds)} seeds")

    if tractogram_fname is not None:
        sft = StatefulTractogram(streamlines, hardi_img, Space.RASMM)
        save_tractogram(sft, tractogram_fname)


if __name__ == "__main__":
    main(sys.argv[1:])
