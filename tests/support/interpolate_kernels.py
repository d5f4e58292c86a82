"""Kernels that interpolate at points."""

from __future__ import annotations

from tistreamlines.kernels.interpolate import ROW_CHUNKS, Volume, inside, interpolate_row
from tistreamlines.linker.lang import Ints, Reals, at, func, i32, put, vec3


@func
def sample(item: i32, volume: Volume, points: Reals, row: Reals, found: Ints, out: Reals):
    """Interpolate at each point that is inside."""
    p = vec3(points[3 * item], points[3 * item + 1], points[3 * item + 2])
    found[item] = inside(volume.shape, p)
    if inside(volume.shape, p) == 1:
        interpolate_row(volume, p, row)
        for chunk in range(ROW_CHUNKS):
            put(out, (item * ROW_CHUNKS + chunk) * 32, at(row, 32 * chunk))
