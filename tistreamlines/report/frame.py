"""The frame of the pictures: the voxel axes in the order and the sense that come nearest to right, front and top."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import permutations

import numpy as np

from ..aliases import Array
from ..space.batch import Space


@dataclass(frozen=True, eq=False)
class PictureFrame:
    """The grid of an image, with its axes in the order right, front, top, from the centre of its first voxel.

    Pictures are along the voxel axes, so that no slice is interpolated; where these are tilted in the scanner, so are
    the pictures.

    Parameters
    ----------
    space : the grid.
    """

    space: Space

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The voxel axis that is nearest to each axis of RAS."""
        cosines = np.abs(self.space.axes)
        return max(permutations(range(3)), key=lambda order: cosines[np.arange(3), order].sum())

    @cached_property
    def signs(self) -> Array:
        """1 where a voxel axis has the sense of its axis of RAS, else -1, (3,)."""
        return np.where(self.space.axes[np.arange(3), self.order] < 0, -1, 1)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Number of voxels along each axis of the frame."""
        return tuple(self.space.shape[axis] for axis in self.order)

    @cached_property
    def sides(self) -> Array:
        """Sides of a voxel, (3,), mm."""
        return self.space.voxel_sizes[list(self.order)]

    def volume(self, values: Array) -> Array:
        """Return the values of an image, (x, y, z), along the axes of the frame."""
        return values.transpose(self.order)[tuple(slice(None, None, sign) for sign in self.signs.tolist())]

    def voxels(self, places: Array) -> Array:
        """Return the indices of voxels in the image, (n, 3), from those in the frame."""
        turned = np.where(self.signs > 0, places, np.array(self.shape) - 1 - places)
        out = np.empty_like(turned)
        out[:, list(self.order)] = turned
        return out

    def within(self, voxels: Array) -> Array:
        """Return the indices of voxels in the frame, (n, 3), from those in the image."""
        places = voxels[:, list(self.order)]
        return np.where(self.signs > 0, places, np.array(self.shape) - 1 - places)

    def turned(self, vectors: Array) -> Array:
        """Return vectors along the voxel axes, (n, 3), along the axes of the frame."""
        return vectors[:, list(self.order)] * self.signs

    def places(self, points: Array) -> Array:
        """Return points in RASmm, (n, 3), as mm along the axes of the frame, float32."""
        to_voxel = np.linalg.inv(self.space.affine)
        scale = (self.signs * self.sides)[:, None]
        rows = to_voxel[list(self.order)] * scale
        ends = np.where(self.signs > 0, 0.0, (np.array(self.shape) - 1) * self.sides)
        return points @ rows[:, :3].T.astype(np.float32) + (rows[:, 3] + ends).astype(np.float32)
