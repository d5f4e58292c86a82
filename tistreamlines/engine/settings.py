"""How streamlines are to be grown, in the engine's own terms."""

from __future__ import annotations

import math
from dataclasses import dataclass

ROUNDING = 1e-6  # of a length over that of a step: images tell the sides of voxels in float32


@dataclass(frozen=True)
class Settings:
    """How streamlines are grown.

    Parameters
    ----------
    step_mm : step length in mm.
    max_steps : greatest number of steps of a half-streamline.
    fewest_steps, most_steps : streamlines of fewer or more steps are dropped; so are those of none.
    rng_seed : key of the random numbers.
    exact : the same bits on every device; else whatever the compiler makes of it.  A method that carries a frame from
        step to step is always exact: the host lays points out by the same steps, and has to come to the same places.
    threads : CPU threads, None for all.
    chunk_size : most seeds of a chunk, None to fit the device.
    memory_limit : bytes that tables and buffers may take on the device, None for half of what is free.
    profile : time the kernels themselves too (CUDA; costs a wait after each launch, and NVIDIA's Vulkan stands still).
    """

    step_mm: float
    max_steps: int = 500
    fewest_steps: int = 1
    most_steps: int | None = None
    rng_seed: int = 0
    exact: bool = True
    threads: int | None = None
    chunk_size: int | None = None
    memory_limit: int | None = None
    profile: bool = False

    @property
    def bounds(self) -> tuple[int, int]:
        """Fewest and most steps of a streamline that is kept."""
        return max(self.fewest_steps, 1), 2 * self.max_steps if self.most_steps is None else self.most_steps


def steps_within(step_mm: float, min_mm: float, max_mm: float | None = None) -> tuple[int, int | None]:
    """Fewest and most steps of a streamline whose length lies within bounds, both allowed, None for no bound."""
    fewest = math.ceil(min_mm / step_mm * (1 - ROUNDING))
    return max(fewest, 1), None if max_mm is None else math.floor(max_mm / step_mm * (1 + ROUNDING))
