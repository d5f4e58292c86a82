"""Draw the scores of benchmarks/quality.py: shares of valid streamlines and r of each way, for each scan.

    python benchmarks/quality_picture.py FILE PICTURE
"""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
from truth.means import Scanned, means

TITLES = {"VC": "valid streamlines, %", "r": "r of the connectome"}
MARKERS = "osD^vPX"
PEERS = ("dipy-", "mrtrix-msmt-", "mrtrix-")


def family(way: str) -> str:
    """Return what the ways beside each other have in common: a program and its fit, or defaults."""
    if way.endswith("-like-dipy"):
        return "like-dipy"
    return next((peer for peer in PEERS if way.startswith(peer)), "")


def caption(scan: Scanned) -> str:
    """Describe a scan."""
    bval, snr, directions, mm = scan
    return ", ".join([f"b = {bval}", *([f"SNR {snr}"] if snr else []), f"{directions} directions", f"{mm} mm"])


def draw(table: list[tuple[Scanned, str, dict[str, float]]], picture: Path) -> None:
    """Draw a point for each scan in the row of each way, the means over geometries and seeds."""
    mpl.use("agg")
    from matplotlib import pyplot as plt

    ways = list(dict.fromkeys(way for _, way, _ in table))
    scans = list(dict.fromkeys(scan for scan, _, _ in table))
    shown = [name for name in TITLES if any(name in scores for *_, scores in table)]
    colours = mpl.colormaps["viridis"].resampled(len(scans) + 1)
    size = (4.2 * len(shown) + 1.2, 0.26 * len(ways) + 0.8 + 0.22 * ((len(scans) + 1) // 2))
    figure = plt.figure(figsize=size, dpi=120, layout="constrained")
    panels = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    for axes, name in zip(panels, shown, strict=True):
        for number, scan in enumerate(scans):
            mine = [(scores[name], ways.index(way)) for of, way, scores in table if of == scan and name in scores]
            style: dict[str, Any] = {"s": 28, "marker": MARKERS[number % len(MARKERS)], "color": colours(number)}
            axes.scatter(*zip(*mine, strict=True), label=caption(scan), alpha=0.85, zorder=3, **style)
        for row, (above, below) in enumerate(itertools.pairwise(ways)):
            if family(above) != family(below):
                axes.axhline(row + 0.5, color="0.6", linewidth=0.8)
        axes.set(xlabel=TITLES[name], yticks=range(len(ways)), ylim=(len(ways) - 0.5, -0.5))
        axes.set_yticklabels(ways)
        axes.grid(color="0.9")
        axes.tick_params(length=0)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False)
    figure.savefig(picture)


def main() -> None:
    """Read the scores and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("picture", type=Path)
    options = parser.parse_args()
    draw(means(json.loads(options.file.read_text(encoding="utf-8"))["rows"]), options.picture)


if __name__ == "__main__":
    main()
