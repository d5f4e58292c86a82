"""Drawing of SVG plots, whose colours the style sheet of the page sets, with plain numbers on the axes."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from tistreamlines.aliases import Json
from tistreamlines.benchmarks.report import INKS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colours for light and dark pages. Matplotlib draws with unusual stand-in colours, which become CSS variables.
_TARGETS = (
    ("#0072b2", "#5ab4f0"), ("#d55e00", "#ff8f57"), ("#00805e", "#3ecf9f"), ("#a0489a", "#e29bdc"),
    ("#b07a00", "#f0c04a"), ("#2f9fd0", "#a5dcfa"), ("#84603c", "#cfa981"), ("#5f6670", "#b4bac4"),
)
_PARTS = (("#9a7fc7", "#b79be6"), ("#7a828c", "#8b949e"), ("#1f6f8b", "#58b7d3"), ("#c27a1f", "#e3a557"))
_SHARES = _PARTS[2:]
BAR_PARTS = tuple(f"part-{k}" for k in range(len(_PARTS)))
FILE_PARTS = ("target-7", "target-4", "target-0", *BAR_PARTS)  # colours of whole commands
PALETTE = INKS | {
    **{f"target-{k}": pair for k, pair in enumerate(_TARGETS)},
    **dict(zip(BAR_PARTS, _PARTS, strict=True)),
    **{f"share-{k}": pair for k, pair in enumerate(_SHARES)},
}
STAND_INS = {name: f"#fb01{k:02x}" for k, name in enumerate(PALETTE)}
INK, QUIET, _RULE = (STAND_INS[name] for name in ("ink", "quiet", "rule"))
_WIDTH, _BAR = 6.3, 0.28  # inches
_RC = {
    "font.size": 9.5, "axes.titlesize": 9.5, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": QUIET,
    "xtick.color": QUIET, "ytick.color": QUIET, "xtick.labelcolor": INK, "ytick.labelcolor": INK,
    "grid.color": _RULE, "axes.axisbelow": True, "axes.spines.top": False, "axes.spines.right": False,
    "figure.facecolor": "none", "axes.facecolor": "none", "legend.frameon": False, "text.parse_math": False,
    # glyphs as paths, so that labels do not depend on installed fonts
    "svg.fonttype": "path",
}


class Style(NamedTuple):
    """The colour, marker and line style of a target in every plot."""

    colour: str
    marker: str
    line: str


def styles(results: Json) -> dict[str, Style]:
    """Return the style of each target of the results; lines of peers are dashed."""
    peers = {run["target"] for run in results.get("runs") or () if run.get("kind") == "peer"}
    records = [*(results.get("runs") or ()), *(results.get("sweeps") or ())]
    names = dict.fromkeys(str(record["target"]) for record in records)
    for kind in ("lengths", "densities"):
        names |= dict.fromkeys(name for groups in (results.get(kind) or {}).values() for name in groups)
    names.pop("edges_mm", None)
    return {
        name: Style(STAND_INS[f"target-{k % len(_TARGETS)}"], "osD^vPXd*"[k % 9], "--" if name in peers else "-")
        for k, name in enumerate(names)
    }


def svg(name: str, title: str, draw: Callable[[Figure], None], height: float) -> str:
    """Draw a figure and return it as an SVG element, whose ids begin with its name to be unique in the page."""
    import matplotlib.style
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    text = io.StringIO()
    with matplotlib.style.context(["default", _RC | {"svg.hashsalt": name}]):
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        draw(figure)
        FigureCanvasSVG(figure).print_svg(text, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    svg = text.getvalue()
    # inside HTML, XML namespaces and a global style are not allowed; comments only repeat the labels
    svg = re.sub(r'\s+xmlns(:\w+)?="[^"]*"|<style.*?</style>|<!--.*?-->', "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", svg)
    for key, stand_in in STAND_INS.items():
        svg = svg.replace(stand_in, f"var(--{key})")
    return svg.replace("<svg", f'<svg role="img" aria-label="{escape(title)}"', 1).strip()


def height(rows: int, each: float = _BAR) -> float:
    return 0.75 + each * rows


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Label the bars, with the first at the top."""
    axes.set_yticks(range(len(names)), [wrapped(name) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(True, axis="x")


def beside(axes: Axes, across: float, row: float, text: str, colour: str) -> None:
    offset = {"xytext": (4, 0), "textcoords": "offset points"}
    axes.annotate(text, (across, row), va="center", color=colour, annotation_clip=False, **offset)


def wrapped(name: str, width: int = 24) -> str:
    return "\n".join(textwrap.fill(line, width) for line in name.splitlines())


def tick(value: float, _: object = None) -> str:
    """Format a number without an exponent, also as a formatter of matplotlib."""
    return f"{value:,.0f}" if abs(value) >= 10 else f"{value:.6g}"


def logarithmic(axes: Axes, side: str, low: float, high: float) -> None:
    """Make the x or y axis logarithmic, with plain numbers as labels, more of them on a short range."""
    from matplotlib import ticker

    axes.set(**{f"{side}scale": "log"})
    axis = axes.xaxis if side == "x" else axes.yaxis
    axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
    axis.set_minor_locator(ticker.NullLocator())
    axis.set_major_formatter(tick)
