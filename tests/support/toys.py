"""The host side of a small method and of a small stopping rule, and their rows in the registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import fading
import numpy as np
import straightest

from tistreamlines.tracking.getters import pmf
from tistreamlines.tracking.parts import Getter, Rule
from tistreamlines.tracking.registry import Method, StoppingRule
from tistreamlines.tracking.sources import FUNCTIONS
from tistreamlines.tracking.stopping.threshold import ThresholdOptions, needs_fa
from tistreamlines.tracking.tables.inputs import Scheme, StopTables
from tistreamlines.tracking.tables.rows import Rows

CHANCE = 0.1  # of a step's end, where the map is 0


def describe_straightest(scheme: Scheme, options: pmf.PmfOptions) -> tuple[Getter, Rows]:
    """Return the getter of the straightest path, and its rows."""
    return pmf.pmf_tables(scheme, options).described(pmf.PmfGetter, next_direction=straightest.next_direction)


STRAIGHTEST = Method(
    title="straightest path", use="a test needs one", follows=FUNCTIONS, describe=describe_straightest,
    options=pmf.PmfOptions, models=("csd", "opdt"), references=("Mori 1999",),
    defaults={
        "model": "opdt", "max_angle": 30.0, "relative_peak_threshold": 0.5, "min_separation_angle": 25.0,
        "pmf_threshold": 0.1,
    },
)


def prepare_fading(
    maps: Mapping[str, np.ndarray], anisotropy: Callable[[], np.ndarray], options: ThresholdOptions,
    sides: tuple[float, ...],
) -> StopTables:
    """Tables of the rule: the map, and the chance to end, which falls as the map rises."""
    stop_map: Any = maps["stop_map"] if "stop_map" in maps else anisotropy()
    channels = np.stack([stop_map, CHANCE * np.maximum(1 - stop_map, 0)], axis=-1).astype(np.float32)
    rule = Rule(stopping=fading.Fading(threshold=options.threshold), classify=fading.classify)
    return StopTables(rule, channels, stop_map > options.threshold)


FADING = StoppingRule(
    title="ends at a threshold, or by chance", prepare=prepare_fading, options=ThresholdOptions, maps={"stop_map": 0},
    needs_fa=needs_fa,
)
