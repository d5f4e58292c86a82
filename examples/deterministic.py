"""Deterministic tractography on given orientation functions; no diffusion series is needed.

Run it without arguments on a small phantom in memory, or on your own files, here with spherical harmonics of MRtrix3:

    python deterministic.py fod.nii.gz tournier07 fa.nii.gz white_matter.nii.gz
"""

import sys

import numpy as np
from dipy.core.gradients import gradient_table
from dipy.reconst.csdeconv import ConstrainedSphericalDeconvModel, auto_response_ssst
from dipy.reconst.dti import TensorModel

import tistreamlines as ts
from tistreamlines.phantom.phantom import make_phantom


def small_phantom():
    """Return harmonics that DIPY fitted to a small head, their basis, FA, white matter, and the affine."""
    phantom = make_phantom((30, 36, 28), voxel_mm=5.0, n_b0=2, n_dirs=48)
    gtab = gradient_table(phantom.bvals, bvecs=phantom.bvecs)
    fa = np.nan_to_num(TensorModel(gtab).fit(phantom.data, mask=phantom.mask).fa)
    response, _ = auto_response_ssst(gtab, phantom.data, roi_radii=10, fa_thr=0.7)
    model = ConstrainedSphericalDeconvModel(gtab, response, sh_order_max=8)
    fit = model.fit(phantom.data, mask=phantom.mask & (fa > 0.1))
    # DIPY's default basis
    return fit.shm_coeff, "descoteaux07_legacy", fa, phantom.mask & (fa > 0.4), phantom.affine


def main(arguments):
    # Files bring their own affine.
    sh, basis, fa, white, affine = [*arguments, None] if arguments else small_phantom()
    inputs = {"sh": sh, "sh_basis": basis, "stop_map": fa, "seed_mask": white, "affine": affine}

    # Each step follows the largest value within max_angle, so nothing is random but the seed points.
    result = ts.track(**inputs, dg="det", nseeds=2000, min_length=20)
    print(f"{result.n_streamlines} streamlines of {result.mean_mm:.0f} mm on average, on {result.arch}")
    print(f"stop reasons: {result.stop_reasons}")

    # The default max_angle of 20 degrees is DIPY's. det_rule="closest" would follow the closest peak instead of the
    # largest value.
    wide = ts.track(**inputs, dg="det", max_angle=40, nseeds=2000)
    longest = max(len(streamline) for streamline in wide.to_sft().streamlines)
    print(f"with max_angle=40, the longest has {longest} points")


if __name__ == "__main__":
    main(sys.argv[1:])
