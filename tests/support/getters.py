"""The direction getters that follow a series, or a model that is fitted to it."""

from __future__ import annotations

from tistreamlines.options.parameters import Parameters
from tistreamlines.tracking.registry import METHODS
from tistreamlines.tracking.sources import OF_A_SERIES

ON_A_SERIES = tuple(name for name, row in METHODS.items() if set(OF_A_SERIES) & set(row.follows))
WITH_PEAKS = tuple(name for name in ON_A_SERIES if Parameters(dg=name).applies("relative_peak_threshold"))
