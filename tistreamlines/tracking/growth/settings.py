"""Options of streamline growth, and the settings of the engine that follow from them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...option import GROWTH, option

ROUNDING = 1e-6  # relative error of a length in steps: images store voxel sizes in float32
OF_HALF, MOST_OF_HALF = 500, 10_000  # steps of a half by default, and the most that options allow


@dataclass(frozen=True)
class Settings:
    """How streamlines are grown.

    Parameters
    ----------
    step_mm : step size in mm.
    max_steps : maximum number of steps of a half-streamline.
    fewest_steps, most_steps : streamlines with fewer or more steps are dropped, and always those without a step.
    truncate : end streamlines at ``most_steps`` instead; the backward half has what the forward half leaves.
    one_way : grow no backward halves.
    either_sense : let streamlines of one way take one of both senses of a direction at random, where it has both.
    directed : whether each seed has a given direction, near which getters that draw or climb from one begin.
    rng_seed : RNG seed for tracking, an integer of 64 bits.
    exact : same bits on every device; if False, the compiler may reorder arithmetic.  A method that carries a frame
        from step to step is always exact, since the host repeats its steps and must reach the same points.
    threads : CPU threads, None for all.
    chunk_size : maximum number of seeds in a chunk, None to fit the device.
    memory_limit : bytes that tables and buffers may take on the device, None for half of the free memory.
    every : of the points of a streamline, the host lays out every n-th from its seed, and both ends.
    """

    step_mm: float
    max_steps: int = OF_HALF
    fewest_steps: int = 1
    most_steps: int | None = None
    truncate: bool = False
    one_way: bool = False
    either_sense: bool = True
    directed: bool = False
    rng_seed: int = 0
    exact: bool = True
    threads: int | None = None
    chunk_size: int | None = None
    memory_limit: int | None = None
    every: int = 1

    @property
    def bounds(self) -> tuple[int, int]:
        """Minimum and maximum number of steps of an accepted streamline."""
        most = 2 * self.max_steps
        return max(self.fewest_steps, 1), most if self.most_steps is None else min(self.most_steps, most)


def bytes_of(gigabytes: float | None) -> int | None:
    """Return a limit of memory in bytes; None for none."""
    return None if gigabytes is None else int(gigabytes * 1e9)


def steps_within(
    step_mm: float, min_mm: float, max_mm: float | None = None, *, arcs: bool = False
) -> tuple[int, int | None]:
    """Return the minimum and maximum number of steps for lengths of ``min_mm`` to ``max_mm``; None for no maximum.

    The points of a step that is part of an arc are less than ``step_mm`` apart, so steps that are together as long as
    the least length make a streamline that is shorter.
    """
    fewest = math.floor(min_mm / step_mm * (1 + ROUNDING)) + 1 if arcs else math.ceil(min_mm / step_mm * (1 - ROUNDING))
    return max(fewest, 1), None if max_mm is None else math.floor(max_mm / step_mm * (1 + ROUNDING))


def steps_of_half(most: int | None) -> int:
    """Return the maximum number of steps of a half by default, if a streamline may have ``most``, or None for no limit.

    A half may have all of them, as in MRtrix3's tckgen. Two more show that a streamline is too long, although the last
    one may be dropped. With many more, a half that is too long could come back by backtracking.
    """
    return OF_HALF if most is None else min(most + 2, MOST_OF_HALF)


# as MRtrix3's -minlength; on phantoms whose bundles are known, no shorter streamline connects the ends of one
SHORTEST = "5vox"


@dataclass(frozen=True, repr=False, eq=False)
class GrowthOptions:
    """Options of streamline growth for every direction getter."""

    step_size: str | float = option(
        None, GROWTH, "Step size in mm or, with the suffix 'vox', in voxels. Their unit is the smallest side, or, with "
        "ifod1, ifod2, sd_stream and fact, the cube root of the volume, as in tckgen.", unit="mm", otherwise="0.5vox",
        common=True, affects="growth",
    )
    max_steps: int = option(
        None, GROWTH, "Maximum number of steps in each direction from the seed.", unit="steps", low=1,
        high=MOST_OF_HALF, absent=f"as many as --max-length allows, {OF_HALF} without it", affects="growth",
    )
    min_length: str | float = option(
        None, GROWTH, "Drop streamlines shorter than this, in mm or in voxels as --step-size; 0 keeps all.", unit="mm",
        absent=f"{SHORTEST}; 0 with --like dipy", common=True, affects="growth",
    )
    max_length: str | float = option(
        None, GROWTH, "Greatest length of streamlines, in mm or in voxels as --step-size; --too-long says what "
        "becomes of longer ones.", unit="mm", absent="no limit but --max-steps", common=True, affects="growth",
    )
    too_long: str = option(
        None, GROWTH, "Drop streamlines longer than --max-length, or truncate them: then the backward half is grown "
        "after the forward half, with the length that this one leaves. With --act, they are dropped by default.",
        choices=("drop", "truncate"), otherwise="drop", affects="growth",
    )
    one_way: bool = option(
        False, GROWTH, "Grow streamlines in only one direction from the seed. If the orientation function has the same "
        "value in opposite directions, one of the two is chosen at random.", affects="growth",
    )
    keep: str = option(
        None, GROWTH, "Keep all streamlines, or only those with two valid ends (valid-ends): where the stopping rule "
        "ends them validly, or where they leave the image. Ends without a direction, at the maximum number of steps or "
        "in tissue where the rule allows none are invalid.", choices=("all", "valid-ends"),
        absent="all; with --act, valid-ends", affects="growth",
    )
    rng_seed: int = option(0, GROWTH, "RNG seed for tracking.", unit="number", low=0, high=2**64 - 1, affects="growth")
