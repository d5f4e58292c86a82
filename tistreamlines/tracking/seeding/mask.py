"""A mask on a grid of its own, in which seeds must lie that are placed otherwise."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...space.batch import Space

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


class SeedMask(NamedTuple):
    """Voxels outside of which no seed may lie.

    Parameters
    ----------
    inside : (x, y, z) bool
    space : Space
        Their grid.
    """

    inside: Flags
    space: Space

    def holds(self, points: Floats) -> Flags:
        """Return which points (n, 3), RASmm, lie in a voxel of the mask."""
        voxels = np.floor(self.space.to_voxel(points) + 0.5)
        within = ((voxels >= 0) & (voxels < self.inside.shape)).all(axis=1)
        held = np.zeros(len(points), bool)
        held[within] = self.inside[tuple(voxels[within].astype(int).T)]
        return held

    def touches(self, low: Floats, high: Floats) -> Flags:
        """Return which boxes, from ``low`` to ``high``, (m, 3) in voxel coordinates, have a part in a voxel of it."""
        sums = np.pad(self.inside, ((1, 0),) * 3).astype(np.int64)
        for axis in range(3):
            sums = sums.cumsum(axis)
        ends = [np.clip(np.floor(side), 0, self.inside.shape).astype(int) for side in (low + 0.5, high + 1.5)]
        count = np.zeros(len(low), np.int64)
        for corner in np.ndindex(2, 2, 2):
            place = tuple(ends[end][:, axis] for axis, end in enumerate(corner))
            count += (-1) ** (3 - sum(corner)) * sums[place]
        return count > 0
