"""The voxels of a mask as rows or columns of a matrix, and which of them streamlines pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...io.images import grid_of, open_image
from ...io.nifti import load_mask
from ...space.batch import Batch
from .density import MOST_SIDE, MOST_VOXELS, MapGrid
from .passages import passages

Array = npt.NDArray[Any]


class VoxelMask:
    """The voxels of a mask, numbered from 0 on in the order of FSL's matrices: x runs fastest, then y, then z.

    Parameters
    ----------
    image : path of the mask, or what stands in for it; its grid may be rotated or sheared.

    Attributes
    ----------
    path : str, as messages name it.
    space : grid of the mask.
    voxels : (n, 3) int32, voxel coordinates of each voxel.
    doubts : why the image may be no mask.

    Raises
    ------
    InputError
        If the file is missing or damaged, empty, or too large.
    """

    def __init__(self, image: Any) -> None:
        opened = open_image(image)
        self.path, self.space, self.doubts = str(opened), grid_of(*opened, sheared=True), list[str]()
        size = int(np.prod([int(side) for side in self.space.shape], dtype=object))
        if size > MOST_VOXELS or max(self.space.shape) > MOST_SIDE:
            shape = " x ".join(map(str, self.space.shape))
            raise InputError(f"{opened}: a mask of {shape} voxels is too large, beyond {MOST_VOXELS:,} or "
                             f"{MOST_SIDE:,} along an axis: crop it, or give one of larger voxels")  # fmt: skip
        inside = load_mask(opened, self.space, warn=self.doubts.append, labels=True)
        self.voxels = np.ascontiguousarray(np.argwhere(inside.transpose(2, 1, 0))[:, ::-1], np.int32)
        self._number = np.full(inside.shape, -1, np.int32)
        self._number[tuple(self.voxels.T)] = np.arange(len(self.voxels))

    def __len__(self) -> int:
        """Return the number of voxels."""
        return len(self.voxels)

    def same(self, other: VoxelMask) -> bool:
        """Whether both have the same voxels."""
        same = self.space.shape == other.space.shape and np.array_equal(self.space.affine, other.space.affine)
        return same and np.array_equal(self.voxels, other.voxels)

    def passed(self, batch: Batch) -> Iterator[tuple[Array, Array]]:
        """Yield which streamlines of a batch pass which voxels, each pair once, for some streamlines at a time.

        Yields
        ------
        streamline : (v,) number of the streamline among those of the batch, ascending.
        number : (v,) number of the voxel, ascending for each streamline.
        """
        advice = f"{self.path}: give a mask of larger voxels"
        grid = MapGrid(self.space, max(batch.longest_step * (1 + 1e-6), 1e-3), advice)
        numbers = self._number.ravel()
        for some in passages(grid, batch):
            number = numbers[some.voxel]
            inside = np.flatnonzero(number >= 0)
            streamline, number = some.streamline[inside], number[inside]
            order = np.lexsort((number, streamline))
            yield streamline[order], number[order]

    def of_seeds(self, batch: Batch) -> Array:
        """Return the number of the voxel in which the seed of each streamline lies, (n,); -1 for none of the mask."""
        found = np.full(len(batch), -1, np.int64)
        alone = replace(batch, points=batch.seeds, offsets=np.arange(len(batch) + 1), data_per_point={})
        for seed, number in self.passed(alone):
            found[seed] = number
        return found
