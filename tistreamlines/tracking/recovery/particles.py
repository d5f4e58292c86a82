"""Particle filtering of streamlines that follow tissue fractions, as DIPY's ``ParticleFilteringTracking``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import ParameterError
from ...kernels.recovery import particle_filtering, particles
from ...kernels.stop_reasons import KEPT, KEPT_ENDS
from ...linker.lang import LANES, Record
from ...linker.records import memory
from ...option import SEEDS, option

MOST_STEPS = 64  # of a particle, which a team keeps in its memory
ROUNDING = 1e-6  # relative error of a length in steps: images store voxel sizes in float32


@dataclass(frozen=True)
class ParticleOptions:
    """Options of particle filtering, a part of the options of the stopping rules that follow tissue fractions."""

    pft: bool = option(
        False, SEEDS, "Particle filtering: where a streamline ends invalidly or finds no direction, it goes back a "
        "little, and particles look for another way. The points where the stopping rule ends a streamline are kept, as "
        "in DIPY.", excludes=("limit_mask", "stop_when_included", "too_long"),
    )  # fmt: skip
    pft_back: float = option(
        2.0, SEEDS, "How far a streamline goes back before particles are sent out.", unit="mm", low=0, above=True,
        requires=("pft",),
    )  # fmt: skip
    pft_front: float = option(
        1.0, SEEDS, "How far particles go beyond the point where the streamline stopped.", unit="mm", low=0,
        requires=("pft",),
    )  # fmt: skip
    pft_particles: int = option(
        15, SEEDS, "Number of particles.", unit="particles", low=1, high=LANES, requires=("pft",),
    )  # fmt: skip
    pft_max_trial: int = option(
        20, SEEDS, "How often particles may be sent out for each half of a streamline.", unit="trials", low=1,
        high=255, requires=("pft",),
    )  # fmt: skip
    pft_min_wm: float = option(
        0.0, SEEDS, "Share of white matter that a streamline must have met before it may end in grey matter. Until "
        "then it goes on.", unit="share", low=0, high=1, requires=("pft",),
    )  # fmt: skip


def particle_fill(options: ParticleOptions, step_mm: float) -> dict[str, Any]:
    """Return the constants, functions and records with which kernels are linked for particle filtering.

    Parameters
    ----------
    options : ParticleOptions
        The options.
    step_mm : float
        Step size, mm.

    Returns
    -------
    dict
        Constants and holes by name.

    Raises
    ------
    ParameterError
        If a particle would take more steps than a team can keep.
    """
    back, front = (
        math.ceil(length / step_mm * (1 - ROUNDING)) for length in (options.pft_back, options.pft_front)
    )
    if back + front > MOST_STEPS:
        raise ParameterError(
            f"--pft-back and --pft-front are {back + front} steps of {step_mm:.3g} mm, but particles take at most "
            f"{MOST_STEPS}: give shorter distances or a larger --step-size"
        )
    return {
        "PARTICLES": options.pft_particles, "FOR_RECOVERY": 2, "BACK_STEPS": back, "FRONT_STEPS": front,
        "TRIALS": options.pft_max_trial, "MIN_WHITE": float(options.pft_min_wm), "Recovery": particles.Particles,
        "TAKES_BACK": 1, "KEPT_POINTS": KEPT | KEPT_ENDS, **particle_filtering.STAGES,
    }  # fmt: skip


def team_memory(fill: Mapping[str, Any]) -> dict[str, tuple[str, int]]:
    """Return kind and size of each array of a recovery in team memory, by name; none without a recovery."""
    record = fill.get("Recovery", Record)
    return memory("recovery", record(**record.sizes(fill)))
