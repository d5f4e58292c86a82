"""The contents of a report's pictures: the density of the streamlines and a sample of them, in the frame of a head."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import permutations

import numpy as np
import numpy.typing as npt

from ..aliases import Array
from ..io.picture import View
from ..space.batch import Batch, Space
from ..tracking.products.density.density import Density
from ..viewer.scene import Sample

LONGEST = 620  # pixels of the longest side of a picture
MARGIN = 4.0  # mm around what is shown
BRIGHT = 0.15  # of the brightest voxels: what is darker lies outside the head
MOST = 16_000  # streamlines of the sample


@dataclass(frozen=True, eq=False)
class PictureFrame:
    """The grid of an image, with its axes in the order right, front, top, from the centre of its first voxel.

    Pictures are along the voxel axes, so that no slice is interpolated; the pictures are as tilted in the scanner as
    these.

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
        return np.where(self.signs > 0, places, np.array(self.shape) - 1 - places)[:, np.argsort(self.order)]

    def within(self, voxels: Array) -> Array:
        """Return the indices of voxels in the frame, (n, 3), from those in the image."""
        places = voxels[:, list(self.order)]
        return np.where(self.signs > 0, places, np.array(self.shape) - 1 - places)

    def turn(self, vectors: Array) -> Array:
        """Return vectors along the voxel axes, (n, 3), along the axes of the frame."""
        return vectors[:, list(self.order)] * self.signs

    def places(self, points: Array) -> Array:
        """Return points in RASmm, (n, 3), as mm along the axes of the frame, float32."""
        to_voxel = np.linalg.inv(self.space.affine)
        scale = (self.signs * self.sides)[:, None]
        rows = to_voxel[list(self.order)] * scale
        ends = np.where(self.signs > 0, 0.0, (np.array(self.shape) - 1) * self.sides)
        return points @ rows[:, :3].T.astype(np.float32) + (rows[:, 3] + ends).astype(np.float32)


@dataclass(frozen=True, eq=False)
class SlicePeaks:
    """The initial directions at the centres of voxels of a slice.

    Parameters
    ----------
    places : (n, 3) int, indices of the voxels; one with several directions is there several times.
    directions : (n, 3), unit vectors along the voxel axes, without a sense.
    ranks : (n,), 0 for the greatest peak of a voxel, then 1, 2 and so on.
    """

    places: Array
    directions: Array
    ranks: Array


@dataclass(frozen=True, eq=False)
class ImageScene:
    """The slices and the background of the pictures.

    Parameters
    ----------
    space : grid of the image.
    density : (x, y, z), how much there is to see in each voxel.
    background : (x, y, z) uint8, what lies behind it; None for the density.
    """

    space: Space
    density: Array
    background: npt.NDArray[np.uint8] | None

    @cached_property
    def frame(self) -> PictureFrame:
        """The frame of the pictures."""
        return PictureFrame(self.space)

    @cached_property
    def counts(self) -> Array:
        """The density along the axes of the frame."""
        return self.frame.volume(self.density)

    @cached_property
    def slices(self) -> tuple[int, ...]:
        """The sagittal, the coronal and the axial slice with most voxels of the density."""
        passed = self.counts > 0
        sums = [passed.sum(axis=tuple({0, 1, 2} - {axis})) for axis in range(3)]
        return tuple(int(line.argmax()) if line.any() else len(line) // 2 for line in sums)

    @cached_property
    def grey(self) -> Array:
        """The picture behind, 0 to 1, along the axes of the frame: the background, or the density."""
        if self.background is not None:
            return self.frame.volume(self.background).astype(np.float32) / 255
        return 0.6 * np.log1p(self.counts, dtype=np.float32) / max(np.log1p(float(self.counts.max(initial=0))), 1e-9)

    @cached_property
    def box(self) -> tuple[slice, ...]:
        """The visible voxels: the head, or without a background the voxels that have a density."""
        shown = self.counts > 0
        if self.background is not None:
            shown = shown | (self.grey > BRIGHT)
        sides = []
        for axis, side in enumerate(self.frame.sides):
            # a few bright voxels beside the head do not count
            sums = shown.sum(axis=tuple({0, 1, 2} - {axis}))
            inside = np.flatnonzero(sums > 0.02 * sums.max(initial=0))
            more = int(np.ceil(MARGIN / side))
            ends = (0, len(sums)) if not len(inside) else (max(inside[0] - more, 0), inside[-1] + 1 + more)
            sides.append(slice(int(ends[0]), int(min(ends[1], len(sums)))))
        return tuple(sides)

    def pixels(self) -> float:
        """Return the pixels of a mm, the same in all views."""
        return LONGEST / max(self.lengths)

    @property
    def lengths(self) -> list[float]:
        """Sides of the box that is shown, mm."""
        return [(part.stop - part.start) * side for part, side in zip(self.box, self.frame.sides, strict=True)]

    def size(self, view: View) -> tuple[int, int]:
        """Return the width and the height of the picture of a view."""
        scale = self.pixels()
        return max(round(self.lengths[view.across] * scale), 1), max(round(self.lengths[view.up] * scale), 1)

    def slice_of(self, values: Array, view: View) -> Array:
        """Return the rows of a slice of a volume of the frame, the top first, as far as it is shown."""
        where: list[slice | int] = [*self.box]
        where[view.towards] = self.slices[view.towards]
        return values[tuple(where)].T[::-1]  # two axes are left, and across comes before up in all views

    def level(self, view: View) -> float:
        """Return the place of the slice, mm from the origin along its axis of the scanner."""
        place = np.array([(part.start + part.stop - 1) / 2 for part in self.box])
        place[view.towards] = self.slices[view.towards]
        return float(self.space.to_ras(self.frame.voxels(place[None]))[0, view.towards])


@dataclass(frozen=True, eq=False)
class ReportScene(ImageScene):
    """The contents of the pictures of streamlines; the density is how many of them pass each voxel.

    Parameters
    ----------
    sample : some of the streamlines, at even intervals.
    streamlines : how many there are.
    behind : what lies behind them, in words, if it is not the mean b0.
    """

    sample: Batch
    streamlines: int
    behind: str = ""


class StreamlineSample:
    """The density of the streamlines of a run, and an even sample of them, as batches pass.

    Parameters
    ----------
    space : grid of the image that is tracked.
    step_mm : the longest distance between two points of a streamline, mm.
    threads : how many threads count; None for as many as help.
    """

    def __init__(self, space: Space, step_mm: float, threads: int | None = None) -> None:
        self.space = space
        self._density, self._sample = Density(space, step_mm, threads), Sample(MOST)

    def add(self, batch: Batch) -> None:
        """Take the streamlines of a batch into account."""
        self._density.add(batch)
        self._sample.add(batch)

    def scene(self, background: npt.NDArray[np.uint8] | None, behind: str = "") -> ReportScene:
        """Wait for all batches; return what pictures show of them, see :class:`ReportScene`."""
        sample = self._sample
        return ReportScene(self.space, self._density.counts(), background, sample.batch(), sample.total, behind)
