"""How the page's plots are drawn: SVG in colours that the page's style sheet sets, axes with numbers written out."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from .forms import Record

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
STAND_INS = {name: f"#fb01{k:02x}" for k, (name, _) in enumerate(_PALETTE)}
INK, QUIET, _RULE = (STAND_INS[name] for name in _INKS)
_WIDTH, _BAR = 6.3, 0.28  # inches
_RC = {
    "font.size": 9.5, "axes.titlesize": 9.5, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": QUIET,
    "xtick.color": QUIET, "ytick.color": QUIET, "xtick.labelcolor": INK, "ytick.labelcolor": INK,
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
        name: Style(STAND_INS[f"target-{k % len(_TARGETS)}"], "osD^vPXd*"[k % 9], "--" if name in peers else "-")
        for k, name in enumerate(names)
    }


def colour_variables(dark: bool) -> str:
    """Declare the plots' colours as CSS variables."""
    return "".join(f"--{name}:{pair[dark]};" for name, pair in _PALETTE)


def svg(name: str, title: str, draw: Callable[[Figure], None], height: float) -> str:
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
    for key, stand_in in STAND_INS.items():
        svg = svg.replace(stand_in, f"var(--{key})")
    return svg.replace("<svg", f'<svg role="img" aria-label="{escape(title)}"', 1).strip()


def height(rows: int, each: float = _BAR) -> float:
    return 0.75 + each * rows


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Name the bars, the first on top."""
    axes.set_yticks(range(len(names)), [wrapped(name) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(True, axis="x")


def beside(axes: Axes, across: float, row: float, text: str, colour: str) -> None:
    offset = {"xytext": (4, 0), "textcoords": "offset points"}
    axes.annotate(text, (across, row), va="center", color=colour, annotation_clip=False, **offset)


def wrapped(name: str, width: int = 24) -> str:
    return "\n".join(textwrap.fill(line, width) for line in name.splitlines())


def tick(value: float, _: Any = None) -> str:
    return f"{value:,.0f}" if abs(value) >= 10 else f"{value:.6g}"


def plain(axis: Axis) -> None:
    from matplotlib import ticker

    axis.set_major_formatter(ticker.FuncFormatter(tick))


def logarithmic(axes: Axes, side: str, low: float, high: float) -> None:
    """Scale the x or y side by logarithms, with numbers written out, and more of them on a short one."""
    from matplotlib import ticker

    axes.set(**{f"{side}scale": "log"})
    axis = axes.xaxis if side == "x" else axes.yaxis
    axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
    axis.set_minor_locator(ticker.NullLocator())
    plain(axis)
