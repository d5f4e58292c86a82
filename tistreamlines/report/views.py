"""The files of a report: the page, a picture and numbers for MultiQC; they appear complete or not at all.

Pictures are drawn straight into arrays of red, green and blue, since drawing so many lines one by one would take many
seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..aliases import Array
from ..io.picture import VIEWS, View, direction_colours
from ..io.sidecar import write_json
from ..io.writer import completed
from ..space.batch import last_points
from ..viewer.matrix import ramp_of
from .content import files_of
from .page import Pictures, RunFacts, html
from .scene import ReportScene, SlicePeaks

MOST_SEGMENTS = 900_000  # of the streamlines that are drawn
MOST_SAMPLES = 4_000_000  # places of segments that are looked at in a view
AT_ONCE = 1 << 20  # of them
FEW_SEGMENTS = 200_000  # with fewer, lines are drawn at twice the resolution, and smoothed
VOXEL_PIXELS = (8, 20)  # of a voxel of the slice with directions
WIDEST = 1100  # pixels of that slice
GAP = 8  # pixels between the pictures of one file


def write_report(page: Path, facts: RunFacts, scene: ReportScene, peaks: SlicePeaks | str, *, force: bool) -> None:
    """Draw the pictures of a run, and write its report.

    Parameters
    ----------
    page : name of the page; the other files lie beside it.
    told, scene : what is known of the run, and what the pictures show.
    peaks : the directions in the axial slice of the scene, or why there are none.
    force : replace existing files.

    Raises
    ------
    OutputError
        If a file exists and ``force`` is false, or if it cannot be written.
    """
    known = isinstance(peaks, SlicePeaks)
    pictures = Pictures(
        streamline_pictures(scene), density_pictures(scene), peaks_picture(scene, peaks) if known else None,
        "" if known else peaks,
    )
    files = files_of(page)
    write_json(files["numbers"], numbers(facts), force=force)
    with completed(files["picture"], force=force) as draft:
        _save(draft, np.concatenate([_row(pictures.streamlines), _row(pictures.density)]))
    with completed(files["page"], force=force) as draft:
        # bytes of a file name that are not UTF-8 are lone surrogates in Python
        draft.write_text(html(facts, scene, pictures), encoding="utf-8", errors="backslashreplace")


def numbers(facts: RunFacts) -> Mapping[str, object]:
    """Return the numbers of a run, as a result has them, and those of its connectomes."""
    connectomes = [
        {"labels": str(matrix.labels), "nodes": len(matrix.nodes), "unassigned": matrix.unassigned}
        for matrix in facts.connectomes
    ]
    return dict(facts.record["result"]) | ({"connectomes": connectomes} if connectomes else {})


def streamline_pictures(scene: ReportScene) -> list[Array]:
    """Draw the sample in each view, (h, w, 3) uint8, coloured by direction, over the slice of the background."""
    every = max(1, -(-len(scene.sample.points) // MOST_SEGMENTS))
    chosen = scene.sample if every == 1 else scene.sample[::every]
    points, offsets = scene.frame.places(chosen.points), chosen.offsets
    inner = np.ones(max(len(points) - 1, 0), bool)
    inner[last_points(offsets)[:-1]] = False  # from the end of a streamline to the start of the next one
    steps = np.diff(chosen.points, axis=0)[inner]
    lengths = np.linalg.norm(steps, axis=1)
    colours = direction_colours(np.abs(steps) / np.maximum(lengths, 1e-6)[:, None])
    starts, along = points[:-1][inner], np.diff(points, axis=0)[inner]
    finer = 2 if len(starts) < FEW_SEGMENTS else 1
    longest = finer * scene.pixels() * float(np.percentile(lengths, 95)) if len(lengths) else 1.0
    samples = int(np.clip(np.ceil(longest), 1, max(MOST_SAMPLES // max(len(starts), 1), 1)))
    colours *= np.float32(longest / samples)  # a line counts once in each pixel that it crosses
    return [_over(_trace(scene, view, starts, along, colours, finer, samples), scene, view) for view in VIEWS]


def _trace(
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
    behind = enlarge(0.55 * scene.slice_of(scene.grey, view), scene.size(view))[..., None]
    bright = np.clip(0.45 + 0.65 * dense, 0, 1.1)[..., None]
    return to_bytes(behind * (1 - cover) + 1.15 * rgb * bright * cover)


def density_pictures(scene: ReportScene) -> list[Array]:
    """Draw the density of a slice in each view, (h, w, 3) uint8, on a logarithmic scale, over the background."""
    most, ramp = np.log1p(float(scene.counts.max(initial=0))), ramp_of(256)
    pictures = []
    for view in VIEWS:
        count = scene.slice_of(scene.counts, view)
        level = (255 * np.log1p(count) / max(most, 1e-9)).astype(np.uint8)
        size = scene.size(view)
        colour, there = repeat_pixels(ramp[level], size), repeat_pixels(count > 0, size)[..., None]
        behind = enlarge(0.55 * scene.slice_of(scene.grey, view), size)[..., None]
        pictures.append(to_bytes(np.where(there, 0.85 * colour + 0.15 * behind, behind)))
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
    image = Image.fromarray(to_bytes(np.repeat(enlarge(0.5 * behind, size)[..., None], 3, axis=2)))
    draw = ImageDraw.Draw(image)
    middle = (places - low + 0.5) * 2 * pixels * sides
    # the greatest peak is drawn last, and the others are shorter and darker
    length = np.where(peaks.ranks == 0, 0.92 * pixels, 0.6 * pixels)
    half = length[:, None] * frame.turn(peaks.directions)[:, [view.across, view.up]]
    ends = np.stack([middle - half, middle + half], axis=1)
    ends[..., 1] = size[1] - ends[..., 1]
    colours = direction_colours(np.abs(peaks.directions @ scene.space.axes.T))
    colours = colours * np.where(peaks.ranks == 0, 1, 0.5)[:, None]
    order = np.argsort(-peaks.ranks, kind="stable")
    lines, tones = ends.reshape(-1, 4)[order].tolist(), (255 * colours[order]).astype(int).tolist()
    for line, tone in zip(lines, tones, strict=True):
        draw.line(line, tuple(tone), max(3, round(0.3 * pixels)))
    return np.asarray(image.reduce(2))


def enlarge(values: Array, size: Sequence[int]) -> Array:
    """Return values, (h, w), interpolated to a size (width, height)."""
    from PIL import Image

    image = Image.fromarray(np.ascontiguousarray(values, np.float32))
    width, height = size
    return np.asarray(image.resize((width, height), Image.Resampling.BICUBIC))


def repeat_pixels(values: Array, size: tuple[int, int]) -> Array:
    """Return values, (h, w, ...), each repeated to a size (width, height)."""
    rows, columns = (np.arange(many) * few // many for many, few in zip(size[::-1], values.shape, strict=False))
    return values[rows[:, None], columns]


def to_bytes(values: Array) -> npt.NDArray[np.uint8]:
    return (255 * np.clip(values, 0, 1) + 0.5).astype(np.uint8)


def _row(pictures: Sequence[Array]) -> npt.NDArray[np.uint8]:
    """Lay pictures beside each other, the lower ones in the middle."""
    height = max(map(len, pictures))
    parts = []
    for picture in pictures:
        above = (height - len(picture)) // 2
        parts.append(np.pad(picture, ((above + GAP, height - len(picture) - above), (GAP, 0), (0, 0))))
    return np.concatenate(parts, axis=1)


def _save(path: Path, picture: npt.NDArray[np.uint8]) -> None:
    from PIL import Image

    # a palette makes the file a third as large
    Image.fromarray(picture).quantize(256, Image.Quantize.FASTOCTREE).save(path, "PNG")
