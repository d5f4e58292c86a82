"""Random seeds, drawn from the same generator as the steps of streamlines."""

from __future__ import annotations

from .lang import *
from .propagate import Rules
from .rng import SEEDING, STREAM, philox, uniform


@twin
def place_seed(item: i32, rules: Rules, voxels: Ints, voxel_count: i32, out: Reals):
    """Place seed ``first_seed + item`` uniformly in one of ``voxel_count`` voxels (x, y and z of one after the other)."""
    number = u32(item) + rules.first_seed
    which = philox(number, u32(0), u32(0), u32(SEEDING << STREAM), u32(rules.key[0]), u32(rules.key[1]))
    where_in = philox(number, u32(1), u32(0), u32(SEEDING << STREAM), u32(rules.key[0]), u32(rules.key[1]))
    voxel = i32(umulhi(which[0], u32(voxel_count)))
    out[3 * item] = real(voxels[3 * voxel]) + (uniform(where_in[0]) - 0.5)
    out[3 * item + 1] = real(voxels[3 * voxel + 1]) + (uniform(where_in[1]) - 0.5)
    out[3 * item + 2] = real(voxels[3 * voxel + 2]) + (uniform(where_in[2]) - 0.5)
