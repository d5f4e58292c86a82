"""The connectomes of a run, as the page's script reads them."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import numpy.typing as npt

MOST_BYTES = 1_100_000  # of all matrices on a page, about
LARGEST = 65533  # steps of the logarithmic scale of values, besides 0 and what is unknown
UNKNOWN = 65535


def connectomes(made: Any) -> list[dict[str, Any]]:
    """Return what the page shows of each connectome, for JSON; measures for which there is no room are left out.

    Parameters
    ----------
    made : what a result holds of its connectomes
        Each has ``labels``, ``nodes``, ``names``, ``values`` and ``errors`` (a matrix for each measure),
        ``streamlines`` and ``unassigned``.
    """
    found, left = [], MOST_BYTES
    for one in made or ():
        measures, missing = [], []
        for name, values in one.values.items():
            shown = {"name": name, "values": coded(values), "errors": coded(one.errors[name])}
            size = len(shown["values"]["codes"]) + len(shown["errors"]["codes"])
            if size > left:
                missing.append(name)
                continue
            left -= size
            measures.append(shown)
        found.append({
            "labels": str(one.labels), "nodes": np.asarray(one.nodes).tolist(), "names": list(one.names),
            "streamlines": one.streamlines, "unassigned": one.unassigned, "measures": measures, "missing": missing,
        })
    return found


def coded(matrix: npt.NDArray[Any]) -> dict[str, Any]:
    """Return the upper triangle of a symmetric matrix as whole numbers on a logarithmic scale, in 16 bits each.

    They are in error by at most one in ten thousand. ``low`` and ``high`` are the smallest and the greatest of the
    values above 0; 0 stands for a value of 0 and 65535 for one that is unknown.
    """
    upper = np.asarray(matrix, float)[np.triu_indices(len(matrix))]
    known = np.isfinite(upper) & (upper > 0)
    low, high = (float(one) for one in (upper[known].min(), upper[known].max())) if known.any() else (1.0, 1.0)
    span = max(np.log(high / low), 1e-12)
    codes = np.where(np.isfinite(upper), 0, UNKNOWN).astype("<u2")
    codes[known] = 1 + np.rint(np.log(upper[known] / low) / span * (LARGEST - 1))
    return {"low": low, "high": high, "codes": base64.b64encode(codes.tobytes()).decode()}
