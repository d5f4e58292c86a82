"""How the costs of SIFT2 have fallen, as a picture of a page."""

from __future__ import annotations

from collections.abc import Sequence
from math import log10
from typing import Any

WIDE, HIGH = 600, 200  # of the picture, in its own units
LEAST = 1e-4  # share of the first cost at the lower border, whose scale is logarithmic
CURVES = (("densities", "data", "--accent"), ("coefficients", "regularisation", "--bar"))


def facts(made: Any) -> dict[str, str]:
    """Return what is told of weights, by what it is called; ``made`` is what a result holds of SIFT2."""
    found = {"proportionality coefficient mu": f"{made.mu:.5g}"}
    if made.iterations:
        first, last = made.iterations[0], made.iterations[-1]
        found |= {
            "iterations": str(last.number),
            "cost of the densities": f"{last.data / first.total:.2%} of the first cost",
            "cost of the coefficients": f"{last.regularisation / first.total:.2%} of the first cost",
            "fibre density that streamlines reach": f"{first.explained:.1%} with weight 1, {last.explained:.1%} "
            "weighted; no weight reaches a fixel without streamlines",
            "excess of streamlines over it": f"{first.excess:.1%} with weight 1, {last.excess:.1%} weighted; this is "
            "what SIFT2 lowers",
            "fixels that took no part": f"{last.excluded:,}",
        }
    return found


def curves(made: Any) -> str:
    """Draw the costs of each iteration, as shares of the first one, on a logarithmic scale; SVG."""
    rows: Sequence[Any] = made.iterations
    first, last = rows[0].total, max(len(rows) - 1, 1)
    lines = "".join(
        f'<polyline style="stroke:var({colour})" points="'
        + " ".join(f"{WIDE * k / last:.1f},{_place(getattr(row, name) / first):.1f}" for k, row in enumerate(rows))
        + '"/>'
        for _, name, colour in CURVES
    )
    shares = (1.0, 0.1, 0.01, 0.001)
    levels = "".join(f'<line x1="0" x2="{WIDE}" y1="{_place(one):.1f}" y2="{_place(one):.1f}"/>' for one in shares)
    texts = "".join(f'<text x="4" y="{_place(one) - 4:.1f}">{one:.4g}</text>' for one in shares[1:])
    keys = "".join(f'<span><i style="background:var({colour})"></i>{text}</span>' for text, _, colour in CURVES)
    return (
        f'<svg class="curves" viewBox="0 0 {WIDE} {HIGH}" role="img" aria-label="Costs of the iterations">{levels}'
        f'{lines}{texts}</svg>\n<div class="key">{keys}<span>shares of the first cost, logarithmic; iterations 0 to '
        f"{rows[-1].number}</span></div>"
    )


def _place(share: float) -> float:
    """Return how far below the upper border a share of the first cost lies."""
    return HIGH * log10(max(share, LEAST)) / log10(LEAST) * 0.96 + 0.02 * HIGH
