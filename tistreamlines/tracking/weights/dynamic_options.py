"""Options of dynamic seeding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...option import SEEDS, option

if TYPE_CHECKING:
    from ...option import ImageLike

NEEDS: dict[str, Any] = {"requires": ("seed_dynamic",), "affects": "growth"}


@dataclass(frozen=True)
class DynamicOptions:
    """Options of dynamic seeding, a part of :class:`tistreamlines.Parameters`."""

    seed_dynamic: ImageLike | None = option(
        None, SEEDS, "Image of fibre orientation distributions, in whose fixels random seeds are placed, more of them "
        "where streamlines so far are less dense than fibres, as by MRtrix3's tckgen -seed_dynamic. Each seed has one "
        "streamline, which starts in the direction of its fixel.", unit="FOD", absent="as --seed-mask",
        one_of="place of seeds",
        excludes=("seeds_per_voxel", "seed_grid", "seed_gmwmi", "seed_surface", "part", "resume"),
    )  # fmt: skip
    seed_dynamic_basis: str | None = option(
        None, SEEDS, "Basis of the harmonics of --seed-dynamic: tournier07 of MRtrix3, or DIPY's descoteaux07_legacy.",
        unit="NAME", absent="that of --sh-basis, or tournier07 for a .mif", **NEEDS,
    )  # fmt: skip
    seed_round: int = option(
        500, SEEDS, "Seeds of --seed-dynamic between two comparisons of streamlines with fibres; later, a twentieth of "
        "all seeds before.", unit="seeds", low=1, high=2**24, **NEEDS,
    )  # fmt: skip
