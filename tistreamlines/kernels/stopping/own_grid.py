"""Maps of a stopping rule that lie on a grid of their own, such as a segmentation finer than the series."""

from __future__ import annotations

import math

from ...linker.lang import *
from ..interpolate import coordinate, inside
from ..lanes import corner_voxel, corner_weight

MAPS = Constant("number of the rule's maps on a grid of their own")


class OwnGrid(Record):
    """Maps on a grid of their own; the record of a rule extends it.

    ``maps`` has the ``MAPS`` values of each voxel, ``sides`` the numbers of voxels, and ``to_grid`` the rows of a 3 x 4 matrix
    from voxel coordinates of the tracked image to those of the grid.
    """

    maps: Reals
    sides: Ints
    to_grid: Reals

    def elements(self, rule):
        if len(self.sides) != 3 or min(self.sides) < 1:
            raise ValueError(f"a grid of {self.sides} voxels")
        return {"maps": rule.maps * math.prod(map(int, self.sides)), "sides": 3, "to_grid": 12}


@func
def on_own_grid(own: OwnGrid, p: vec3) -> vec3:
    """A point of the tracked image in voxel coordinates of the grid."""
    return vec3(coordinate(own.to_grid, 0, p), coordinate(own.to_grid, 4, p), coordinate(own.to_grid, 8, p))


@func
def map_around(own: OwnGrid, q: vec3, number: i32) -> real:
    """Each lane's map, or that at each lane's point, interpolated trilinearly between the eight voxels around the point."""
    value = lanes(0.0)
    for corner in rolled(8):
        i = (corner >> 2) & 1
        j = (corner >> 1) & 1
        k = corner & 1
        place = corner_voxel(own.sides, q, i, j, k) * MAPS + number
        value = value + corner_weight(q, i, j, k) * take(own.maps, place)
    return value


@func
def map_at(own: OwnGrid, q: vec3, number: i32) -> real:
    """One of the maps, interpolated trilinearly at a point of the grid; 0 outside it.

    Beyond the outermost voxel centres the values are constant for half a voxel, as in the tracked image.
    """
    value = 0.0
    if inside(own.sides, q) == 1:
        for corner in range(8):
            i = (corner >> 2) & 1
            j = (corner >> 1) & 1
            k = corner & 1
            place = corner_voxel(own.sides, q, i, j, k) * MAPS + number
            value = value + corner_weight(q, i, j, k) * own.maps[place]
    return value
