"""Fibres that cross, and whether two runs are the same."""

from __future__ import annotations

from dataclasses import fields
from functools import cache

import numpy as np
from distributions import circle, fibres
from tables import prepare_prob

from tistreamlines.space.batch import Batch
from tistreamlines.tracking.tables.inputs import KernelTables


def same(one: Batch, other: Batch) -> bool:
    return all(np.array_equal(getattr(one, f.name), getattr(other, f.name)) for f in fields(Batch))


@cache
def crossing() -> KernelTables:
    """Tables of prob where two fibres cross in every voxel: as many directions begin at each seed, in either order."""
    values = fibres(circle()) + fibres(np.broadcast_to([0.0, 0.0, 1.0], (24, 24, 5, 3)))
    stop_map = np.ones(values.shape[:3], np.float32)
    everywhere = np.argwhere(stop_map > 0).astype(float)
    return prepare_prob("sh", values, stop_map, 0.5, everywhere, min_separation_angle=45.0)
