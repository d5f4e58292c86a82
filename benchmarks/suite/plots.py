"""Plots of benchmark results."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tistreamlines.aliases import Array, Json
from tistreamlines.benchmarks.tables import PARTS, at, done, groups, is_known, number, percent, throughput

from .drawing import (
    BAR_PARTS,
    FILE_PARTS,
    INK,
    QUIET,
    STAND_INS,
    Style,
    beside,
    height,
    logarithmic,
    name_rows,
    svg,
    tick,
    wrapped,
)
from .file_tables import STAGES
from .sweep_tables import straight_line, sweep_axis, sweep_throughput

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def throughput_bars(name: str, runs: Sequence[Json], looks: dict[str, Style]) -> str | None:
    """Draw bars of Mpoints/s, with the status of runs that failed; None if all failed."""
    rates = [throughput(run) or 0.0 if run.get("status") == "ok" else 0.0 for run in runs]
    positive = [rate for rate in rates if rate > 0]
    if not positive:
        return None
    # a linear scale would hide a target beside one that is a hundred times faster
    wide = max(positive) > 30 * min(positive)
    base = 10.0 ** math.floor(math.log10(min(positive)) - 0.3) if wide else 0.0

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for row, (run, rate) in enumerate(zip(runs, rates, strict=True)):
            if rate > 0:
                axes.barh(row, rate - base, left=base, height=0.7, color=looks[run["target"]].colour)
            text = number(rate) if rate > 0 else str(run.get("status")) if run.get("status") != "ok" else "not known"
            beside(axes, max(rate, base), row, text, INK if rate > 0 else QUIET)
        name_rows(axes, [run["label"] for run in runs])
        if wide:
            logarithmic(axes, "x", base, max(positive))
        axes.set_xlim(base, max(positive) * (max(positive) / base) ** 0.1 if wide else max(positive) * 1.12)
        axes.set_xlabel("throughput (million points a second" + (", logarithmic scale)" if wide else ")"))

    return svg(name, "Throughput of each target", draw, height(len(runs)))


def time_bars(name: str, runs: Sequence[Json]) -> str | None:
    """Draw bars of the fractions of time for compiling, preparing, tracking and writing; None without times."""
    split = [(run["label"], [at(run, "seconds", part) for part in PARTS]) for run in done(runs)]
    rows = [(label, [s if is_known(s) else 0.0 for s in seconds]) for label, seconds in split]
    rows = [(label, seconds) for label, seconds in rows if sum(seconds) > 0]
    if not rows:
        return None

    def draw(figure: Figure) -> None:
        shares = np.array([[100 * s / sum(seconds) for s in seconds] for _, seconds in rows])
        totals = [sum(seconds) for _, seconds in rows]
        axes = _stacked_bars(figure, [label for label, _ in rows], PARTS, BAR_PARTS, shares, totals)
        axes.set(xlim=(0, 116), xticks=range(0, 101, 20), xlabel="share of the time (%), and its sum (s)")

    return svg(name, "Share of time by part", draw, height(len(rows)) + 0.3)


def file_bars(name: str, rows: Sequence[Json]) -> str | None:
    """Draw bars of the seconds of whole commands, divided into stages; None without times."""
    rows = [row for row in done(rows) if row.get("stages")]
    if not rows:
        return None

    def draw(figure: Figure) -> None:
        seconds = np.array([[row["stages"].get(stage, 0.0) for stage in STAGES] for row in rows])
        totals = seconds.sum(axis=1)
        axes = _stacked_bars(figure, [row["label"] for row in rows], STAGES, FILE_PARTS, seconds, totals)
        axes.set(xlim=(0, 1.12 * totals.max()), xlabel="time from the start of the process to its end (s)")

    return svg(name, "Time of whole commands by stage", draw, height(len(rows)) + 0.3)


def _stacked_bars(
    figure: Figure, labels: Sequence[str], parts: Sequence[str], colours: Sequence[str], widths: Array,
    totals: Sequence[float],
) -> Axes:
    """Draw a bar for each row of ``widths``, divided into parts, with its total in seconds beside it."""
    axes = figure.subplots()
    for k, (part, colour) in enumerate(zip(parts, colours, strict=True)):
        left = widths[:, :k].sum(axis=1)
        axes.barh(range(len(labels)), widths[:, k], left=left, height=0.7, color=STAND_INS[colour], label=part)
    for row, (end, total) in enumerate(zip(widths.sum(axis=1), totals, strict=True)):
        beside(axes, end, row, f"{number(total)} s", INK)
    name_rows(axes, labels)
    figure.legend(loc="outside upper center", ncols=len(parts))
    return axes


def length_lines(name: str, lengths: Json, looks: dict[str, Style]) -> str | None:
    """Draw distributions of lengths, normalised to compare different numbers of streamlines; None without data."""
    edges = np.asarray(lengths.get("edges_mm") or (), float)
    shown = {target: np.asarray(counts, float) for target, counts in lengths.items() if target != "edges_mm"}
    shown = {target: c for target, c in shown.items() if len(c) == len(edges) - 1 and c.sum() > 0}
    if not shown:
        return None

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for k, (target, counts) in enumerate(shown.items()):
            # equal distributions of archs overlap: the first line is the widest, so that each is visible
            width = max(1.4, 4.0 - 0.9 * k) if looks[target].line == "-" else 1.4
            axes.stairs(100 * counts / counts.sum() / np.diff(edges), edges, color=looks[target].colour, lw=width,
                        ls=looks[target].line, label=wrapped(target))
        axes.xaxis.set_major_formatter(tick)
        axes.yaxis.set_major_formatter(tick)
        axes.set(xlim=(edges[0], edges[-1]), ylim=(0, None), xlabel="length (mm)", ylabel="streamlines (% a mm)")
        figure.legend(loc="outside right upper")

    return svg(name, "Distributions of streamline lengths", draw, 3.0)


def density_maps(name: str, densities: Json) -> str | None:
    """Draw projections of streamline density on a common logarithmic scale; None without data."""
    shown = {target: np.atleast_2d(np.asarray(rows, float)) for target, rows in densities.items()}
    shown = {target: rows for target, rows in shown.items() if rows.size and rows.max() > 0}
    if not shown:
        return None
    most = max(rows.max() for rows in shown.values())
    across = min(4, len(shown))
    down = -(-len(shown) // across)
    shape = max(rows.shape[0] / rows.shape[1] for rows in shown.values())

    def draw(figure: Figure) -> None:
        from matplotlib import cm, colormaps, colors

        # voxels without streamlines have the darkest colour of the scale
        colours = colormaps["inferno"].with_extremes(bad=colormaps["inferno"](0.0))
        scale = cm.ScalarMappable(colors.LogNorm(0.8, max(most, 1.6)), colours)
        frames = figure.subplots(down, across, squeeze=False).ravel()
        for axes in frames[len(shown) :]:
            axes.set_axis_off()
        for axes, (target, rows) in zip(frames, shown.items(), strict=False):
            axes.imshow(rows, norm=scale.norm, cmap=colours, interpolation="none")
            axes.set(xticks=[], yticks=[], title=wrapped(target, 18))
            axes.spines[:].set_visible(False)
        bar = figure.colorbar(scale, ax=frames, shrink=0.8, label="streamlines in a voxel")
        bar.ax.yaxis.set_major_formatter(tick)
        bar.minorticks_off()

    return svg(name, "Maps of streamline density", draw, min(9.0, 0.3 + down * (0.4 + shape * 4.6 / across)))


def limit_bars(name: str, results: Json) -> str | None:
    """Draw bars of the fraction of a device's bytes and operations per second that runs reach; None if unknown."""
    rows = [
        (f"{case}, {getter}\n{run['label']}", [at(run, "limit_share", kind) for kind in ("bytes", "operations")])
        for (case, getter), runs in groups(results).items()
        for run in done(runs)
    ]
    rows = [(label, shares) for label, shares in rows if any(map(is_known, shares))]
    if not rows:
        return None
    most = 100 * max(share for _, shares in rows for share in shares if is_known(share))

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for k, kind in enumerate(("bytes", "operations")):
            places = np.arange(len(rows)) + 0.38 * k - 0.19
            widths = [100 * shares[k] if is_known(shares[k]) else 0.0 for _, shares in rows]
            axes.barh(places, widths, height=0.36, color=STAND_INS[f"share-{k}"], label=kind)
            for place, width, (_, shares) in zip(places, widths, rows, strict=True):
                beside(axes, width, place, percent(shares[k]) if is_known(shares[k]) else "not known", INK)
        name_rows(axes, [label for label, _ in rows])
        axes.axvline(100, color=QUIET, lw=1, ls=":")
        axes.xaxis.set_major_formatter(tick)
        axes.set(xlim=(0, 1.14 * max(most, 100)), xlabel="share of what the device can do in a second (%)")
        figure.legend(loc="outside upper center", ncols=2)

    return svg(name, "Share of the device's limits", draw, 0.3 + height(len(rows), 0.46))


def sweep_lines(name: str, sweeps: Sequence[Json], looks: dict[str, Style]) -> str | None:
    """Draw Mpoints/s against the values of a sweep, with a logarithmic axis for numbers; None without data."""
    title = f"Throughput against {sweeps[0]['name']}"
    return _lines(name, title, "throughput (million points a second)", sweeps, sweep_throughput, looks)


def time_lines(name: str, sweeps: Sequence[Json], looks: dict[str, Style]) -> str | None:
    """Draw seconds against the values of a sweep, and straight-line fits; None without a fit."""
    if not any(map(straight_line, sweeps)):
        return None
    title = f"Time against {sweeps[0]['name']}"
    return _lines(name, title, "time (s)", sweeps, lambda sweep: sweep["seconds"], looks, fitted=True)


def _lines(
    name: str, title: str, label: str, sweeps: Sequence[Json], figure_of: Callable[[Json], Sequence[float | None]],
    looks: dict[str, Style], fitted: bool = False,
) -> str | None:
    lines = [(sweep, list(zip(sweep["values"], figure_of(sweep), strict=True))) for sweep in sweeps]
    lines = [(sweep, [(value, height) for value, height in line if height]) for sweep, line in lines]
    lines = [(sweep, line) for sweep, line in lines if line]
    if not lines:
        return None
    values = list(dict.fromkeys(value for _, line in lines for value, _ in line))
    heights = [height for _, line in lines for _, height in line]
    scaled = all(is_known(value) and value > 0 for value in values)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for sweep, line in lines:
            look = looks[sweep["target"]]
            across = [value if scaled else values.index(value) for value, _ in line]
            through = straight_line(sweep) if fitted else None
            if through:
                far = np.geomspace(through.least, max(values), 40)
                axes.plot(far, [through.at(value) for value in far], look.line, color=look.colour, lw=1)
            axes.plot(across, [height for _, height in line], "" if fitted else look.line, color=look.colour,
                      marker=look.marker, ms=5, label=wrapped(sweep["target"]))
        logarithmic(axes, "y", min(heights), max(heights))
        if scaled:
            logarithmic(axes, "x", min(values), max(values))
            if len(values) < 7:
                axes.set_xticks(values)
        else:
            axes.set_xticks(range(len(values)), [str(value) for value in values])
        axes.grid(True)
        axes.set(xlabel=sweep_axis(lines[0][0]), ylabel=label)
        figure.legend(loc="outside right upper")

    return svg(name, title, draw, 3.6)
