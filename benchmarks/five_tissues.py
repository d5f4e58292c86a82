"""Make a five-tissue-type image of a diffusion series by thresholds, for comparisons of ACT where no T1 is at hand.

    python benchmarks/five_tissues.py FOLDER OUT

FOLDER contains dwi.nii.gz, dwi.bval, dwi.bvec and mask.nii.gz. Where diffusion is fast there is fluid, where FA is high
white matter, and grey matter elsewhere, with soft borders; grey matter deep in the brain is subcortical. It is no
segmentation to study anatomy with, but has all that the rules look at: tissues, their interfaces, and what lies inside.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nibabel as nib
import numpy as np
from dipy.core.gradients import gradient_table
from dipy.reconst.dti import TensorModel
from scipy.ndimage import distance_transform_edt, gaussian_filter

DEEP = 24.0  # mm from the border of the mask
FA, MD = (0.2, 0.03), (1.6e-3, 2e-4)  # threshold and softness of white matter and of fluid (mm^2/s)


def share(values: np.ndarray, threshold: float, softness: float) -> np.ndarray:
    """Return 0 to 1 about a threshold."""
    return 1 / (1 + np.exp(-np.clip((values - threshold) / softness, -30, 30)))


def main() -> None:
    """Fit a tensor, and write the five volumes."""
    folder, to = Path(sys.argv[1]), Path(sys.argv[2])
    image, brain = nib.load(folder / "dwi.nii.gz"), nib.load(folder / "mask.nii.gz").get_fdata() > 0
    gtab = gradient_table(np.loadtxt(folder / "dwi.bval"), bvecs=np.loadtxt(folder / "dwi.bvec"))
    fit = TensorModel(gtab).fit(image.get_fdata(dtype=np.float32), mask=brain)
    fa, md = (gaussian_filter(np.nan_to_num(values), 0.6) for values in (fit.fa, fit.md))
    fluid = share(md, *MD)
    white = (1 - fluid) * share(fa, *FA)
    grey = 1 - fluid - white
    depth = distance_transform_edt(brain, image.header.get_zooms()[:3])
    deep = share(gaussian_filter(depth, 1), DEEP, 1.0)
    tissues = np.stack([grey * (1 - deep), grey * deep, white, fluid, np.zeros_like(fluid)], axis=-1) * brain[..., None]
    nib.save(nib.Nifti1Image(tissues.astype(np.float32), image.affine), to)


if __name__ == "__main__":
    main()
