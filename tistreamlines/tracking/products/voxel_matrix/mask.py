"""The voxels of a mask as rows or columns of a matrix, and which of them streamlines pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ....aliases import Array
from ....errors import InputError
from ....io.images import AnyPath, Tell, grid_of, open_image
from ....io.nifti import load_mask
from ....space.batch import Batch, Space
from ..grid import MapGrid, excess, passages


@dataclass(frozen=True, eq=False)
class MaskImage:
    """A mask on another grid, which may be rotated or sheared.

    Parameters
    ----------
    path : as messages name it.
    space : its grid.
    inside : (x, y, z) bool, the voxels of at least 0.5.
    """

    path: str
    space: Space
    inside: npt.NDArray[np.bool_]


def read_mask(image: AnyPath, warn: Tell) -> MaskImage:
    """Read a mask whose voxels streamlines may pass.

    Parameters
    ----------
    image : path of the mask, or what stands in for it.
    warn : receives why the image may be no mask.

    Raises
    ------
    InputError
        If the file is missing or damaged, empty, or too large.
    """
    opened = open_image(image)
    space = grid_of(*opened, sheared=True)
    if text := excess(space):
        raise InputError(f"{opened}: a mask {text}: crop it, or give one of larger voxels")
    return MaskImage(str(opened), space, load_mask(opened, space, warn=warn, labels=True))


def numbers_passed(batch: Batch, space: Space, numbers: Array, file: str) -> Iterator[tuple[Array, Array]]:
    """Yield which streamlines of a batch pass which voxels that have a number, for some streamlines at a time.

    Parameters
    ----------
    batch : streamlines.
    space : a grid.
    numbers : (voxels,) number of each of its voxels; below 0 for none.
    file : of the grid, for messages.

    Yields
    ------
    streamline : (v,) number of the streamline among those of the batch, ascending.
    number : (v,) number of the voxel, in any order for each streamline.
    """
    grid = MapGrid(space, max(batch.longest_step * (1 + 1e-6), 1e-3), f"{file}: give a mask of larger voxels")
    for passed in passages(grid, batch):
        number = numbers[passed.voxel]
        inside = np.flatnonzero(number >= 0)
        yield passed.streamline[inside], number[inside]


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

    def __init__(self, image: AnyPath) -> None:
        self.doubts = list[str]()
        mask = read_mask(image, self.doubts.append)
        self.path, self.space = mask.path, mask.space
        self.voxels = np.ascontiguousarray(np.argwhere(mask.inside.transpose(2, 1, 0))[:, ::-1], np.int32)
        self._number = np.full(mask.inside.shape, -1, np.int32)
        self._number[tuple(self.voxels.T)] = np.arange(len(self.voxels))

    def __len__(self) -> int:
        """Return the number of voxels."""
        return len(self.voxels)

    def same(self, other: VoxelMask) -> bool:
        """Whether both have the same voxels."""
        same = self.space.shape == other.space.shape and np.array_equal(self.space.affine, other.space.affine)
        return same and np.array_equal(self.voxels, other.voxels)

    def passages(self, batch: Batch) -> Iterator[tuple[Array, Array]]:
        """Yield which streamlines of a batch pass which voxels, each pair once, for some streamlines at a time.

        Yields
        ------
        streamline : (v,) number of the streamline among those of the batch, ascending.
        number : (v,) number of the voxel, ascending for each streamline.
        """
        for streamline, number in numbers_passed(batch, self.space, self._number.ravel(), self.path):
            order = np.lexsort((number, streamline))
            yield streamline[order], number[order]

    def of_seeds(self, batch: Batch) -> Array:
        """Return the number of the voxel in which the seed of each streamline lies, (n,); -1 for none of the mask."""
        voxels = np.full(len(batch), -1, np.int64)
        alone = replace(batch, points=batch.seeds, offsets=np.arange(len(batch) + 1), data_per_point={})
        for seed, number in self.passages(alone):
            voxels[seed] = number
        return voxels
