"""What the tables of several methods have in common."""

from __future__ import annotations

import math
from typing import Any

from ..kernels.peaks import PeakRule
from .given import StopTables
from .options import MethodOptions


def peak_rule(options: MethodOptions) -> PeakRule:
    """The kernels' record of thresholds; degrees become cosines here."""
    return PeakRule(
        relative_threshold=options.relative_peak_threshold,
        cos_separation=math.cos(math.radians(options.min_separation_angle)),
        cos_angle=math.cos(math.radians(options.max_angle)),
    )


def stop_fill(stop: StopTables, width: int) -> dict[str, Any]:
    """Constants and holes of the stopping rule, whose maps end a row of so many numbers."""
    return stop.fill | {"ROW_CHUNKS": width // 32, "STOP_CHANNEL": width - stop.count, "STOP_CHANNELS": stop.count}


def harmonic_operations(fill: dict[str, Any]) -> int:
    """Operations that evaluate an ODF's harmonics in one direction: two a coefficient, with padding."""
    return 2 * (fill["HALF_ORDER"] + 1) * (2 * fill["HALF_ORDER"] + 1)
