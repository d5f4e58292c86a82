"""The charts of a page: lengths in bins, connectomes for the page's script, and how the costs of SIFT2 have fallen."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from math import log10
from typing import TYPE_CHECKING

import numpy as np

from ..aliases import Array, Json, Vector

if TYPE_CHECKING:
    from ..tracking.products.connectome.matrix import Matrix
    from ..tracking.weights.sift2 import Weights

BINS = 60  # at most, of the lengths
NICE = (1, 2, 2.5, 5)  # widths of bins, times powers of ten
MOST_BYTES = 1_100_000  # of all matrices on a page, about
LARGEST = 65533  # steps of the logarithmic scale of values, besides 0 and what is unknown
UNKNOWN = 65535
WIDE, HIGH = 600, 200  # of the picture of costs, in its own units
LEAST = 1e-4  # share of the first cost at the lower border, whose scale is logarithmic
CURVES = (("densities", "data", "--accent"), ("coefficients", "regularisation", "--bar"))
# from dark to light, as wide steps of lightness as 8 bits allow
RAMP = ("#0b0724", "#3b1163", "#7a1f6d", "#b8364f", "#e8662f", "#f9a52b", "#fbe77a", "#fffce0")


def ramp_of(count: int) -> Array:
    """Return colours from dark to light, (count, 3), 0 to 1."""
    stops = np.array([[int(colour[k : k + 2], 16) for k in (1, 3, 5)] for colour in RAMP]) / 255
    at = np.linspace(0, len(stops) - 1, count)
    return np.stack([np.interp(at, range(len(stops)), stops[:, channel]) for channel in range(3)], axis=1)


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


def connectomes(matrices: Iterable[Matrix]) -> list[Json]:
    """Return what the page shows of each connectome, for JSON; measures for which there is no room are left out.

    Parameters
    ----------
    matrices : what a result holds of its connectomes.
    """
    shown_matrices, left = [], MOST_BYTES
    for matrix in matrices:
        measures, missing = [], []
        for name, values in matrix.values.items():
            shown = {"name": name, "values": encode_matrix(values), "errors": encode_matrix(matrix.errors[name])}
            size = len(shown["values"]["codes"]) + len(shown["errors"]["codes"])
            if size > left:
                missing.append(name)
                continue
            left -= size
            measures.append(shown)
        shown_matrices.append({
            "labels": str(matrix.labels), "nodes": np.asarray(matrix.nodes).tolist(), "names": list(matrix.names),
            "streamlines": matrix.streamlines, "unassigned": matrix.unassigned, "measures": measures,
            "missing": missing,
        })
    return shown_matrices


def encode_matrix(matrix: Array) -> Json:
    """Return the upper triangle of a symmetric matrix as whole numbers on a logarithmic scale, in 16 bits each.

    They are in error by at most one in ten thousand. ``low`` and ``high`` are the smallest and the greatest of the
    values above 0; 0 stands for a value of 0 and 65535 for one that is unknown.
    """
    upper = np.asarray(matrix, float)[np.triu_indices(len(matrix))]
    known = np.isfinite(upper) & (upper > 0)
    low, high = map(float, (upper[known].min(), upper[known].max())) if known.any() else (1.0, 1.0)
    span = max(np.log(high / low), 1e-12)
    codes = np.where(np.isfinite(upper), 0, UNKNOWN).astype("<u2")
    codes[known] = 1 + np.rint(np.log(upper[known] / low) / span * (LARGEST - 1))
    return {"low": low, "high": high, "codes": base64.b64encode(codes.tobytes()).decode()}


def facts(weights: Weights) -> dict[str, str]:
    """Return the facts about weights by their descriptions."""
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
