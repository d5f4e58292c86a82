"""The pictures of a report: streamlines, their density and the directions of a slice, as arrays of red, green, blue.

They are drawn straight into arrays, since drawing so many lines one by one would take many seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..aliases import Array
from ..io.picture import VIEWS, View, coloured
from ..space.batch import Batch, Space, last_points
from .frame import PictureFrame

LONGEST = 620  # pixels of the longest side of a picture
MOST_SEGMENTS = 900_000  # of the streamlines that are drawn
MOST_SAMPLES = 4_000_000  # places of segments that are looked at in a view
AT_ONCE = 1 << 20  # of them
FEW_SEGMENTS = 200_000  # with fewer, lines are drawn at twice the resolution, and smoothed
MARGIN = 4.0  # mm around what is shown
BRIGHT = 0.15  # of the brightest voxels: what is darker lies outside the head
VOXEL_PIXELS = (8, 20)  # of a voxel of the slice with directions
WIDEST = 1100  # pixels of that slice
# from dark to light, as wide steps of lightness as 8 bits allow
RAMP = ("#0b0724", "#3b1163", "#7a1f6d", "#b8364f", "#e8662f", "#f9a52b", "#fbe77a", "#fffce0")


@dataclass(frozen=True, eq=False)
class SlicePeaks:
    """The initial directions that were found at the centres of voxels of a slice.

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
class ReportScene:
    """What the pictures show.

    Parameters
    ----------
    space : grid of the image that is tracked.
    density : (x, y, z), how many streamlines pass each voxel.
    sample : some of the streamlines, at even intervals.
    background : (x, y, z) uint8, what lies behind the streamlines; None for their density.
    streamlines : how many there are.
    behind : what lies behind them, in words, if it is not the mean b0.
    """

    space: Space
    density: Array
    sample: Batch
    background: npt.NDArray[np.uint8] | None
    streamlines: int
    behind: str = ""

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
        """The sagittal, the coronal and the axial slice of which streamlines pass most voxels."""
        passed = self.counts > 0
        sums = [passed.sum(axis=tuple({0, 1, 2} - {axis})) for axis in range(3)]
        return tuple(int(line.argmax()) if line.any() else len(line) // 2 for line in sums)

    @cached_property
    def grey(self) -> Array:
        """What lies behind the streamlines, 0 to 1, along the axes of the frame: the background, or the density."""
        if self.background is not None:
            return self.frame.volume(self.background).astype(np.float32) / 255
        return 0.6 * np.log1p(self.counts, dtype=np.float32) / max(np.log1p(float(self.counts.max(initial=0))), 1e-9)

    @cached_property
    def box(self) -> tuple[slice, ...]:
        """The voxels that are shown: those of the head, or without a background those with streamlines."""
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


def streamline_pictures(scene: ReportScene) -> list[Array]:
    """Draw the sample in each view, (h, w, 3) uint8, coloured by direction, over the slice of the background."""
    every = max(1, -(-len(scene.sample.points) // MOST_SEGMENTS))
    chosen = scene.sample if every == 1 else scene.sample[::every]
    points, offsets = scene.frame.places(chosen.points), chosen.offsets
    inner = np.ones(max(len(points) - 1, 0), bool)
    inner[last_points(offsets)[:-1]] = False  # from the end of a streamline to the start of the next one
    steps = np.diff(chosen.points, axis=0)[inner]
    lengths = np.linalg.norm(steps, axis=1)
    colours = coloured(np.abs(steps) / np.maximum(lengths, 1e-6)[:, None])
    starts, along = points[:-1][inner], np.diff(points, axis=0)[inner]
    finer = 2 if len(starts) < FEW_SEGMENTS else 1
    longest = finer * scene.pixels() * float(np.percentile(lengths, 95)) if len(lengths) else 1.0
    samples = int(np.clip(np.ceil(longest), 1, max(MOST_SAMPLES // max(len(starts), 1), 1)))
    colours *= np.float32(longest / samples)  # a line counts once in each pixel that it crosses
    return [_over(_traced(scene, view, starts, along, colours, finer, samples), scene, view) for view in VIEWS]


def _traced(
    scene: ReportScene, view: View, starts: Array, along: Array, colours: Array, finer: int, samples: int
) -> tuple[Array, Array]:
    """Return the mean colour of the segments in each pixel, (h, w, 3), and how many there are, (h, w)."""
    width, height = (finer * side for side in scene.size(view))
    low = [(scene.box[axis].start - 0.5) * scene.frame.sides[axis] for axis in range(3)]
    scale = np.float32(finer * scene.pixels())
    x, y = ((starts[:, axis] - np.float32(low[axis])) * scale for axis in (view.across, view.up))
    dx, dy = (along[:, axis] * scale for axis in (view.across, view.up))
    sums, at_once = np.zeros((3, height * width)), max(1, AT_ONCE // max(len(starts), 1))
    for k in range(0, samples, at_once):
        share = ((np.arange(k, min(k + at_once, samples), dtype=np.float32) + 0.5) / np.float32(samples))[:, None]
        column, row = (x + share * dx).astype(np.int32), (y + share * dy).astype(np.int32)
        inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
        pixel = ((height - 1 - row) * width + column)[inside]
        for channel, total in enumerate(sums):
            total += np.bincount(pixel, np.broadcast_to(colours[:, channel], inside.shape)[inside], len(total))
    if finer > 1:  # few lines are drawn wider
        wide = sums.reshape(3, height, width)
        wide[:, 1:] += wide[:, :-1].copy()
        wide[:, :, 1:] += wide[:, :, :-1].copy()
    rgb = sums.T.reshape(height // finer, finer, width // finer, finer, 3).sum(axis=(1, 3)) / finer
    count = np.linalg.norm(rgb, axis=2)
    return rgb / np.maximum(count, 1e-9)[..., None], count


def _over(traced: tuple[Array, Array], scene: ReportScene, view: View) -> Array:
    """Lay streamlines over the slice of the background; where more of them pass, less of it is seen."""
    rgb, count = traced
    most = max(float(np.percentile(count[count > 0], 98)), 1.0) if (count > 0).any() else 1.0
    dense = np.log1p(count) / np.log1p(most)
    cover = np.where(count > 0, np.clip(0.25 + 0.75 * dense, 0, 1) * np.clip(count, 0, 1), 0)[..., None]
    behind = _enlarged(0.55 * scene.slice_of(scene.grey, view), scene.size(view))[..., None]
    bright = np.clip(0.45 + 0.65 * dense, 0, 1.1)[..., None]
    return _bytes(behind * (1 - cover) + 1.15 * rgb * bright * cover)


def density_pictures(scene: ReportScene) -> list[Array]:
    """Draw the density of a slice in each view, (h, w, 3) uint8, on a logarithmic scale, over the background."""
    most, ramp = np.log1p(float(scene.counts.max(initial=0))), ramp_of(256)
    pictures = []
    for view in VIEWS:
        count = scene.slice_of(scene.counts, view)
        level = (255 * np.log1p(count) / max(most, 1e-9)).astype(np.uint8)
        size = scene.size(view)
        colour, there = _repeated(ramp[level], size), _repeated(count > 0, size)[..., None]
        behind = _enlarged(0.55 * scene.slice_of(scene.grey, view), size)[..., None]
        pictures.append(_bytes(np.where(there, 0.85 * colour + 0.15 * behind, behind)))
    return pictures


def peaks_picture(scene: ReportScene, peaks: SlicePeaks) -> Array:
    """Draw the directions in the axial slice, (h, w, 3) uint8, each as a line in its colour, over the background."""
    from PIL import Image, ImageDraw

    view, frame = VIEWS[0], scene.frame
    places = frame.within(peaks.places)[:, [view.across, view.up]]
    low, high = places.min(axis=0), places.max(axis=0) + 1
    behind = scene.grey[:, :, scene.slices[view.towards]][low[0] : high[0], low[1] : high[1]].T[::-1]
    pixels = int(np.clip(WIDEST // max(behind.shape), *VOXEL_PIXELS))
    # drawn at twice the resolution, and smoothed
    sides = frame.sides[[view.across, view.up]] / frame.sides[[view.across, view.up]].min()
    size = [round(2 * pixels * side * count) for side, count in zip(sides, behind.shape[::-1], strict=True)]
    image = Image.fromarray(_bytes(np.repeat(_enlarged(0.5 * behind, size)[..., None], 3, axis=2)))
    draw = ImageDraw.Draw(image)
    middle = (places - low + 0.5) * 2 * pixels * sides
    # the greatest peak is drawn last, and the others are shorter and darker
    length = np.where(peaks.ranks == 0, 0.92 * pixels, 0.6 * pixels)
    half = length[:, None] * frame.turned(peaks.directions)[:, [view.across, view.up]]
    ends = np.stack([middle - half, middle + half], axis=1)
    ends[..., 1] = size[1] - ends[..., 1]
    colours = coloured(np.abs(peaks.directions @ scene.space.axes.T)) * np.where(peaks.ranks == 0, 1, 0.5)[:, None]
    order = np.argsort(-peaks.ranks, kind="stable")
    lines, tones = ends.reshape(-1, 4)[order].tolist(), (255 * colours[order]).astype(int).tolist()
    for line, tone in zip(lines, tones, strict=True):
        draw.line(line, tuple(tone), max(3, round(0.3 * pixels)))
    return np.asarray(image.reduce(2))


def ramp_of(count: int) -> Array:
    """Return colours from dark to light, (count, 3), 0 to 1."""
    stops = np.array([[int(colour[k : k + 2], 16) for k in (1, 3, 5)] for colour in RAMP]) / 255
    at = np.linspace(0, len(stops) - 1, count)
    return np.stack([np.interp(at, range(len(stops)), stops[:, channel]) for channel in range(3)], axis=1)


def _enlarged(values: Array, size: Sequence[int]) -> Array:
    """Return values, (h, w), interpolated to a size (width, height)."""
    from PIL import Image

    image = Image.fromarray(np.ascontiguousarray(values, np.float32))
    width, height = size
    return np.asarray(image.resize((width, height), Image.Resampling.BICUBIC))


def _repeated(values: Array, size: tuple[int, int]) -> Array:
    """Return values, (h, w, ...), each repeated to a size (width, height)."""
    rows, columns = (np.arange(many) * few // many for many, few in zip(size[::-1], values.shape, strict=False))
    return values[rows[:, None], columns]


def _bytes(values: Array) -> npt.NDArray[np.uint8]:
    return (255 * np.clip(values, 0, 1) + 0.5).astype(np.uint8)
