"""The connectomes of a run, as the page's script reads them."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from ..aliases import Array, Json

if TYPE_CHECKING:
    from ..tracking.products.connectome.matrix import Matrix

MOST_BYTES = 1_100_000  # of all matrices on a page, about
LARGEST = 65533  # steps of the logarithmic scale of values, besides 0 and what is unknown
UNKNOWN = 65535


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
            shown = {"name": name, "values": coded(values), "errors": coded(matrix.errors[name])}
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


def coded(matrix: Array) -> Json:
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
