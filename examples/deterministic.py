"""Deterministic tractography from orientations in a file: no diffusion series is needed.

Run it without arguments on a small phantom in a temporary folder, or on your own files, here with MRtrix3's harmonics:

    python deterministic.py fod.nii.gz tournier07 fa.nii.gz white_matter.nii.gz brain.trx
"""

import sys
import tempfile
from pathlib import Path

import nibabel as nib
import numpy as np
from dipy.core.gradients import gradient_table
from dipy.reconst.csdeconv import ConstrainedSphericalDeconvModel, auto_response_ssst
from dipy.reconst.dti import TensorModel

import tistreamlines as ts
from tistreamlines.phantom.phantom import make_phantom


def small_phantom(folder):
    """Fit a head of known bundles with DIPY; return harmonics, their basis, FA, and the white matter."""
    phantom = make_phantom((30, 36, 28), voxel_mm=5.0, n_b0=2, n_dirs=48)
    gtab = gradient_table(phantom.bvals, bvecs=phantom.bvecs)
    fa = np.nan_to_num(TensorModel(gtab).fit(phantom.data, mask=phantom.mask).fa)
    white = phantom.mask & (fa > 0.4)
    response, _ = auto_response_ssst(gtab, phantom.data, roi_radii=10, fa_thr=0.7)
    model = ConstrainedSphericalDeconvModel(gtab, response, sh_order_max=8)
    fod = model.fit(phantom.data, mask=phantom.mask & (fa > 0.1)).shm_coeff
    for name, volume in (("fod", fod), ("fa", fa), ("white", white)):
        nib.save(nib.Nifti1Image(volume.astype(np.float32), phantom.affine), folder / f"{name}.nii.gz")
    # what DIPY writes unless told otherwise
    return [folder / "fod.nii.gz", "descoteaux07_legacy", folder / "fa.nii.gz", folder / "white.nii.gz"]


def main(arguments):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fod, basis, fa, white, output = arguments or [*small_phantom(folder), folder / "brain.trx"]
        files = {"sh": fod, "sh_basis": basis, "stop_map": fa, "seed_mask": white}

        # The greatest value within the angle is followed, so nothing is drawn.
        stats = ts.track(output=output, dg="det", nseeds=2000, min_length=20, **files)
        print(f"{stats['streamlines']} streamlines of {stats['mean_mm']:.0f} mm on average, on {stats['arch']}")
        print(f"stopped because: {stats['stop_reasons']}")

        # DIPY lets a step turn by at most 20 degrees; the steps here are half a voxel, and may turn by more.
        # det_rule="closest" would follow the closest peak in place of the greatest value.
        batches = ts.track(dg="det", max_angle=40, nseeds=2000, **files)
        lengths = np.concatenate([batch.lengths for batch in batches])
        print(f"of those that may turn by 40 degrees, the longest has {lengths.max()} points")


if __name__ == "__main__":
    main(sys.argv[1:])
