"""Streamlines end where a map is at or below a threshold (DIPY's ``ThresholdStoppingCriterion``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..kernels.stopping import threshold
from ..options.option import flag, option
from .given import StopTables

if TYPE_CHECKING:
    from ..options.option import ImageLike

Array = npt.NDArray[Any]
GROUP = "Seeds and region"


@dataclass(frozen=True)
class ThresholdOptions:
    """Options of the rule, a part of :class:`tistreamlines.Parameters`."""

    stop_map: ImageLike | None = option(
        None, GROUP, "Map that ends streamlines where it is at or below its threshold; its values are not scaled.",
        unit="FILE", absent="FA",
    )  # fmt: skip
    stop_threshold: float | None = option(
        None, GROUP, "Threshold of --stop-map, in the unit of the map.", unit="value", absent="the --fa-threshold",
        requires=("stop_map",),
    )  # fmt: skip
    fa_threshold: float = option(
        0.1, GROUP, "Streamlines end where FA (or the stop map) is at or below this.", unit="FA", low=0, high=1,
        excludes=("stop_threshold",),
    )  # fmt: skip

    @property
    def threshold(self) -> float:
        """What the stop map must exceed."""
        return self.fa_threshold if self.stop_threshold is None else self.stop_threshold


def needs_fa(options: ThresholdOptions) -> bool:
    """Whether FA has to be fitted, since no other map is given."""
    return options.stop_map is None


def prepare(maps: Mapping[str, Array], anisotropy: Callable[[], Array], options: ThresholdOptions) -> StopTables:
    """Tables of the rule; arguments as for :class:`tistreamlines.methods.registry.StoppingRule`.

    Raises
    ------
    InputError
        Where the map is nowhere above the threshold.
    """
    stop_map = maps["stop_map"] if "stop_map" in maps else anisotropy()
    if not (stop_map > options.threshold).any():
        name = "the FA map" if "stop_map" not in maps else str(options.stop_map)
        option_name = flag("fa_threshold" if options.stop_threshold is None else "stop_threshold")
        raise InputError(
            f"{name}: its largest value {stop_map.max():.4g} is not above {option_name} {options.threshold:g}; lower it"
        )
    return of_map(stop_map, options.threshold)


def of_map(stop_map: Array, value: float) -> StopTables:
    """Tables for streamlines that go on where a map (x, y, z) is above a value."""
    # below zero it could be passed between voxels whose rows are left out, which count as 0
    alive = None if value < 0 else stop_map > value
    fill = {"Stopping": threshold.Threshold, "classify": threshold.classify}
    channels = np.asarray(stop_map, np.float32)[..., None]
    return StopTables(threshold.Threshold(threshold=value), channels, alive, fill)
