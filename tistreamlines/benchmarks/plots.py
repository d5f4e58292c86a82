"""Plots of benchmark results as SVG to put into a page, in colours that the page's style sheet sets."""

from __future__ import annotations

import io
import math
import re
import textwrap
from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .tables import PARTS, Record, at, done, groups, known, number, percent, sweep_axis, sweep_throughput, throughput

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

# For light and dark paper. Matplotlib draws with stand-ins, unlikely in any picture, which become CSS variables.
_INKS = {"ink": ("#1d1d22", "#ececf0"), "quiet": ("#6a6a74", "#9c9ca8"), "rule": ("#dcdce2", "#3a3a42")}
_TARGETS = (
    ("#0072b2", "#5ab4f0"), ("#d55e00", "#ff8f57"), ("#00805e", "#3ecf9f"), ("#a0489a", "#e29bdc"),
    ("#b07a00", "#f0c04a"), ("#2f9fd0", "#a5dcfa"), ("#84603c", "#cfa981"), ("#5f6670", "#b4bac4"),
)  # fmt: skip
_PARTS = (("#9a7fc7", "#b79be6"), ("#7a828c", "#8b949e"), ("#1f6f8b", "#58b7d3"), ("#c27a1f", "#e3a557"))
_SHARES = _PARTS[2:]
_PALETTE = [
    *_INKS.items(),
    *((f"target-{k}", pair) for k, pair in enumerate(_TARGETS)),
    *((f"part-{k}", pair) for k, pair in enumerate(_PARTS)),
    *((f"share-{k}", pair) for k, pair in enumerate(_SHARES)),
]
_STAND_INS = {name: f"#fb01{k:02x}" for k, (name, _) in enumerate(_PALETTE)}
_INK, _QUIET, _RULE = (_STAND_INS[name] for name in _INKS)
_WIDTH, _BAR = 6.3, 0.28  # inches
_RC = {
    "font.size": 9.5, "axes.titlesize": 9.5, "text.color": _INK, "axes.labelcolor": _INK, "axes.edgecolor": _QUIET,
    "xtick.color": _QUIET, "ytick.color": _QUIET, "xtick.labelcolor": _INK, "ytick.labelcolor": _INK,
    "grid.color": _RULE, "axes.axisbelow": True, "axes.spines.top": False, "axes.spines.right": False,
    "figure.facecolor": "none", "axes.facecolor": "none", "legend.frameon": False, "text.parse_math": False,
    # glyphs as paths: labels keep their size whatever fonts the reader has
    "svg.fonttype": "path",
}  # fmt: skip


class Style(NamedTuple):
    """How a target is drawn in every plot."""

    colour: str
    marker: str
    line: str


def styles(results: Record) -> dict[str, Style]:
    """Give each target of the results its colour, its marker, and a line that is dashed for peers."""
    peers = {run["target"] for run in results.get("runs") or () if run.get("kind") == "peer"}
    records = [*(results.get("runs") or ()), *(results.get("sweeps") or ())]
    names = dict.fromkeys(str(record["target"]) for record in records)
    for kind in ("lengths", "densities"):
        names |= dict.fromkeys(name for found in (results.get(kind) or {}).values() for name in found)
    names.pop("edges_mm", None)
    return {
        name: Style(_STAND_INS[f"target-{k % len(_TARGETS)}"], "osD^vPXd*"[k % 9], "--" if name in peers else "-")
        for k, name in enumerate(names)
    }


def colour_variables(dark: bool) -> str:
    """Declare the plots' colours as CSS variables."""
    return "".join(f"--{name}:{pair[dark]};" for name, pair in _PALETTE)


def throughput_bars(name: str, runs: Sequence[Record], looks: dict[str, Style]) -> str | None:
    """Bars of Mpoints/s, with a word for each run that came to nothing; None if all did."""
    rates = [throughput(run) or 0.0 if run.get("status") == "ok" else 0.0 for run in runs]
    found = [rate for rate in rates if rate > 0]
    if not found:
        return None
    # On a linear scale the slow would not be seen beside one a hundred times faster.
    wide = max(found) > 30 * min(found)
    base = 10.0 ** math.floor(math.log10(min(found)) - 0.3) if wide else 0.0

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for row, (run, rate) in enumerate(zip(runs, rates, strict=True)):
            if rate > 0:
                axes.barh(row, rate - base, left=base, height=0.7, color=looks[run["target"]].colour)
            text = number(rate) if rate > 0 else str(run.get("status")) if run.get("status") != "ok" else "not known"
            _beside(axes, max(rate, base), row, text, _INK if rate > 0 else _QUIET)
        _rows(axes, [run["label"] for run in runs])
        if wide:
            _logarithmic(axes, "x", base, max(found))
        axes.set_xlim(base, max(found) * (max(found) / base) ** 0.1 if wide else max(found) * 1.12)
        axes.set_xlabel("throughput (million points a second" + (", logarithmic scale)" if wide else ")"))

    return _svg(name, "Throughput of each target", draw, _height(len(runs)))


def time_bars(name: str, runs: Sequence[Record]) -> str | None:
    """Bars of the share of time that compiling, preparing, tracking and writing take; None if no times are known."""
    split = [(run["label"], [at(run, "seconds", part) for part in PARTS]) for run in done(runs)]
    rows = [(label, [s if known(s) else 0.0 for s in seconds]) for label, seconds in split]
    rows = [(label, seconds) for label, seconds in rows if sum(seconds) > 0]
    if not rows:
        return None

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        shares = np.array([[100 * s / sum(seconds) for s in seconds] for _, seconds in rows])
        for k, part in enumerate(PARTS):
            left = shares[:, :k].sum(axis=1)
            axes.barh(range(len(rows)), shares[:, k], left=left, height=0.7, color=_STAND_INS[f"part-{k}"], label=part)
        for row, (_, seconds) in enumerate(rows):
            _beside(axes, 100, row, f"{number(sum(seconds))} s", _INK)
        _rows(axes, [label for label, _ in rows])
        axes.set_xlim(0, 116)
        axes.set_xticks(range(0, 101, 20))
        axes.set_xlabel("share of the time (%), and its sum (s)")
        figure.legend(loc="outside upper center", ncols=len(PARTS))

    return _svg(name, "Share of time by part", draw, _height(len(rows)) + 0.3)


def sweep_lines(name: str, sweeps: Sequence[Record], looks: dict[str, Style]) -> str | None:
    """Lines of Mpoints/s against what a sweep changes, logarithmic where that is a number; None without data."""
    lines = [(sweep, list(zip(sweep["values"], sweep_throughput(sweep), strict=True))) for sweep in sweeps]
    lines = [(sweep, [(value, rate) for value, rate in line if rate]) for sweep, line in lines]
    lines = [(sweep, line) for sweep, line in lines if line]
    if not lines:
        return None
    values = list(dict.fromkeys(value for _, line in lines for value, _ in line))
    rates = [rate for _, line in lines for _, rate in line]
    scaled = all(known(value) and value > 0 for value in values)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for sweep, line in lines:
            look = looks[sweep["target"]]
            across = [value if scaled else values.index(value) for value, _ in line]
            axes.plot(across, [rate for _, rate in line], look.line, color=look.colour, marker=look.marker, ms=5,
                      label=_wrapped(sweep["target"]))  # fmt: skip
        _logarithmic(axes, "y", min(rates), max(rates))
        if scaled:
            _logarithmic(axes, "x", min(values), max(values))
            if len(values) < 7:
                axes.set_xticks(values)
        else:
            axes.set_xticks(range(len(values)), [str(value) for value in values])
        axes.grid(True)
        axes.set_xlabel(sweep_axis(lines[0][0]))
        axes.set_ylabel("throughput (million points a second)")
        figure.legend(loc="outside right upper")

    return _svg(name, f"Throughput against {lines[0][0]['name']}", draw, 3.6)


def length_lines(name: str, lengths: Record, looks: dict[str, Style]) -> str | None:
    """Distributions of lengths, each of area one, so that targets of unlike numbers compare; None without data."""
    edges = np.asarray(lengths.get("edges_mm") or (), float)
    found = {target: np.asarray(counts, float) for target, counts in lengths.items() if target != "edges_mm"}
    found = {target: c for target, c in found.items() if len(c) == len(edges) - 1 and c.sum() > 0}
    if not found:
        return None

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for k, (target, counts) in enumerate(found.items()):
            # Archs' equal distributions lie on one another: the first is the widest, so that each shows.
            width = max(1.4, 4.0 - 0.9 * k) if looks[target].line == "-" else 1.4
            axes.stairs(100 * counts / counts.sum() / np.diff(edges), edges, color=looks[target].colour, lw=width,
                        ls=looks[target].line, label=_wrapped(target))  # fmt: skip
        _plain(axes.xaxis)
        _plain(axes.yaxis)
        axes.set_xlim(edges[0], edges[-1])
        axes.set_ylim(0)
        axes.set_xlabel("length (mm)")
        axes.set_ylabel("streamlines (% a mm)")
        figure.legend(loc="outside right upper")

    return _svg(name, "Distributions of streamline lengths", draw, 3.0)


def density_maps(name: str, densities: Record) -> str | None:
    """Projections of streamline density side by side, on one logarithmic scale; None without data."""
    found = {target: np.atleast_2d(np.asarray(rows, float)) for target, rows in densities.items()}
    found = {target: rows for target, rows in found.items() if rows.size and rows.max() > 0}
    if not found:
        return None
    most = max(rows.max() for rows in found.values())
    across = min(4, len(found))
    down = -(-len(found) // across)
    shape = max(rows.shape[0] / rows.shape[1] for rows in found.values())

    def draw(figure: Figure) -> None:
        from matplotlib import cm, colormaps, colors, ticker

        # Voxels without streamlines take the scale's darkest colour, as a brain on black.
        colours = colormaps["inferno"].with_extremes(bad=colormaps["inferno"](0.0))
        scale = cm.ScalarMappable(colors.LogNorm(0.8, max(most, 1.6)), colours)
        frames = figure.subplots(down, across, squeeze=False).ravel()
        for axes in frames[len(found) :]:
            axes.set_axis_off()
        for axes, (target, rows) in zip(frames, found.items(), strict=False):
            axes.imshow(rows, norm=scale.norm, cmap=colours, interpolation="none")
            axes.set(xticks=[], yticks=[], title=_wrapped(target, 18))
            axes.spines[:].set_visible(False)
        bar = figure.colorbar(scale, ax=frames, shrink=0.8, label="streamlines in a voxel")
        bar.ax.yaxis.set_major_formatter(ticker.FuncFormatter(_tick))
        bar.ax.yaxis.set_minor_locator(ticker.NullLocator())

    return _svg(name, "Maps of streamline density", draw, min(9.0, 0.3 + down * (0.4 + shape * 4.6 / across)))


def limit_bars(name: str, results: Record) -> str | None:
    """Bars of the shares of a device's bytes and operations a second that runs reach; None if none are known."""
    rows = [
        (f"{case}, {getter}\n{run['label']}", [at(run, "limit_share", kind) for kind in ("bytes", "operations")])
        for (case, getter), runs in groups(results).items()
        for run in done(runs)
    ]
    rows = [(label, shares) for label, shares in rows if any(map(known, shares))]
    if not rows:
        return None
    most = 100 * max(share for _, shares in rows for share in shares if known(share))

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for k, kind in enumerate(("bytes", "operations")):
            places = np.arange(len(rows)) + 0.38 * k - 0.19
            widths = [100 * shares[k] if known(shares[k]) else 0.0 for _, shares in rows]
            axes.barh(places, widths, height=0.36, color=_STAND_INS[f"share-{k}"], label=kind)
            for place, width, (_, shares) in zip(places, widths, rows, strict=True):
                _beside(axes, width, place, percent(shares[k]) if known(shares[k]) else "not known", _INK)
        _rows(axes, [label for label, _ in rows])
        axes.axvline(100, color=_QUIET, lw=1, ls=":")
        _plain(axes.xaxis)
        axes.set_xlim(0, 1.14 * max(most, 100))
        axes.set_xlabel("share of what the device can do in a second (%)")
        figure.legend(loc="outside upper center", ncols=2)

    return _svg(name, "Share of the device's limits", draw, 0.3 + _height(len(rows), 0.46))


def _svg(name: str, title: str, draw: Callable[[Figure], None], height: float) -> str:
    """Draw a figure and make an SVG element of it whose ids begin with its name, as a page may have several."""
    import matplotlib.style
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    text = io.StringIO()
    with matplotlib.style.context(["default", _RC | {"svg.hashsalt": name}]):
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        draw(figure)
        FigureCanvasSVG(figure).print_svg(text, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    svg = text.getvalue()
    # Names of XML and its style for all of a page have no place within HTML; comments repeat the labels.
    svg = re.sub(r'\s+xmlns(:\w+)?="[^"]*"|<style.*?</style>|<!--.*?-->', "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", svg)
    for key, stand_in in _STAND_INS.items():
        svg = svg.replace(stand_in, f"var(--{key})")
    return svg.replace("<svg", f'<svg role="img" aria-label="{escape(title)}"', 1).strip()


def _height(rows: int, each: float = _BAR) -> float:
    return 0.75 + each * rows


def _rows(axes: Axes, names: Sequence[str]) -> None:
    """Name the bars, the first on top."""
    axes.set_yticks(range(len(names)), [_wrapped(name) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(True, axis="x")


def _beside(axes: Axes, across: float, row: float, text: str, colour: str) -> None:
    offset = {"xytext": (4, 0), "textcoords": "offset points"}
    axes.annotate(text, (across, row), va="center", color=colour, annotation_clip=False, **offset)


def _wrapped(name: str, width: int = 24) -> str:
    return "\n".join(textwrap.fill(line, width) for line in name.splitlines())


def _tick(value: float, _: Any = None) -> str:
    return f"{value:,.0f}" if abs(value) >= 10 else f"{value:.6g}"


def _plain(axis: Axis) -> None:
    from matplotlib import ticker

    axis.set_major_formatter(ticker.FuncFormatter(_tick))


def _logarithmic(axes: Axes, side: str, low: float, high: float) -> None:
    """Scale the x or y side by logarithms, with numbers written out, and more of them on a short one."""
    from matplotlib import ticker

    axes.set(**{f"{side}scale": "log"})
    axis = axes.xaxis if side == "x" else axes.yaxis
    axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
    axis.set_minor_locator(ticker.NullLocator())
    _plain(axis)
