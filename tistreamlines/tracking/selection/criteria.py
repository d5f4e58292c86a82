"""Criteria: which streamlines are kept, besides those of a right length, and whether regions can be visited."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...option import flag
from ...space.batch import Space
from .filters import Filter, ValidEnds
from .places import MaskRegion, Region, SphereRegion, box_around
from .regions import ROLES, Asked, Regions

FINEST = 2.0**20  # voxels across: float32 still has eighths of a voxel there
MOST_VOXELS = 2**29 - 1  # elements of an array on a device
PASSED = ("include", "include_ordered", "exclude")  # that streamlines pass through
SLACK = 1e-3  # of a step, which a region may be thinner than
NOWHERE = Space(np.eye(4), (1, 1, 1))


@dataclass(frozen=True)
class Criteria:
    """Which streamlines are kept, besides those of a right length.

    Parameters
    ----------
    regions : regions of interest by the name of their option, which is one of :data:`.regions.ROLES`.
    stop_when_included : whether streamlines end once all include regions are visited.
    valid_ends : whether both ends have to be valid.
    """

    regions: Asked = field(default_factory=dict)
    stop_when_included: bool = False
    valid_ends: bool = False

    def filters(self, space: Space | None = None) -> Sequence[Filter]:
        """Check the regions against the grid of the image, and return the filters of an engine.

        Without a grid, kernels can be compiled for the filters, but nothing can be tracked.

        Raises
        ------
        InputError
            If a region lies outside the image, or if no streamline could pass.
        """
        if space is not None:
            check_regions(self.regions, space)
        ends = [ValidEnds()] if self.valid_ends else []
        return [*ends, Regions(self.regions, space or NOWHERE, self.stop_when_included)] if self.regions else ends


def check_regions(asked: Asked, space: Space) -> None:
    """Check that streamlines can visit the regions.

    Parameters
    ----------
    asked : dict
        Regions by the name of their option.
    space : Space
        Grid of the tracked image.

    Raises
    ------
    InputError
        If a region lies outside the image, if its voxels are too small or too many, or if no streamline could pass.
    """
    for name in ROLES:
        for region in asked.get(name, ()):
            if isinstance(region, MaskRegion):
                _check_size(region, space)
            if not _touches(region, space):
                raise InputError(f"{region.name}: no part of {flag(name)} is in the image; check its coordinates")
    if len(asked.get("ends_in", ())) > 2:
        raise InputError(f"--ends-in has {len(asked['ends_in'])} regions: a streamline has two ends; give one or two")
    for name in ("include", "include_ordered", "ends_in"):
        for region in asked.get(name, ()):
            if not _passable(region, asked):
                raise InputError(
                    f"{region.name}: no streamline can pass {flag(name)}, since it lies in --exclude or outside "
                    "--limit-mask: give regions that leave a part of it"
                )


def _touches(region: Region, space: Space) -> bool:
    """Whether a region has a part in the image: the centre of a voxel, or a point of the sphere."""
    if isinstance(region, MaskRegion):
        return any(_reaches(x, plane, region, space) for x, plane in enumerate(region.voxels) if plane.any())
    centre = space.to_voxel(region.centre)
    nearest = np.clip(centre, -0.5, np.array(space.shape) - 0.5)
    return bool(np.linalg.norm((centre - nearest) * space.voxel_sizes) <= region.radius)


def _reaches(x: int, plane: npt.NDArray[np.bool_], mask: MaskRegion, space: Space) -> bool:
    """Whether a voxel in a plane (y, z) of a mask has its centre in the image."""
    voxels = np.insert(np.argwhere(plane), 0, x, axis=1)
    points = space.to_voxel(mask.space.to_ras(voxels))
    return bool(((points >= -0.5) & (points < np.array(space.shape) - 0.5)).all(axis=1).any())


def _check_size(mask: MaskRegion, space: Space) -> None:
    """Check that float32 coordinates tell the voxels of a mask apart everywhere in the image."""
    corners = space.to_ras(np.array(list(product(*((-0.5, side - 0.5) for side in space.shape)))))
    if np.abs(mask.space.to_voxel(corners)).max() > FINEST:
        raise InputError(
            f"{mask.name}: voxels of {min(mask.space.voxel_sizes):.2g} mm are too small for 32-bit coordinates: "
            "resample the mask to larger voxels"
        )
    low, high = box_around(mask.voxels)
    if math.prod(map(int, high - low)) > MOST_VOXELS:
        raise InputError(
            f"{mask.name}: the box around the region has more than {MOST_VOXELS:.1e} voxels: resample the mask to "
            "larger ones"
        )


def _passable(region: Region, asked: Asked) -> bool:
    """Whether a point can lie in a region; only regions of one kind, and masks of one grid, are compared."""
    excluded, limits = asked.get("exclude", ()), asked.get("limit_mask", ())
    if isinstance(region, SphereRegion):
        spheres = [other for other in excluded if isinstance(other, SphereRegion)]
        return not any(np.linalg.norm(ball.centre - region.centre) + region.radius <= ball.radius for ball in spheres)
    left = region.voxels.copy()
    for other in _same_grid(region, excluded):
        left &= ~other.voxels
    inside = _same_grid(region, limits)
    if limits and len(inside) == len(limits):
        left &= np.logical_or.reduce([other.voxels for other in inside])
    return bool(left.any())


def _same_grid(mask: MaskRegion, others: Sequence[Region]) -> list[MaskRegion]:
    grid = mask.space.shape, mask.space.affine.tobytes()
    masks = (other for other in others if isinstance(other, MaskRegion))
    return [other for other in masks if (other.space.shape, other.space.affine.tobytes()) == grid]


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
    for name in PASSED:
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
