"""Options of streamline growth, for every direction getter and stopping rule."""

from __future__ import annotations

from dataclasses import dataclass

from ...option import GROWTH, option

# as MRtrix3's -minlength; on phantoms whose bundles are known, no shorter streamline connects the ends of one
SHORTEST = "5vox"


@dataclass(frozen=True)
class GrowthOptions:
    """Options of streamline growth for every direction getter."""

    step_size: str | float = option(
        None, GROWTH, "Step size in mm or, with the suffix 'vox', in units of the smallest voxel side.", unit="mm",
        otherwise="0.5vox", common=True, affects="growth",
    )
    max_steps: int = option(
        None, GROWTH, "Maximum number of steps in each direction from the seed.", unit="steps", low=1, high=10_000,
        otherwise=500, affects="growth",
    )
    min_length: str | float = option(
        None, GROWTH, "Drop streamlines shorter than this, in mm or, with the suffix 'vox', in units of the smallest "
        "voxel side; 0 keeps all.", unit="mm", absent=f"{SHORTEST}; 0 with --like dipy", common=True, affects="growth",
    )
    max_length: str | float = option(
        None, GROWTH, "Greatest length of streamlines, in mm or, with the suffix 'vox', in units of the smallest voxel "
        "side; --too-long says what becomes of longer ones.", unit="mm", absent="no limit", common=True,
        affects="growth",
    )
    too_long: str = option(
        None, GROWTH, "Drop streamlines longer than --max-length, or truncate them: then the backward half is grown "
        "after the forward half, with the length that this one leaves. With --act, they are dropped by default.",
        choices=("drop", "truncate"), otherwise="drop", affects="growth",
    )
    one_way: bool = option(
        False, GROWTH, "Grow streamlines in one direction from the seed only: that of the initial direction, of which "
        "one of both senses is taken at random if the orientation function has both.", affects="growth",
    )
    keep: str = option(
        None, GROWTH, "Keep all streamlines, or only those with two valid ends (valid-ends): where the stopping rule "
        "ends them validly, or where they leave the image. Ends without a direction, at the maximum number of steps or "
        "in tissue where the rule allows none are invalid.", choices=("all", "valid-ends"),
        absent="all; with --act, valid-ends", affects="growth",
    )
    rng_seed: int = option(0, GROWTH, "RNG seed for tracking.", unit="number", low=0, high=2**64 - 1, affects="growth")
