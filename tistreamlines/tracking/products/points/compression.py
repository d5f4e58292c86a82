"""Streamlines without the points that lie on a line between others, those of DIPY's ``compress_streamlines``.

DIPY holds Python's lock meanwhile, and makes an array of each streamline. This takes about a quarter of the time, and
several threads can do it at once.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from ....backends.numba.cache import Function, text_of
from ....space.batch import Batch

_choose_points = Function(text_of(Path(__file__).with_name("compression_kernels.py")), "choose_points")


def compress_batch(batch: Batch, tolerance_mm: float, segment_mm: float) -> Batch:
    """Leave out points within a tolerance from the line between others.

    Parameters
    ----------
    batch : Batch
        Streamlines.
    tolerance_mm, segment_mm : float
        Greatest distance from that line, and greatest length of the line, mm.

    Returns
    -------
    Batch
        The streamlines, with the values at the points that stay.
    """
    kept = np.zeros(len(batch.points), np.uint8)
    _choose_points(batch.points, batch.offsets, float(tolerance_mm), float(segment_mm), kept)
    before = np.concatenate([[0], np.cumsum(kept, dtype=np.int64)])
    points = batch.points.compress(kept.view(bool), axis=0)
    values = {name: each.compress(kept.view(bool)) for name, each in batch.data_per_point.items()}
    return replace(batch, points=points, offsets=before[batch.offsets], data_per_point=values)
