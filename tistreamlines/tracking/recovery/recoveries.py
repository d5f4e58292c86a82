"""Backtracking, as MRtrix3's ``tckgen -backtrack``, and particle filtering, as DIPY's ``ParticleFilteringTracking``."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...errors import ParameterError
from ...kernels.recovery import backtracking, particle_filtering
from ...kernels.recovery.particles import Particles
from ...kernels.stop_reasons import KEPT, KEPT_ENDS
from ...linker.lang import LANES, Record, Stage
from ...linker.parts import host
from ...option import SEEDS, option
from ..parts import Recovery


@dataclass(frozen=True, repr=False, eq=False)
class BacktrackOptions:
    """The option of backtracking, a part of the options of the stopping rules that tell valid from invalid ends."""

    backtrack: bool = option(
        False, SEEDS, "Where a streamline ends invalidly, it goes back a little and takes other steps, farther back "
        "after every third failure, as in MRtrix3's tckgen.", off="no-backtrack",
        excludes=("pft", "stop_when_included"),
    )


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Backtracking(Recovery):
    """Goes back where a half ends that ``rejects``, a stage of the rule, does not accept."""

    rejects: Stage
    recovery: type[Record] = backtracking.Checkpoint
    load_recovery: Stage = backtracking.load_times
    recover: Stage = backtracking.backtrack
    for_recovery: int = backtracking.KEPT
    takes_back: bool = host(default=True)
    in_turn: bool = host(default=True)  # a backward half sets out when it is certain how the forward half begins


# Particle filtering of streamlines that follow tissue fractions, as DIPY's ``ParticleFilteringTracking``.
MOST_STEPS = 64  # of a particle, which a team keeps in its memory
ROUNDING = 1e-6  # relative error of a length in steps: images store voxel sizes in float32


@dataclass(frozen=True, repr=False, eq=False)
class ParticleOptions:
    """Options of particle filtering, a part of the options of the stopping rules that follow tissue fractions."""

    pft: bool = option(
        False, SEEDS, "Particle filtering: where a streamline ends invalidly or finds no direction, it goes back a "
        "little, and particles look for another way. The points where the stopping rule ends a streamline are kept, as "
        "in DIPY.", excludes=("limit_mask", "stop_when_included", "too_long"),
    )
    pft_back: float = option(
        2.0, SEEDS, "How far a streamline goes back before particles are sent out.", unit="mm", low=0, above=True,
        requires=("pft",),
    )
    pft_front: float = option(
        1.0, SEEDS, "How far particles go beyond the point where the streamline stopped.", unit="mm", low=0,
        requires=("pft",),
    )
    pft_particles: int = option(
        15, SEEDS, "Number of particles.", unit="particles", low=1, high=LANES, requires=("pft",),
    )
    pft_max_trial: int = option(
        20, SEEDS, "How often particles may be sent out for each half of a streamline.", unit="trials", low=1,
        high=255, requires=("pft",),
    )
    pft_min_wm: float = option(
        0.0, SEEDS, "Share of white matter that a streamline must have met before it may end in grey matter. Until "
        "then it goes on.", unit="share", low=0, high=1, requires=("pft",),
    )


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ParticleFiltering(Recovery):
    """Sends out particles where a half ends invalidly; see the constants of ``kernels/recovery``."""

    particles: int
    back_steps: int
    front_steps: int
    trials: int
    min_white: float
    recovery: type[Record] = Particles
    load_recovery: Stage = particle_filtering.load_trials
    reconsider: Stage = particle_filtering.ask_for_white
    recover: Stage = particle_filtering.send_particles
    store_recovery: Stage = particle_filtering.store_trials
    for_recovery: int = 2
    takes_back: bool = host(default=True)
    kept_points: int = host(default=KEPT | KEPT_ENDS)


def particle_filtering_of(options: ParticleOptions, step_mm: float) -> ParticleFiltering:
    """Return particle filtering with these options and a step size in mm.

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
    return ParticleFiltering(
        particles=options.pft_particles, back_steps=back, front_steps=front, trials=options.pft_max_trial,
        min_white=float(options.pft_min_wm),
    )
