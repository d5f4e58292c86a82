"""The charts of a page: lengths in bins, and how the costs of SIFT2 have fallen."""

from __future__ import annotations

from math import isnan, log10
from typing import TYPE_CHECKING

import numpy as np

from ..aliases import Array, Vector

if TYPE_CHECKING:
    from ..tracking.weights.sift2 import Weights

BINS = 60  # at most, of the lengths
NICE = (1, 2, 2.5, 5)  # widths of bins, times powers of ten
WIDE, HIGH = 600, 200  # of the picture of costs, in its own units
LEAST = 1e-4  # share of the first cost at the lower border, whose scale is logarithmic
CURVES = (("densities", "data", "--accent"), ("coefficients", "regularisation", "--bar"))


def nice(least: float) -> float:
    """Return the first round number that is at least as large."""
    power = 10.0 ** np.floor(np.log10(least))
    return float(next(width * power for width in (*NICE, 10) if width * power >= least * (1 - 1e-9)))


def bins(histogram: Array, step_mm: float) -> tuple[Vector[np.int64], float]:
    """Return how many streamlines have a length in each bin, and the width of a bin, mm.

    Parameters
    ----------
    histogram : (m,), number of streamlines with 0, 1, ... m - 1 points.
    step_mm : the step size, mm.
    """
    points = np.flatnonzero(histogram)
    longest = (points.max(initial=1) - 1) * step_mm
    width = nice(max(longest / BINS, step_mm))
    place = np.floor((points - 1) * step_mm / width + 1e-6).astype(int)
    return np.bincount(place, histogram[points], int(longest / width) + 1).astype(np.int64), width


def facts(weights: Weights) -> dict[str, str]:
    """Return the facts about weights by their descriptions."""
    mu = "none, since no streamline visits a fixel" if isnan(weights.mu) else f"{weights.mu:.5g}"
    rows = {"proportionality coefficient mu": mu}
    if weights.iterations:
        first, last = weights.iterations[0], weights.iterations[-1]
        rows |= {
            "iterations": str(last.number),
            "cost of the densities": f"{last.data / first.total:.2%} of the first cost",
            "cost of the coefficients": f"{last.regularisation / first.total:.2%} of the first cost",
            "fibre density that streamlines reach": f"{first.explained:.1%} with weight 1, {last.explained:.1%} "
            "weighted; no weight reaches a fixel without streamlines",
            "excess of streamlines over it": f"{first.excess:.1%} with weight 1, {last.excess:.1%} weighted; this is "
            "what SIFT2 lowers",
            "fixels that took no part": f"{last.excluded:,}",
        }
    return rows


def curves(weights: Weights) -> dict[str, object]:
    """Draw the costs of each iteration, as shares of the first one, on a logarithmic scale: the parts of an SVG."""
    rows = weights.iterations
    first, last = rows[0].total, max(len(rows) - 1, 1)
    lines = "".join(
        f'<polyline style="stroke:var({colour})" points="'
        + " ".join(f"{WIDE * k / last:.1f},{_place(getattr(row, name) / first):.1f}" for k, row in enumerate(rows))
        + '"/>'
        for _, name, colour in CURVES
    )
    levels = {share: _place(share) for share in (1.0, 0.1, 0.01, 0.001)}
    return {
        "wide": WIDE, "high": HIGH, "lines": lines, "last": rows[-1].number,
        "grid": "".join(f'<line x1="0" x2="{WIDE}" y1="{y:.1f}" y2="{y:.1f}"/>' for y in levels.values()),
        "texts": "".join(f'<text x="4" y="{y - 4:.1f}">{share:.4g}</text>' for share, y in levels.items() if share < 1),
        "keys": "".join(f'<span><i style="background:var({colour})"></i>{text}</span>' for text, _, colour in CURVES),
    }


def _place(share: float) -> float:
    """Return how far below the upper border a share of the first cost lies."""
    return HIGH * log10(max(share, LEAST)) / log10(LEAST) * 0.96 + 0.02 * HIGH
