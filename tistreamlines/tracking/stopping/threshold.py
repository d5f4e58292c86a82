"""The stopping rules of one map: a threshold of a map, and a mask, as those of DIPY's stopping criteria."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ...aliases import Array
from ...errors import InputError, ParameterError
from ...kernels.stopping import row_maps
from ...option import SEEDS, ImageLike, flag, option
from ..parts import Rule
from ..tables.inputs import StopTables

MUCH = 100  # times the threshold: the median of FA is about 3 times, that of a fraction of white matter 10 times 0.1
LEAST = 0.01  # a lower threshold stands for 0


@dataclass(frozen=True, repr=False, eq=False)
class ThresholdOptions:
    """Options of the stopping rule, a part of :class:`tistreamlines.Parameters`."""

    stop_map: ImageLike | None = option(
        None, SEEDS, "Streamlines end where this map is at or below its threshold. Its values are not scaled.",
        unit="FILE", absent="FA", common=True,
    )
    stop_threshold: float | None = option(
        None, SEEDS, "Threshold of --stop-map, in the unit of the map.", unit="value",
        absent="the value of --fa-threshold", requires=("stop_map",), common=True,
    )
    fa_threshold: float = option(
        0.1, SEEDS, "Streamlines end where FA (or the stop map) is at or below this value.", unit="FA", low=0, high=1,
        excludes=("stop_threshold",), common=True,
    )

    @property
    def threshold(self) -> float:
        """Value that the stop map must exceed for streamlines to continue."""
        return self.fa_threshold if self.stop_threshold is None else self.stop_threshold


def rule_of(options: ThresholdOptions, sides: tuple[float, ...]) -> Rule:
    """Return the rule; the sides of a voxel are not needed."""
    return _above(options.threshold)


def _above(value: float) -> Rule:
    return Rule(stopping=row_maps.Threshold(threshold=value), classify=row_maps.classify_threshold)


def needs_fa(options: ThresholdOptions) -> bool:
    """Return whether FA must be fitted because no stop map is given."""
    return options.stop_map is None


def prepare(
    maps: Mapping[str, Array], anisotropy: Callable[[], Array], options: ThresholdOptions, sides: tuple[float, ...]
) -> StopTables:
    """Make the tables of the rule.

    Parameters
    ----------
    maps : mapping
        ``stop_map``, an ndarray (x, y, z), if it is given.
    anisotropy : callable
        Returns FA, (x, y, z); called if there is no stop map.
    options : ThresholdOptions
        Options of the rule.
    sides : unused
        See :class:`tistreamlines.tracking.registry.StoppingRule`.

    Returns
    -------
    StopTables
        The tables.

    Raises
    ------
    InputError
        If the map is nowhere above the threshold.
    """
    stop_map = maps["stop_map"] if "stop_map" in maps else anisotropy()
    if not (stop_map > options.threshold).any():
        name = "the FA map" if "stop_map" not in maps else str(options.stop_map)
        option_name = flag("fa_threshold" if options.stop_threshold is None else "stop_threshold")
        raise InputError(
            f"{name}: the largest value {stop_map.max():.4g} is not above {option_name} {options.threshold:g}; lower it"
        )
    return of_map(stop_map, options.threshold)


def doubt(maps: Mapping[str, Array], anisotropy: Callable[[], Array] | None, options: ThresholdOptions) -> str:
    """Say so if the threshold is so low that it seems to be in another unit than the map, as of FA times 1000.

    Parameters
    ----------
    maps, anisotropy, options : as for :func:`prepare`
        See there.

    Returns
    -------
    str
        A warning, or nothing.
    """
    values = maps["stop_map"][maps["stop_map"] > 0] if "stop_map" in maps else np.empty(0)
    if not values.size or values.min() == values.max():  # a mask of any value
        return ""
    middle = float(np.median(values))
    if options.threshold < 0 or middle <= MUCH * max(options.threshold, LEAST):
        return ""
    return (
        f"{options.stop_map}: half of the values above 0 are above {middle:.4g}, but streamlines end where they are at "
        f"most {options.threshold:g}: give {flag('stop_threshold')} in the unit of the map"
    )


def of_map(stop_map: Array, value: float) -> StopTables:
    """Return the tables of streamlines that continue where a map (x, y, z) is above a value."""
    # voxels without a row count as 0, so with a negative threshold streamlines can continue between them
    alive = None if value < 0 else stop_map > value
    channels = np.asarray(stop_map, np.float32)[..., None]
    return StopTables(_above(value), channels, alive)


# The stopping rule that ends streamlines outside a mask, as DIPY's ``BinaryStoppingCriterion``.
@dataclass(frozen=True, repr=False, eq=False)
class BinaryOptions:
    """Options of the stopping rule, a part of :class:`tistreamlines.Parameters`."""

    stop_mask: ImageLike | None = option(
        None, SEEDS, "Streamlines end outside this mask. The value of the nearest voxel counts; from 0.5 on it is "
        "inside.", unit="FILE", absent="--mask; one of them is needed, but not with ifod1, ifod2, "
        "sd_stream, fact",
        common=True,
    )


def binary_rule(options: BinaryOptions, sides: tuple[float, ...]) -> Rule:
    """Return the rule, which depends on nothing."""
    return Rule(stopping=row_maps.Binary(), classify=row_maps.classify_binary, reads_voxels=True)


def prepare_binary(
    maps: Mapping[str, Array], anisotropy: Callable[[], Array], options: BinaryOptions, sides: tuple[float, ...]
) -> StopTables:
    """Make the tables of the rule.

    Parameters
    ----------
    maps : mapping
        ``stop_mask``, an ndarray (x, y, z).
    anisotropy, sides : unused
        See :class:`tistreamlines.tracking.registry.StoppingRule`.
    options : BinaryOptions
        Options of the rule.

    Returns
    -------
    StopTables
        The tables.

    Raises
    ------
    ParameterError
        If there is no mask.
    InputError
        If the mask is empty.
    """
    if "stop_mask" not in maps:
        raise ParameterError(
            "--stopping binary needs --stop-mask, or --mask for it: give the mask of the brain, or of the voxels that "
            "have an orientation function"
        )
    inside = maps["stop_mask"] > 0
    if not inside.any():
        raise InputError(f"{options.stop_mask}: no voxel is above 0, so no streamline could grow: give another mask")
    return StopTables(binary_rule(options, sides), inside.astype(np.float32)[..., None], inside)
