"""The fit of the residual bootstrap by the kernels."""

from __future__ import annotations

import numpy as np
from dialects import reals, run

from tistreamlines.kernels.getters.boot import (
    COEFFICIENTS,
    Boot,
    BootScratch,
    fit_drawn,
)
from tistreamlines.kernels.interpolate import Volume, interpolate_row
from tistreamlines.linker.lang import Ints, Reals, barrier, func, i32, u32, vec3
from tistreamlines.space.harmonics import from_harmonics

KEYS = {"key": np.array([11, 12])}


@func
def refitted(item: i32, volume: Volume, method: Boot, scratch: BootScratch, p: vec3, key: Ints, out: Reals):
    """Coefficients drawn with counter ``item``."""
    interpolate_row(volume, p, scratch.row)
    barrier()
    fit_drawn(method, scratch, u32(item), u32(1), u32(2), u32(0), key)
    for j in range(COEFFICIENTS):
        out[item * COEFFICIENTS + j] = scratch.coefficients[j]


def go(dialect, kernel, items, prepared, **values):
    return run(dialect, kernel, items, prepared.arrays | prepared.scalars | values, prepared, prepared.scratch)


def harmonics_of(monomials, order):
    """The kernels' coefficients as DIPY's."""
    return np.linalg.solve(from_harmonics(order), monomials.T).T


def refits(dialect, prepared, count, order):
    """(count, coefficients) drawn at the middle voxel."""
    values = {"p": (1.0, 1.0, 1.0), "out": reals(count * prepared.getter.coefficients)} | KEYS
    return harmonics_of(go(dialect, refitted, count, prepared, **values)["out"].reshape(count, -1), order)
