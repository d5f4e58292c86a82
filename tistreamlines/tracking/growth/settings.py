"""Settings of the engine."""

from __future__ import annotations

import math
from dataclasses import dataclass

ROUNDING = 1e-6  # relative error of a length in steps: images store voxel sizes in float32


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
    """

    step_mm: float
    max_steps: int = 500
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

    @property
    def bounds(self) -> tuple[int, int]:
        """Minimum and maximum number of steps of an accepted streamline."""
        return max(self.fewest_steps, 1), 2 * self.max_steps if self.most_steps is None else self.most_steps


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
