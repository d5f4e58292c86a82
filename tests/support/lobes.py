"""A field whose opposite directions differ."""

from __future__ import annotations

from math import radians

import nibabel as nib
import numpy as np
from dipy.core.sphere import HemiSphere
from dipy.data import get_sphere

WHOLE = get_sphere(name="repulsion724")
HALF = HemiSphere.from_sphere(WHOLE)
SHAPE, CENTRE = (20, 9, 9), np.array([9.5, 4.0, 4.0])
VOXEL = 2.5
IMAGE = nib.Nifti1Image(np.zeros(SHAPE), np.diag([VOXEL, VOXEL, VOXEL, 1]))


def lobe(vertices, axis, width=0.05):
    """A lobe along +axis alone, nothing beyond 40 degrees, (v,) float32."""
    cosines = vertices @ np.asarray(axis, float)
    return np.where(cosines > np.cos(radians(40)), np.exp((cosines - 1) / width), 0).astype(np.float32)


def field(vertices=WHOLE.vertices):
    """Fibres that lead along +x alone."""
    return np.broadcast_to(lobe(vertices, [1, 0, 0]), (*SHAPE, len(vertices)))
