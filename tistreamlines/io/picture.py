"""A picture of streamlines in three views, coloured by local direction."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from ..aliases import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INK, _PAPER, _QUIET, _FRAME, _OUTLINE = "#e8e8ec", "#08080b", "#85858f", "#2a2a31", "#b9b9c4"
DIRECTIONS = (("left-right", "#ff4545"), ("back-front", "#45dd45"), ("bottom-top", "#6488ff"))
_MOST_SEGMENTS = 90_000  # Agg draws these in all three views within a few seconds
_NAMES = ("x", "y", "z")
LETTERS = (("L", "R"), ("P", "A"), ("I", "S"))
# inches: width of the figure, and margins left of, right of, between, below and above the three views
_WIDTH, _LEFT, _RIGHT, _BETWEEN, _BELOW, _ABOVE = 16.0, 0.7, 0.2, 0.75, 0.65, 0.95


class View(NamedTuple):
    """Axes of space: across and up the page, and towards the viewer (with its sign)."""

    name: str
    across: int
    up: int
    towards: int
    sign: int


# Left is left in every view: from above, from behind, from the right.
VIEWS = (View("axial", 0, 1, 2, 1), View("coronal", 0, 2, 1, -1), View("sagittal", 1, 2, 0, 1))


def grey(values: Array) -> npt.NDArray[np.uint8]:
    """Return an image for pictures, of the same shape, so bright that few voxels are white."""
    inside = values[values > 0.1 * values.max(initial=0)]
    white = max(float(np.percentile(inside, 99)) if len(inside) else 0.0, 1e-12)
    return (255 * np.clip(values / white, 0, 1)).astype(np.uint8)


def png(
    points: np.ndarray, offsets: np.ndarray, *, mask: np.ndarray | None = None, affine: np.ndarray | None = None,
    title: str | None = None, max_streamlines: int = 3000, dpi: int = 150,
) -> bytes:
    """Draw streamlines as seen from above, from behind and from the right.

    Left-right is red, back-front green and bottom-top blue. Streamlines nearer to the viewer are brighter and on top.

    Parameters
    ----------
    points : (p, 3) float32, RASmm
        Points of all streamlines, one after another.
    offsets : (n + 1,) int64
        Streamline ``i`` is ``points[offsets[i]:offsets[i + 1]]``.
    mask : (x, y, z) bool, optional
        Brain mask, whose outline is drawn.
    affine : (4, 4) float, optional
        From voxel coordinates of the mask (centre of a voxel = integer) to RASmm; the identity by default.
    title : str, optional
    max_streamlines : int
        If there are more streamlines, only this many are drawn, at even intervals.
    dpi : int
        Dots per inch of a picture that is 16 inches wide.

    Returns
    -------
    bytes
        The picture in PNG format.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    affine = np.eye(4) if affine is None else np.asarray(affine, float)
    segments, owner = _segments(np.asarray(points), np.asarray(offsets), max_streamlines)
    brain = np.empty((0, 3)) if mask is None else np.argwhere(mask) @ affine[:3, :3].T + affine[:3, 3]
    low, high = _limits(np.concatenate([segments.reshape(-1, 3), brain]))
    colours = _direction_colours(segments, owner)
    # with bins smaller than the largest voxel edge, the mask's projection would have holes
    size = float(np.linalg.norm(affine[:3, :3], axis=0).max())
    figure, frames = _figure(low, high)
    for axes, view in zip(frames, VIEWS, strict=True):
        _draw_streamlines(axes, view, segments, colours)
        if len(brain):
            _draw_outline(axes, view, brain, size)
        _letter(axes, view)
    _caption(figure, title)
    figure.set_dpi(dpi)
    picture = BytesIO()
    FigureCanvasAgg(figure).print_png(picture)
    return picture.getvalue()


def _segments(points: np.ndarray, offsets: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Choose streamlines and points of them; return line segments (m, 2, 3) and the streamline that each is of."""
    total = len(offsets) - 1
    count = min(total, most)
    chosen = np.arange(count) * total // max(count, 1)
    start, stop = offsets[chosen], offsets[chosen + 1]
    length = np.maximum(stop - start - 1, 0)
    stride = max(1, int(np.ceil(length.sum() / _MOST_SEGMENTS)))
    pieces = -(-length // stride)
    owner = np.repeat(np.arange(count), pieces)
    rank = np.arange(len(owner)) - (np.cumsum(pieces) - pieces)[owner]
    begin = start[owner] + stride * rank
    # the last segment of a streamline is shorter, so that the true end is drawn
    end = np.minimum(begin + stride, stop[owner] - 1)
    return np.stack([points[begin], points[end]], axis=1), owner


def _direction_colours(segments: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """Colour each segment (m, 3: red, green, blue) by its direction; brightness varies between streamlines."""
    step = np.abs(segments[:, 1] - segments[:, 0]).astype(np.float64)
    step /= np.maximum(np.linalg.norm(step, axis=1, keepdims=True), 1e-12)
    # multiples of the golden ratio give neighbouring streamlines different brightness
    return direction_colours(step) * (0.6 + 0.4 * (owner * 0.6180339887 % 1.0))[:, None]


def direction_colours(directions: np.ndarray) -> np.ndarray:
    """Return the colours (m, 3: red, green, blue) of directions without a sign, (m, 3), unit vectors in RAS.

    Pure blue is hard to see on black, so some red and green is added.
    """
    return np.clip(directions + directions[:, 2:] * np.array([0.15, 0.35, 0.0], directions.dtype), 0, 1)


def _figure(low: np.ndarray, high: np.ndarray) -> tuple[Figure, np.ndarray]:
    """Return a figure and its three empty views, which have the same height and scale."""
    from matplotlib.figure import Figure

    extent = high - low
    widths = [extent[view.across] for view in VIEWS]
    height = max(extent[view.up] for view in VIEWS)
    inches = (_WIDTH - _LEFT - _RIGHT - 2 * _BETWEEN) / sum(widths)
    tall = inches * height + _BELOW + _ABOVE
    figure = Figure(figsize=(_WIDTH, tall), dpi=150, facecolor=_PAPER)
    frames = figure.subplots(1, 3, width_ratios=widths, gridspec_kw={
        "left": _LEFT / _WIDTH, "right": 1 - _RIGHT / _WIDTH, "bottom": _BELOW / tall, "top": 1 - _ABOVE / tall,
        "wspace": _BETWEEN / (inches * float(np.mean(widths))),
    })
    for axes, view in zip(frames, VIEWS, strict=True):
        middle = (low[view.up] + high[view.up]) / 2
        axes.set(xlim=(low[view.across], high[view.across]), ylim=(middle - height / 2, middle + height / 2))
        axes.set(aspect="equal", facecolor=_PAPER)
    return figure, frames


def _draw_streamlines(axes: Axes, view: View, segments: np.ndarray, colours: np.ndarray) -> None:
    from matplotlib.collections import LineCollection

    depth = view.sign * segments[:, :, view.towards].mean(axis=1)
    order = np.argsort(depth, kind="stable")
    # brightness follows the rank of the depth: one stray streamline in front must not darken the others
    nearness = np.linspace(0.4, 1.0, len(order))
    rgba = np.concatenate([colours[order] * nearness[:, None], np.full((len(order), 1), 0.6)], axis=1)
    flat = segments[order][:, :, [view.across, view.up]]
    # other caps than butt overlap at each point and show as dots, since the lines are translucent
    axes.add_collection(LineCollection(list(flat), colors=rgba, linewidths=0.6, capstyle="butt", zorder=2))


def _draw_outline(axes: Axes, view: View, brain: np.ndarray, size: float) -> None:
    """Draw the contour of the mask's projection, computed from voxel centres so that any affine works."""
    from scipy.ndimage import gaussian_filter

    flat = brain[:, [view.across, view.up]]
    # bins are centred on the voxels of an axis-aligned grid, so that rounding leaves no empty rows
    start = flat.min(axis=0) - 3.5 * size
    bins = np.ceil((flat.max(axis=0) - start) / size).astype(int) + 4
    edges = [s + size * np.arange(n) for s, n in zip(start, bins, strict=True)]
    projection = np.histogram2d(flat[:, 0], flat[:, 1], bins=edges)[0] > 0
    across, up = (edge[:-1] + size / 2 for edge in edges)
    smooth = gaussian_filter(projection.astype(float), 1.8)
    axes.contour(across, up, smooth.T, levels=[0.5], colors=_OUTLINE, linewidths=1.1, zorder=1)


def _letter(axes: Axes, view: View) -> None:
    """Label the view, its axes (mm), and the sides of the body."""
    axes.set_title(view.name, color=_INK, fontsize=14, loc="left", pad=7)
    axes.set_xlabel(f"{_NAMES[view.across]} (mm)", color=_QUIET, fontsize=11)
    axes.set_ylabel(f"{_NAMES[view.up]} (mm)", color=_QUIET, fontsize=11, labelpad=1)
    axes.tick_params(colors=_QUIET, labelsize=10, length=3)
    for spine in axes.spines.values():
        spine.set_color(_FRAME)
    places = ((0.03, 0.5), (0.97, 0.5), (0.5, 0.03), (0.5, 0.97))
    for place, letter in zip(places, LETTERS[view.across] + LETTERS[view.up], strict=True):
        axes.text(
            *place, letter, transform=axes.transAxes, color=_INK, fontsize=14, weight="bold", ha="center", va="center"
        )


def _caption(figure: Figure, title: str | None) -> None:
    """Write the title and the colour legend along the top."""
    height = 1 - 0.3 / figure.get_figheight()
    if title:
        figure.text(_LEFT / _WIDTH, height, title, color=_INK, fontsize=17, va="center")
    for k, (label, colour) in enumerate(reversed(DIRECTIONS)):
        figure.text(1 - (_RIGHT + 1.2 * k) / _WIDTH, height, label, color=colour, fontsize=13, ha="right", va="center")


def _limits(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the corners (mm) of the box to show: that of the points, with a margin for the letters."""
    if not len(points):
        return np.full(3, -1.0), np.full(3, 1.0)
    low, high = points.min(axis=0).astype(float), points.max(axis=0).astype(float)
    margin = max(0.085 * float((high - low).max()), 1.0)
    return low - margin, high + margin
