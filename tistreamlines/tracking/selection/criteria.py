"""Criteria: which streamlines are kept, besides those of a right length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ...space.batch import Space
from .filters import Filter, ValidEnds
from .options import check_regions
from .regions import Asked, Regions

NOWHERE = Space(np.eye(4), (1, 1, 1))


@dataclass(frozen=True)
class Criteria:
    """Which streamlines are kept, besides those of a right length.

    Parameters
    ----------
    regions : regions of interest by the name of their option, which is one of :data:`.regions.ROLES`.
    stop_when_included : whether streamlines end once all include regions are visited.
    valid_ends : whether both ends have to be valid.
    """

    regions: Asked = field(default_factory=dict)
    stop_when_included: bool = False
    valid_ends: bool = False

    def filters(self, space: Space | None = None) -> Sequence[Filter]:
        """Check the regions against the grid of the image, and return the filters of an engine.

        Without a grid, kernels can be compiled for the filters, but nothing can be tracked.

        Raises
        ------
        InputError
            If a region lies outside the image, or if no streamline could pass.
        """
        if space is not None:
            check_regions(self.regions, space)
        ends = [ValidEnds()] if self.valid_ends else []
        return [*ends, Regions(self.regions, space or NOWHERE, self.stop_when_included)] if self.regions else ends
