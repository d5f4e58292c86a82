"""Matrices of connectomes for the script of a page, ``matrix.js``, which draws them."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from ..aliases import Array, Json
from ..tracking.products.connectome.matrix import QSIRECON_MEASURES, UNWEIGHTED, Matrix

COUNT = "count"
SCRIPT = Path(__file__).with_name("matrix.js")
MOST_BYTES = 1_100_000  # of all matrices on the page of a report, about
LARGEST = 65533  # steps of the logarithmic scale of values, besides 0 and what is unknown
UNKNOWN = 65535
# from dark to light, as wide steps of lightness as 8 bits allow
LIT = 20  # colours of 256 that are too dark to tell from an empty cell
RAMP = ("#0b0724", "#3b1163", "#7a1f6d", "#b8364f", "#e8662f", "#f9a52b", "#fbe77a", "#fffce0")


def ramp_of(count: int) -> Array:
    """Return colours from dark to light, (count, 3), 0 to 1."""
    stops = np.array([[int(colour[k : k + 2], 16) for k in (1, 3, 5)] for colour in RAMP]) / 255
    at = np.linspace(0, len(stops) - 1, count)
    return np.stack([np.interp(at, range(len(stops)), stops[:, channel]) for channel in range(3)], axis=1)


def matrix_colours() -> Array:
    """Return the colours of cells with a value, (n, 3), 0 to 1."""
    return ramp_of(256)[LIT:]


def connectomes(matrices: Iterable[Matrix], *, weighted: bool, most_bytes: int = MOST_BYTES) -> list[Json]:
    """Return what the page shows of each connectome, for JSON; measures for which there is no room are left out.

    ``counted`` is the measure that is the number of streamlines, or None: weighted streamlines may have none, nor have
    parts of them.

    Parameters
    ----------
    matrices : what a result holds of its connectomes.
    weighted : whether their streamlines are weighted.
    most_bytes : room for all of them.
    """
    shown_matrices, left = [], most_bytes
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
            "counted": counted_measure(matrix, [measure["name"] for measure in measures], weighted=weighted),
        })
    return shown_matrices


def counted_measure(matrix: Matrix, names: Iterable[str], *, weighted: bool) -> str | None:
    """Return which of some measures is the whole number of streamlines, whatever they weigh; None if none is."""
    counts = [f"{UNWEIGHTED}{COUNT}"] if weighted else [f"{UNWEIGHTED}{COUNT}", COUNT]
    alike = (name for name in names if QSIRECON_MEASURES.get(name, name) in counts)
    return next((name for name in alike if not np.mod(matrix.values[name], 1).any()), None)


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
