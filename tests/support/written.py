"""Tractograms and images as other readers and writers have them."""

from __future__ import annotations

import nibabel as nib
import numpy as np

STEP = 2.5  # mm, half a voxel of the head


def read(path):
    """Points of each streamline, RASmm."""
    if path.suffix == ".trx":
        from trx import trx_file_memmap

        file = trx_file_memmap.load(str(path))
        streamlines = [np.array(s) for s in file.streamlines]
        file.close()
        return streamlines
    return list(nib.streamlines.load(path).streamlines)


def save(path, volume, head):
    nib.save(nib.Nifti1Image(volume, head.phantom.affine), path)
    return path
