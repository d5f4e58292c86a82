"""The seeds of a run: of the user, or of its options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..io.images import AnyPath, Tell, silent
from ..option import ball_of
from ..options.parameters import Parameters
from ..space.batch import Space
from ..tracking.seeding.files import load_seeds, seeds_in_file
from ..tracking.seeding.more_seeds import BallSeeds, GridSeeds, SeedsElsewhere, SeedsPerVoxel, WeightedSeeds
from ..tracking.seeding.seeds import Draw, RandomSeeds, Seeds
from ..tracking.seeding.surfaces import SeedMask, surface_seeds
from ..tracking.stopping.segmentation import tissue_files
from ..tracking.weights.options import TRACKED


class Region(NamedTuple):
    """Voxels in which seeds are placed.

    Parameters
    ----------
    voxels : (m, 3) int32
        None if seeds or balls are given, or an interface or surfaces alone.
    weights : (m,) float32
        Of the voxels.
    affine : (4, 4) float64
        From their grid to RASmm.
    """

    voxels: npt.NDArray[np.int32]
    weights: npt.NDArray[np.float32]
    affine: npt.NDArray[np.float64]


def seeds_of(
    parameters: Parameters, space: Space, region: Region, step_mm: float, note: Tell = silent, warn: Tell = silent
) -> Seeds:
    """Return the user's seeds, or those in balls, at an interface, on surfaces or in the voxels of a region.

    ``step_mm`` is the step size. ``note`` and ``warn`` receive messages about surfaces; where tables come from the
    cache, these messages come with them.
    """
    files = parameters.inputs()
    if "seeds" in files:
        return seeds_in_file(load_seeds(files["seeds"]), space, str(files["seeds"]))
    draw = Draw(parameters.seed_count, parameters.seed_seed, parameters.threads)
    if parameters.seed_sphere is not None:
        balls = [ball_of("seed_sphere", text) for text in parameters.seed_sphere]
        return BallSeeds(balls, space, draw)
    if parameters.seed_dynamic is not None:
        return _dynamic(parameters, files, space, step_mm, draw)
    if (tissues := tissue_files(parameters, "seed_gmwmi")) is not None:
        from ..tracking.seeding.interface import interface_seeds

        return interface_seeds(tissues, *region, space, draw)
    if surfaces := [file for name, file in files.items() if name.split()[0] == "seed_surface"]:
        return surface_seeds(
            surfaces, space, draw, vertex_space=parameters.surface_space, direction=parameters.surface_direction,
            each=parameters.seeds_per_vertex, mask=_mask_of(region), note=note, warn=warn,
        )
    seeds = _in_voxels(parameters, region, draw)
    return seeds if np.array_equal(region.affine, space.affine) else SeedsElsewhere(seeds, region.affine, space)


def _dynamic(
    parameters: Parameters, files: Mapping[str, AnyPath], space: Space, step_mm: float, draw: Draw
) -> Seeds:
    """Return seeds in fixels that lack streamlines."""
    from ..tracking.weights.dynamic_seeds import DynamicSeeds

    return DynamicSeeds(
        files.get("seed_dynamic", TRACKED), parameters.seed_dynamic_basis or parameters.sh_basis,
        tissue_files(parameters), space, step_mm, parameters.parts, parameters.arch, draw, parameters.select,
        parameters.seed_round or 0,
    )


def _mask_of(region: Region) -> SeedMask | None:
    """Return the mask of a region, if that has voxels."""
    if not len(region.voxels):
        return None
    x, y, z = (int(most) + 1 for most in region.voxels.max(axis=0))
    inside = np.zeros((x, y, z), bool)
    inside[tuple(region.voxels.T)] = True
    return SeedMask(inside, Space(region.affine, (x, y, z)))


def _in_voxels(parameters: Parameters, region: Region, draw: Draw) -> Seeds:
    """Return seeds in the voxels of a region, on its grid."""
    voxels = region.voxels
    if parameters.seed_image is not None:
        return WeightedSeeds(voxels, region.weights, draw)
    if parameters.seed_grid is not None:
        return GridSeeds(voxels, parameters.seed_grid)
    if parameters.seeds_per_voxel is not None:
        return SeedsPerVoxel(voxels, parameters.seeds_per_voxel, draw)
    return RandomSeeds(voxels, draw)
