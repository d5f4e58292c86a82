"""Seeds at the interface of grey and white matter, found in a segmentation of five tissues (Smith et al. 2012).

A seed begins at a random point of some voxels. A descent along the gradient leads to a point where grey equals white
matter. A random shift of up to two voxel sides along each of two axes moves it in the plane of the interface. Another
descent leads back to the interface, just on the side of the grey matter, as in MRtrix3's tckgen. Where a descent ends
elsewhere, another random point is tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ...backends.numba.cache import Function, text_of
from ...devices.threads import in_threads, single_blas
from ...errors import InputError, ParameterError
from ...io.images import AnyPath, silent
from ...option import flag
from ...space.batch import Space, mean_side
from ..stopping.segmentation import TissueFiles, read_tissues
from ..tables.rows import of_windows
from .more_seeds import cells_around, voxels_by_share
from .seeds import Draw, DrawnSeeds, corners_of, first_success

NEAR = 0.01  # as in interface_kernels.py
SIDES = 4.0  # voxel sides from the least to the greatest shift
BLOCK = 1 << 14  # attempts of a task
TRIED = 32  # seeds that must be found before anything is tracked
KERNELS = Path(__file__).with_name("interface_kernels.py")
_find = Function(text_of(KERNELS), "find_seeds")

Floats = npt.NDArray[np.floating]
Voxels = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Segmentation:
    """A segmentation of five tissues.

    Parameters
    ----------
    values : (x, y, z, 5) float32, C-contiguous
        Fractions of cortical and deep grey matter, white matter, fluid and pathology, 0 to 1.
    space : Space
        Grid of the image.
    path : str
        For messages.
    """

    values: npt.NDArray[np.float32]
    space: Space
    path: str

    def interface(self, near: float = 0.0) -> Voxels:
        """Return the voxels (m, 3) in which grey can equal white matter, or differ by at most ``near``.

        Interpolation in a voxel reads the eight cells around its centre, and in a cell a difference of 0 lies between
        corners with more and with less.
        """
        grey, white = self.values[..., 0] + self.values[..., 1], self.values[..., 2]
        excess = grey - white
        sides = (excess <= near) & (white > 0), (excess >= -near) & (grey > 0)
        if near == 0.0:
            sides = excess < 0, sides[1]
        any_of_cells = partial(of_windows, np.logical_or, sizes=(2, 2, 2))
        crossed = np.logical_and(*(any_of_cells(np.pad(side, 1, mode="edge")) for side in sides))
        return np.argwhere(any_of_cells(crossed)).astype(np.int32)

    def find(self, points: Floats, shifts: Floats, success: npt.NDArray[np.bool_]) -> None:
        """Move points (n, 3), RASmm, to the interface, along it by shifts (n, 2), mm, and back; tell which succeed."""
        _find(*self.values_and_grid, points, shifts, success.view(np.uint8))

    @property
    def values_and_grid(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float64], float]:
        """The values, the map from RASmm to voxels, and the longest step of a descent, mm, as kernels take them."""
        back: npt.NDArray[np.float64] = np.ascontiguousarray(np.linalg.inv(self.space.affine), np.float64)
        return self.values, back, 0.5 * float(self.space.voxel_sizes.min())


def load_segmentation(source: AnyPath | TissueFiles) -> Segmentation:
    """Read a segmentation of five tissues on its own grid, see :func:`..stopping.segmentation.read_tissues`.

    Raises
    ------
    InputError
        If the file is no image of five tissues.
    """
    values, space = read_tissues(source, silent)  # the interface does not depend on the sums of tissues
    return Segmentation(np.ascontiguousarray(values), space, str(source))


@dataclass(frozen=True, eq=False)
class InterfaceSeeds(DrawnSeeds):
    """Random seeds at the interface of grey and white matter.

    Parameters
    ----------
    segmentation : Segmentation
    voxels : (m, 3) int32
        The random points lie in these.
    weights : (m,) above 0
        The number of points in each voxel is proportional to its weight.
    affine : (4, 4) float64
        From the grid of the voxels to RASmm.
    space : Space
        Grid of the image that is tracked.
    draw : how many there are, and their random numbers.

    Raises
    ------
    ParameterError
        If the interface lies outside the image.
    """

    segmentation: Segmentation
    voxels: Voxels
    weights: Floats
    affine: npt.NDArray[np.float64]
    space: Space
    draw: Draw

    def __post_init__(self) -> None:
        if not len(self._cells):
            raise ParameterError(f"{flag('seed_gmwmi')} lies outside the image: check its affine")

    @cached_property
    def _sums(self) -> npt.NDArray[np.float64]:
        return np.cumsum(self.weights, dtype=np.float64)

    def points(self, first: int, count: int) -> npt.NDArray[np.float64]:
        """Return the seeds from number ``first`` on; raise InputError if one is not found."""
        return self.among(first, np.arange(self.within(first, count), dtype=np.int32))

    def among(self, first: int, items: npt.NDArray[np.int32]) -> npt.NDArray[np.float64]:
        """Return the seeds of numbers ``first + items``; raise InputError if one is not found."""
        places = f"{flag('seed_mask')} or {flag('seed_image')}"
        reason = f"hardly any voxel of {places} is where grey and white matter meet; give others"
        with single_blas():
            points = first_success(first, items, 3, self._try, self.segmentation.path, reason)
        return self.space.to_voxel(points)

    def _try(
        self, first: int, items: npt.NDArray[np.int32], attempts: npt.NDArray[np.int32]
    ) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """Return the points (n, 3), RASmm, of attempts at seeds ``first + items``, and which are at the interface."""
        reals = self.draw.attempts(first, items, attempts)
        begun = self.voxels[voxels_by_share(self._sums, reals[:, :2])] + (reals[:, 2:5].astype(np.float64) - 0.5)
        points, success = Space(self.affine, self.space.shape).to_ras(begun), np.empty(len(items), bool)
        side = np.float32(mean_side(self.segmentation.space.voxel_sizes))  # rounded: alike on all machines
        shifts = (reals[:, 5:].astype(np.float64) - 0.5) * (SIDES * float(side))

        def search(first: int) -> None:
            block = slice(first, first + BLOCK)
            self.segmentation.find(points[block], shifts[block], success[block])

        in_threads(search, range(0, len(items), BLOCK), self.draw.threads)
        return points, success

    def reach(self) -> npt.NDArray[np.float64]:
        """Return a point between each eight voxels of the image among which a seed may lie."""
        return self._cells

    @cached_property
    def _cells(self) -> npt.NDArray[np.float64]:
        eight = self.segmentation.space.to_ras(corners_of(self.segmentation.interface(NEAR)))
        return cells_around(self.space.to_voxel(eight), self.space)


def interface_seeds(
    source: AnyPath | TissueFiles, voxels: Voxels, weights: Floats, affine: npt.NDArray[np.float64], space: Space,
    draw: Draw,
) -> InterfaceSeeds:
    """Return seeds at the interface in a segmentation; without voxels, points are drawn in those that it passes.

    Raises
    ------
    InputError
        If the segmentation cannot be read, or has no interface, or if that is not found.
    """
    segmentation = load_segmentation(source)
    crossed = segmentation.interface()
    if not len(crossed):
        raise InputError(
            f"{source}: grey and white matter meet nowhere; give five volumes: cortical and deep grey matter, white "
            "matter, fluid and pathology, as MRtrix3's 5ttgen writes them"
        )
    if not len(voxels):
        voxels, weights, affine = crossed, np.ones(len(crossed)), segmentation.space.affine
    seeds = InterfaceSeeds(segmentation, voxels, weights, affine, space, draw)
    seeds.points(0, TRIED)
    return seeds
