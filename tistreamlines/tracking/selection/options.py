"""Options of selection and of regions of interest, and the check that streamlines can visit the regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...option import REGIONS, ImageLike, OneOrMore, flag, option
from ...space.batch import Space
from .files import MaskRegion, Region, SphereRegion, box_around
from .regions import ROLES, Asked

SEEDS_EACH = 1000  # of a streamline of --select, as MRtrix3's -select
SPEC = "FILE|x,y,z,r"
FINEST = 2.0**20  # voxels across: float32 still has eighths of a voxel there
MOST_VOXELS = 2**29 - 1  # elements of an array on a device


@dataclass(frozen=True)
class RegionOptions:
    """Options of regions of interest, a part of :class:`tistreamlines.Parameters`."""

    include: OneOrMore[ImageLike] | None = option(
        None, REGIONS, "Keep streamlines that visit this region: a mask image on any grid, or a sphere in RASmm. With "
        "several regions, all must be visited.", unit=SPEC, absent="none", common=True, affects="growth",
    )
    exclude: OneOrMore[ImageLike] | None = option(
        None, REGIONS, "Drop streamlines that visit this region. They end at once.", unit=SPEC, absent="none",
        common=True, affects="growth",
    )
    include_ordered: OneOrMore[ImageLike] | None = option(
        None, REGIONS, "Keep streamlines that enter these regions in the order in which they are given, and none "
        "before its turn.", unit=SPEC, absent="none", requires=("one_way",), affects="growth",
    )
    limit_mask: OneOrMore[ImageLike] | None = option(
        None, REGIONS, "End streamlines where they leave this region. The point outside is dropped, and so are seeds "
        "outside. Several regions count as one.", unit=SPEC, absent="the whole image", affects="growth",
    )
    stop_when_included: bool = option(
        False, REGIONS, "End streamlines once they have visited all regions of --include and --include-ordered. The "
        "backward half is grown after the forward half.", affects="growth",
    )
    ends_in: OneOrMore[ImageLike] | None = option(
        None, REGIONS, "Keep streamlines with an end in this region; with two regions, those with one end in each.",
        unit=SPEC, absent="none", affects="growth",
    )


@dataclass(frozen=True)
class SelectionOptions:
    """Options of how many streamlines are tracked."""

    select: int | None = option(
        None, REGIONS, "Track until this number of streamlines is accepted: the first ones in the order of the seeds, "
        "the same on every device.", unit="streamlines", low=1, high=2**32 - 1, absent="those of all seeds",
        excludes=("nseeds",), common=True, affects="growth",
    )
    max_seeds: int | None = option(
        None, REGIONS, "Greatest number of seeds of --select.", unit="seeds", low=1, high=2**32 - 1,
        absent=f"{SEEDS_EACH} times --select", requires=("select",), affects="growth",
    )
    time_limit: float | None = option(
        None, REGIONS, "Begin no further seeds after so long a time of tracking. The result then depends on the speed "
        "of the device.", unit="s", low=0, above=True, absent="no limit", affects="growth",
    )


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
            f"{mask.name}: voxels of {min(mask.space.voxel_sizes):.2g} mm are too small to be told apart with 32-bit "
            "coordinates: resample the mask to larger voxels"
        )
    low, high = box_around(mask.voxels)
    if prod(map(int, high - low)) > MOST_VOXELS:
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
