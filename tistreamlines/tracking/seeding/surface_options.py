"""Options of seeds on surfaces."""

from __future__ import annotations

from dataclasses import dataclass

from ...io.surfaces import AUTO, SPACES
from ...option import SEEDS, OneOrMore, TableLike, option

FREE, NORMAL, INWARD = DIRECTIONS = ("free", "normal", "inward")


@dataclass(frozen=True)
class SurfaceOptions:
    """Options of seeds on surfaces."""

    seed_surface: OneOrMore[TableLike] | None = option(
        None, SEEDS, "Surface on which random seeds are placed, uniformly by area over all that are given, such as "
        "both hemispheres: GIFTI, or FreeSurfer's geometry (lh.white). With --seed-mask, seeds lie in the mask.",
        unit="FILE", absent="as --seed-mask",
        excludes=("seeds", "seed_sphere", "seed_image", "seed_gmwmi", "seeds_per_voxel", "seed_grid"),
    )
    seeds_per_vertex: int | None = option(
        None, SEEDS, "Number of seeds at each vertex of the surfaces, instead of --nseeds random seeds on them.",
        unit="seeds", low=1, high=1_000_000, absent="--nseeds in all", requires=("seed_surface",),
        excludes=("nseeds", "seed_seed"),
    )
    surface_direction: str = option(
        FREE, SEEDS, "Direction in which the one streamline of a seed of --seed-surface starts: along the normal, out "
        "of the surface, or inward, into white matter. The other half starts in the opposite direction, without "
        "--one-way. free starts along the peaks, as other seeds do.", choices=DIRECTIONS, requires=("seed_surface",),
    )
    surface_space: str = option(
        AUTO, SEEDS, "Coordinates of --seed-surface: RASmm (scanner), or FreeSurfer's (tkras), which are moved to "
        "RASmm by the geometry of their volume in the file. auto takes what the file says.", choices=SPACES,
        requires=("seed_surface",),
    )
