"""How many streamlines end in each voxel of a grid: both ends count, also in the same voxel; a single point counts once."""

from __future__ import annotations

from ...linker.lang import *
from ..halves import *
from ..trail import *
from .density import Grid, on_grid
from .points import Affine, transformed


@func
def mark(c: vec3, grid: Grid, counts: Ints, by: i32):
    """Add ``by`` to the count of the voxel of a point, unless that is outside."""
    x = i32(floor(c[0]))
    y = i32(floor(c[1]))
    z = i32(floor(c[2]))
    if (x >= 0) & (x < grid.across) & (y >= 0) & (y < grid.deep) & (z >= 0) & (z < grid.high):
        for _ in each(1):
            add(counts, (x * grid.deep + y) * grid.high + z, by)


@func
def count_end_points(item: i32, points: Reals, offsets: Ints, grid: Grid, counts: Ints):
    """Count the first and the last point of a streamline, in RASmm; one without points has none."""
    first = 3 * offsets[item]
    last = 3 * (offsets[item + 1] - 1)
    if last >= first:
        mark(on_grid(vec3(points[first], points[first + 1], points[first + 2]), grid), grid, counts, 1)
    if last > first:
        mark(on_grid(vec3(points[last], points[last + 1], points[last + 2]), grid), grid, counts, 1)


@func
def count_ends(item: i32, earlier: i32, accepted: Ints, run: Run, affine: Affine, grid: Grid, counts: Ints, by: i32):
    """Count the ends of a streamline that has grown, by repeating its steps; the arguments are those of ``count_steps``."""
    streamline = accepted[earlier + item]
    c0 = u32(run.halves.seed[streamline]) + run.rules.first_seed
    for side in range(2):
        half = 2 * streamline + side
        c2 = u32(run.halves.branch[streamline] * 2 + side)
        state = State()
        trail = Trail()
        begin_again(trail, state, half, c0, c2, run)
        steps = run.halves.state[2 * half]
        for k in range(steps):
            take_again(trail, state, half, k, steps, c0, c2, run)
        # the seed is the end of a half without steps, and the only point of two such halves
        if (side == 0) | (run.halves.state[4 * streamline] + run.halves.state[4 * streamline + 2] > 0):
            mark(on_grid(transformed(trail.p, affine), grid), grid, counts, by)
