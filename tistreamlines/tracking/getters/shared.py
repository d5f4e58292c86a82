"""Parts that the tables of several methods share."""

from __future__ import annotations

import math
from typing import Any

from ...kernels.orientation.peaks import PeakRule
from ..tables.given import StopTables
from .options import VertexOptions

WITH_RECOVERY = 30  # bits of a code, one to a word

def peak_rule(options: VertexOptions) -> PeakRule:
    """Return the kernels' record of the peak thresholds, with cosines of the angles."""
    return PeakRule(
        relative_threshold=options.relative_peak_threshold,
        cos_separation=math.cos(math.radians(options.min_separation_angle)),
        cos_angle=math.cos(math.radians(options.max_angle)),
    )


def most_directions(peaks: int, options: VertexOptions) -> int:
    """Return the greatest number of initial directions of a seed that can have so many peaks."""
    return min(peaks, options.max_directions or peaks)


def stop_fill(stop: StopTables, width: int) -> dict[str, Any]:
    """Return the constants and holes of the stopping rule, whose maps end a row of ``width`` numbers."""
    return stop.fill | {"ROW_CHUNKS": width // 32, "STOP_CHANNEL": width - stop.count, "STOP_CHANNELS": stop.count}


def try_bits(stop: StopTables, bits: int) -> int:
    """Return the bits of a step's code: the number of a try, of so many bits, and what a recovery drew it with."""
    return WITH_RECOVERY if stop.fill.get("FOR_RECOVERY") else bits


def harmonic_operations(fill: dict[str, Any]) -> int:
    """Return the operations that evaluate an ODF in one direction: two per coefficient, including padding."""
    return 2 * (fill["HALF_ORDER"] + 1) * (2 * fill["HALF_ORDER"] + 1)
