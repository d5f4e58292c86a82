"""What tests of several folders of tracking share: tissue fractions of the head."""

from __future__ import annotations

import nibabel as nib
import numpy as np
import pytest


@pytest.fixture(scope="module")
def fractions(head, tmp_path_factory):
    """Options that name tissue fractions of the head: bundles are white matter, one side of the rest is fluid."""
    phantom, folder = head.phantom, tmp_path_factory.mktemp("fractions")
    white = np.minimum(np.sum([bundle.membership for bundle in phantom.bundles], axis=0), 1) * phantom.mask
    rest = phantom.mask - white
    left = np.arange(len(white))[:, None, None] < len(white) // 2
    maps = {"pve_wm": white, "pve_gm": rest * left, "pve_csf": rest * ~left, "stop_mask": white > 0.5}
    for name, values in maps.items():
        nib.save(nib.Nifti1Image(values.astype(np.float32), phantom.affine), folder / f"{name}.nii.gz")
    return {name: str(folder / f"{name}.nii.gz") for name in maps}
