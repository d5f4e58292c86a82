"""How the costs of SIFT2 have fallen, as a picture of a page."""

from __future__ import annotations

from math import log10
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..tracking.weights.sift2 import Weights

WIDE, HIGH = 600, 200  # of the picture, in its own units
LEAST = 1e-4  # share of the first cost at the lower border, whose scale is logarithmic
CURVES = (("densities", "data", "--accent"), ("coefficients", "regularisation", "--bar"))


def facts(weights: Weights) -> dict[str, str]:
    """Return what is told of weights, by what it is called."""
    rows = {"proportionality coefficient mu": f"{weights.mu:.5g}"}
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


def curves(weights: Weights) -> str:
    """Draw the costs of each iteration, as shares of the first one, on a logarithmic scale; SVG."""
    rows = weights.iterations
    first, last = rows[0].total, max(len(rows) - 1, 1)
    lines = "".join(
        f'<polyline style="stroke:var({colour})" points="'
        + " ".join(f"{WIDE * k / last:.1f},{_place(getattr(row, name) / first):.1f}" for k, row in enumerate(rows))
        + '"/>'
        for _, name, colour in CURVES
    )
    levels = {share: _place(share) for share in (1.0, 0.1, 0.01, 0.001)}
    grid = "".join(f'<line x1="0" x2="{WIDE}" y1="{level:.1f}" y2="{level:.1f}"/>' for level in levels.values())
    texts = "".join(f'<text x="4" y="{y - 4:.1f}">{share:.4g}</text>' for share, y in levels.items() if share < 1)
    keys = "".join(f'<span><i style="background:var({colour})"></i>{text}</span>' for text, _, colour in CURVES)
    return (
        f'<svg class="curves" viewBox="0 0 {WIDE} {HIGH}" role="img" aria-label="Costs of the iterations">{grid}'
        f'{lines}{texts}</svg>\n<div class="key">{keys}<span>shares of the first cost, logarithmic; iterations 0 to '
        f"{rows[-1].number}</span></div>"
    )


def _place(share: float) -> float:
    """Return how far below the upper border a share of the first cost lies."""
    return HIGH * log10(max(share, LEAST)) / log10(LEAST) * 0.96 + 0.02 * HIGH
