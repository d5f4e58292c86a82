"""The inputs that the options of a run need: a series, places of seeds, a mask."""

from __future__ import annotations

from ..errors import ParameterError, listed
from ..option import flag
from ..options.definitions import saying
from ..options.option_groups import BESIDE_A_MASK, PLACE
from ..options.parameters import Parameters
from ..tracking.registry import METHODS, STOPPING_RULES
from ..tracking.sources import FITTED, OF_A_SERIES, SIGNALS, SOURCES
from .series import Series

STOP_MASK = "stop_mask"  # the option whose map is a mask


def needs_series(parameters: Parameters) -> str:
    """Return the error message that says why a diffusion series is needed, or '' if none is."""
    if parameters.source == FITTED:
        follows = METHODS[parameters.dg].follows
        names = [flag(name) for name in follows if name in SOURCES]
        others = listed(names) if names else ""
        if not follows_series(parameters):
            return f"--dg {parameters.dg} follows no series: give {others}"
        other = f", or orientations from a file with {others}" if others else ""
        if not parameters.gives("dg"):
            return "no series: give DWI, BVALS and BVECS, or DWI with the gradients beside it, or FODs with --sh"
        return f"--dg {parameters.dg} needs DWI, BVALS and BVECS; give them{other}"
    file, rule = flag(parameters.source), STOPPING_RULES[parameters.stopping]
    if rule.needs_fa(parameters):
        rows = (rule,) if parameters.gives("stopping") else STOPPING_RULES.values()
        maps = dict.fromkeys([*row.maps][-1] for row in rows if row.maps)  # the last may hold the others in one image
        return f"{file} without DWI, BVALS and BVECS leaves no FA to stop at: give {listed(map(flag, maps))}"
    if not placed(parameters):
        places = listed(map(flag, (*saying(PLACE), *BESIDE_A_MASK)))
        return f"{file} without DWI, BVALS and BVECS leaves no FA to place seeds by: give {places}"
    return ""


def follows_series(parameters: Parameters) -> bool:
    """Return whether the direction getter can follow a series, or a model that is fitted to it."""
    return bool(set(OF_A_SERIES) & set(METHODS[parameters.dg].follows))


def refuse_idle(series: Series, parameters: Parameters) -> None:
    """Raise a ParameterError if a mask or shells are given, but nothing is fitted, or a frame that the file defines.

    Also if there is a series, but the direction getter follows something else, which is missing.

    Parameters
    ----------
    series : the diffusion series, or nothing.
    parameters : all options.
    """
    if parameters.source == FITTED and not follows_series(parameters):
        raise ParameterError(needs_series(parameters))
    if series and "bvecs" not in series and parameters.bvecs_frame != "auto":
        raise ParameterError(
            f"--bvecs-frame says what the axes of BVECS are, and {series['dwi']} has gradients of its own, along the "
            "scanner's axes: leave it out"
        )
    fits = STOPPING_RULES[parameters.stopping].needs_fa(parameters) or not placed(parameters)
    if parameters.source == FITTED or (series and fits):
        return
    if parameters.shells is not None:
        raise ParameterError(f"{flag('shells')} says what FA and models are fitted to, and this run fits neither")
    if parameters.mask is not None and not stops_at_mask(parameters) and not limits_at_mask(parameters):
        raise ParameterError(
            "--mask says where FA and models are fitted, and this run fits neither: give --limit-mask to bound "
            "streamlines, or --seed-mask to bound seeds"
        )


def placed(parameters: Parameters) -> bool:
    """Return whether an option or a source says where seeds are placed; otherwise they are placed by FA."""
    asked = any(getattr(parameters, name) is not None for name in (*saying(PLACE), *BESIDE_A_MASK))
    return asked or _brings_mask(parameters)


def stops_at_mask(parameters: Parameters) -> bool:
    """Return whether streamlines end outside --mask, because the rule needs a mask and no other is known."""
    needed = STOP_MASK in STOPPING_RULES[parameters.stopping].maps and parameters.stop_mask is None
    return needed and parameters.mask is not None and not _brings_mask(parameters)


def limits_at_mask(parameters: Parameters) -> bool:
    """Return whether --mask is one more --limit-mask, as tckgen's -mask: the FODs are there, and the rule uses none."""
    bounds = METHODS[parameters.dg].ends_at_cutoff and parameters.source != FITTED
    return bounds and parameters.mask is not None and not stops_at_mask(parameters)


def _brings_mask(parameters: Parameters) -> bool:
    return parameters.source in SOURCES and SOURCES[parameters.source].mask is not None


def follows_signals(parameters: Parameters) -> bool:
    """Return whether the direction getter follows the signals, which it reads outside the mask, too."""
    return parameters.source == FITTED and SIGNALS in METHODS[parameters.dg].follows
