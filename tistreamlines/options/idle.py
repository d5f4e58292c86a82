"""Options that would change nothing beside others: none is taken in silence."""

from __future__ import annotations

from typing import Any

from ..errors import ParameterError
from ..methods.registry import METHODS, STOPPING_RULES
from ..option import flag

PEAKS = ("relative_peak_threshold", "min_separation_angle")  # options of which directions are peaks


def without_effect(name: str, chosen: Any) -> str:
    """Say why an option changes nothing in a run, and what to do; nothing if it has an effect.

    Parameters
    ----------
    name : str
        Name of an option that is given.
    chosen : Parameters
        All options, whose module imports this one.
    """
    draws = METHODS[chosen.dg].draws or STOPPING_RULES[chosen.stopping].draws or chosen.one_way
    if name == "rng_seed" and not draws:
        return (
            f"changes nothing with --dg {chosen.dg}, which draws no random numbers: leave it out; --seed-seed is for "
            "the places of the seeds"
        )
    if name == "probe_radius" and chosen.probe_radius and chosen.probe_count == 1:
        return "changes nothing with a single line: give --probe-count, the number of lines at this distance"
    return ""


def refuse_peak_options(chosen: Any) -> None:
    """Raise a ParameterError if options of peaks are given, but seeds have directions and no step looks for peaks."""
    method = METHODS[chosen.dg]
    for name in ("max_directions", *(() if method.steps_along_peaks(chosen) else PEAKS)):
        if getattr(chosen, name) != method.defaults.get(name):
            raise ParameterError(
                f"{flag(name)} changes nothing where --seeds gives the direction of each seed's one streamline: leave "
                "it out"
            )
