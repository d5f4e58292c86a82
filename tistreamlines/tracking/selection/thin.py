"""Regions that streamlines can jump over, since points are tested and not the segments between them."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ...option import flag
from .files import MaskRegion, Region, box_around
from .regions import Asked

ROLES = ("include", "include_ordered", "exclude")  # that streamlines pass through
SLACK = 1e-3  # of a step


def thin_regions(asked: Asked, step_mm: float) -> list[str]:
    """Return a warning for each region that is thinner than a step everywhere.

    Parameters
    ----------
    asked : mapping
        Regions by the name of their option.
    step_mm : float
        Distance between two points of a streamline, mm.
    """
    doubts = []
    for name in ROLES:
        for region in asked.get(name, ()):
            if (thickness := _thickness(region, step_mm * (1 - SLACK))) < step_mm * (1 - SLACK):
                doubts.append(
                    f"{region.name}: is at most {thickness:.3g} mm thick, less than a step of {step_mm:.3g} mm: "
                    f"streamlines that jump over {flag(name)} between two points do not count as passing it; give a "
                    "shorter --step-size or a thicker region"
                )
    return doubts


def _thickness(region: Region, enough: float) -> float:
    """Return the diameter of the largest ball in a region, mm; infinity if it is known to be enough."""
    if not isinstance(region, MaskRegion):
        return 2 * region.radius
    from scipy.ndimage import binary_erosion, distance_transform_edt

    sides = region.space.voxel_sizes
    if enough <= sides.min():
        return math.inf
    low, high = box_around(region.voxels)
    voxels: npt.NDArray[np.bool_] = np.pad(region.voxels[tuple(map(slice, low, high))], 1)
    block = [math.ceil(enough / side) for side in sides]
    fits = all(size <= most for size, most in zip(block, voxels.shape, strict=True))
    if fits and binary_erosion(voxels, np.ones(block, bool)).any():  # most regions have a block that is as large
        return math.inf
    halves = voxels.repeat(2, 0).repeat(2, 1).repeat(2, 2)  # whose border is at distances of whole numbers
    distances = np.zeros(halves.shape)
    distance_transform_edt(halves, sides / 2, distances=distances)
    return 2 * float(distances.max())
