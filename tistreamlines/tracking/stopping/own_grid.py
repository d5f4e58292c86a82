"""Maps of a stopping rule on a grid of their own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...aliases import Array
from ...linker.parts import Part


@dataclass(frozen=True, kw_only=True, eq=False)
class MapCount(Part):
    """Number of maps on a grid of their own, for kernels that are linked without a rule."""

    maps: int


@dataclass(frozen=True, eq=False)
class OwnMap:
    """An image on a grid of its own, as a rule's ``prepare`` receives it.

    Parameters
    ----------
    values : ndarray, (x, y, z) or (x, y, z, n), float32
        The map, or maps.
    to_grid : ndarray, (4, 4), float64
        From voxel coordinates of the tracked image (centre of voxel = integer) to those of the map.
    """

    values: npt.NDArray[np.float32]
    to_grid: Array

    @property
    def count(self) -> int:
        """Number of maps."""
        return int(np.prod(self.values.shape[3:], dtype=int))

    def fields(self) -> dict[str, Array]:
        """Return the fields of :class:`tistreamlines.kernels.stopping.own_grid.OwnGrid`."""
        return {
            "maps": np.ascontiguousarray(self.values, np.float32).ravel(),
            "sides": np.array(self.values.shape[:3], np.int32),
            "to_grid": self.to_grid[:3].astype(np.float32).ravel(),
        }
