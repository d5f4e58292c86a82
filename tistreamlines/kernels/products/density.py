"""How many streamlines pass through each voxel of a grid.

A streamline counts once in each voxel that holds one of its points or a point of the segments between them.  A point on
the border of two voxels belongs to the one with the higher index.  Coordinates on the grid are rounded down to 2^-20 of a
voxel; after that everything is done in whole numbers, so the map depends neither on the order of the streamlines nor on
the number of threads.  The voxels of a streamline are listed, and the lanes of its team look a voxel up together.

The kernels can hand these lists to the host in place of counts (LISTS), and share amounts of each segment, such as its
length, among the voxels that it passes (SHARES), in proportion to the part of the segment that lies in each of them.
"""

from __future__ import annotations

from ...linker.lang import *
from ...linker.maths import divide
from ..halves import *
from ..trail import *
from .points import Affine, transformed

BITS = 20  # a coordinate is a whole number of 2^-20 voxels
WHOLE = 1 << BITS
SCALE = float(WHOLE)
LISTS = Constant("1: the voxels of each streamline are listed for the host, 0: streamlines are counted in each voxel")
SHARES = Constant("amounts of a segment that are shared among its voxels, if these are listed")
# where no grid ends (NIfTI has at most 32767 voxels along an axis), and no step reaches one from beyond
LOW, HIGH = -65536.0, 131072.0


class Grid(Affine):
    """Voxels in which streamlines are counted: from RASmm to their coordinates, and how many there are along each axis."""

    across: i32
    deep: i32
    high: i32


class Passage(Record):
    """What a streamline leaves in the voxels that it passes, as whole numbers; each amount has SHARES entries.

    For each streamline: ``listed``, how many voxels are listed; ``here``, which of them its last point lies in, -1 outside the
    grid; ``shared``, the amounts of the current segment up to there.  For each segment, in the order of the points that it
    begins with: ``spans``, its amounts, from 0 on.  For each listed voxel: ``amounts``.
    """

    listed: Ints
    here: Ints
    shared: Ints
    spans: Ints
    amounts: Ints


@func
def on_grid(p: vec3, grid: Grid) -> vec3:
    """Coordinates of a point in RASmm; a voxel begins at a whole number."""
    c = transformed(p, grid)
    return vec3(
        minimum(maximum(c[0], LOW), HIGH), minimum(maximum(c[1], LOW), HIGH), minimum(maximum(c[2], LOW), HIGH)
    )


@func
def beyond_border(c: real) -> i32:
    """Distance from the lower border of the voxel, in 2^-20 voxels."""
    return minimum(i32((c - floor(c)) * SCALE), WHOLE - 1)


@func
def enter(
    x: i32, y: i32, z: i32, grid: Grid, listed: i32, first: i32, visited: Ints, item: i32, passage: Passage,
) -> i32:
    """List a voxel, unless that is outside or already among the ``listed`` voxels from ``first`` on.

    Returns how many voxels are listed then.
    """
    new = listed
    if LISTS:
        passage.here[item] = -1
    if (x >= 0) & (x < grid.across) & (y >= 0) & (y < grid.deep) & (z >= 0) & (z < grid.high):
        place = (x * grid.deep + y) * grid.high + z
        found = lanes(0)
        for turn in range((listed + 31) >> 5):
            same = (at(visited, first + 32 * turn) == place) & (32 * turn + lane() < listed)
            if LISTS:
                found = where(same, 32 * turn + lane() + 1, found)
            else:
                found = where(same, 1, found)
        if LISTS:
            number = i32(team_max(real(found)))
            passage.here[item] = where(number == 0, listed, number - 1)
        else:
            number = team_any(found == 1)
        if number == 0:  # the voxel is not listed yet
            # every lane writes it, and so each lane reads what it wrote itself
            visited[first + listed] = place
            if LISTS:
                for share in range(SHARES):
                    passage.amounts[SHARES * (first + listed) + share] = 0
            new = listed + 1
    return new


@func
def leave(met: i32, length: i32, segment: i32, first: i32, item: i32, passage: Passage):
    """Give the voxel that is left its share of a segment, of which ``met / length`` lies up to there."""
    part = 1.0
    if met < length:
        part = where(met > 0, divide(real(maximum(met, 1)), real(length)), 0.0)
    for share in range(SHARES):
        whole = passage.spans[SHARES * segment + share]
        # the parts add up to the whole, whatever is rounded
        reached = where(met < length, minimum(i32(part * real(whole)), whole), whole)
        here = passage.here[item]
        if here >= 0:
            place = SHARES * (first + here) + share
            passage.amounts[place] = passage.amounts[place] + (reached - passage.shared[SHARES * item + share])
        passage.shared[SHARES * item + share] = where(met < length, reached, 0)


@func
def is_before(distance: i32, length: i32, down: i32, other: i32, other_length: i32, other_down: i32) -> i32:
    """Whether a border is met before another one; one that is left downwards belongs to the voxel that is left.

    Nothing is divided: products of 64 bits are compared, so borders that are met together are found.
    """
    high = umulhi(u32(distance), u32(other_length))
    low = u32(distance) * u32(other_length)
    other_high = umulhi(u32(other), u32(length))
    other_low = u32(other) * u32(length)
    before = where(high < other_high, 1, 0)
    if high == other_high:
        before = where(low < other_low, 1, 0)
        if low == other_low:
            before = where(down < other_down, 1, 0)
    return before


@func
def is_next(
    left: i32, distance: i32, length: i32, down: i32, left_b: i32, distance_b: i32, length_b: i32, down_b: i32,
    left_c: i32, distance_c: i32, length_c: i32, down_c: i32,
) -> i32:
    """Whether the border of an axis is met before those of two others, or together with them."""
    first = where(left > 0, 1, 0)
    if (left > 0) & (left_b > 0):
        first = 1 - is_before(distance_b, length_b, down_b, distance, length, down)
    if (first == 1) & (left_c > 0):
        first = 1 - is_before(distance_c, length_c, down_c, distance, length, down)
    return first


@func
def pass_through(
    a: vec3, b: vec3, grid: Grid, listed: i32, first: i32, visited: Ints, segment: i32, item: i32, passage: Passage,
) -> i32:
    """List each voxel that holds a point of the segment from a to b, except that of a itself."""
    x = i32(floor(a[0]))
    y = i32(floor(a[1]))
    z = i32(floor(a[2]))
    over_x = i32(floor(b[0])) - x
    over_y = i32(floor(b[1])) - y
    over_z = i32(floor(b[2])) - z
    from_x = beyond_border(a[0])
    from_y = beyond_border(a[1])
    from_z = beyond_border(a[2])
    length_x = over_x * WHOLE + beyond_border(b[0]) - from_x
    length_y = over_y * WHOLE + beyond_border(b[1]) - from_y
    length_z = over_z * WHOLE + beyond_border(b[2]) - from_z
    down_x = where(length_x < 0, 1, 0)
    down_y = where(length_y < 0, 1, 0)
    down_z = where(length_z < 0, 1, 0)
    length_x = maximum(length_x, -length_x)
    length_y = maximum(length_y, -length_y)
    length_z = maximum(length_z, -length_z)
    # from a to the next border along each axis, and the borders that are left
    next_x = where(down_x == 1, from_x, WHOLE - from_x)
    next_y = where(down_y == 1, from_y, WHOLE - from_y)
    next_z = where(down_z == 1, from_z, WHOLE - from_z)
    left_x = maximum(over_x, -over_x)
    left_y = maximum(over_y, -over_y)
    left_z = maximum(over_z, -over_z)
    new = listed
    while left_x + left_y + left_z > 0:
        at_x = is_next(left_x, next_x, length_x, down_x, left_y, next_y, length_y, down_y, left_z, next_z, length_z, down_z)
        at_y = is_next(left_y, next_y, length_y, down_y, left_x, next_x, length_x, down_x, left_z, next_z, length_z, down_z)
        at_z = is_next(left_z, next_z, length_z, down_z, left_x, next_x, length_x, down_x, left_y, next_y, length_y, down_y)
        if LISTS:
            if at_x == 1:
                leave(next_x, length_x, segment, first, item, passage)
            else:
                if at_y == 1:
                    leave(next_y, length_y, segment, first, item, passage)
                else:
                    leave(next_z, length_z, segment, first, item, passage)
        x = x + at_x * (1 - 2 * down_x)
        y = y + at_y * (1 - 2 * down_y)
        z = z + at_z * (1 - 2 * down_z)
        left_x = left_x - at_x
        left_y = left_y - at_y
        left_z = left_z - at_z
        next_x = next_x + at_x * WHOLE
        next_y = next_y + at_y * WHOLE
        next_z = next_z + at_z * WHOLE
        new = enter(x, y, z, grid, new, first, visited, item, passage)
    if LISTS:
        leave(1, 1, segment, first, item, passage)
    return new


@func
def begin(c: vec3, grid: Grid, first: i32, visited: Ints, item: i32, passage: Passage) -> i32:
    """List the voxel of the first point; return how many voxels are listed then."""
    return enter(i32(floor(c[0])), i32(floor(c[1])), i32(floor(c[2])), grid, 0, first, visited, item, passage)


@func
def count(listed: i32, first: i32, visited: Ints, counts: Ints, by: i32, item: i32, passage: Passage):
    """Add ``by`` to the counts of the listed voxels, or tell the host how many there are."""
    if LISTS:
        passage.listed[item] = listed
    else:
        for k in each(listed):
            add(counts, visited[first + k], by)


@func
def count_points(
    item: i32, points: Reals, offsets: Ints, grid: Grid, slot: Ints, visited: Ints, counts: Ints, passage: Passage
):
    """Count a streamline whose points are in RASmm; its voxels are listed from ``slot[item]`` on."""
    place = 3 * offsets[item]
    listed = 0
    if offsets[item + 1] > offsets[item]:
        here = on_grid(vec3(points[place], points[place + 1], points[place + 2]), grid)
        listed = begin(here, grid, slot[item], visited, item, passage)
        for segment in range(offsets[item + 1] - offsets[item] - 1):
            place = place + 3
            there = on_grid(vec3(points[place], points[place + 1], points[place + 2]), grid)
            listed = pass_through(here, there, grid, listed, slot[item], visited, offsets[item] + segment, item, passage)
            here = there
    count(listed, slot[item], visited, counts, 1, item, passage)


@func
def count_steps(item: i32, earlier: i32, accepted: Ints, run: Run, affine: Affine, grid: Grid, slot: Ints, visited: Ints, counts: Ints, by: i32, passage: Passage):
    """Count a streamline that has grown, by repeating its steps from the seed, half by half.

    It is number ``accepted[earlier + item]``, so that launches of a chunk share this array; ``by`` is -1 to take it back.
    """
    number = earlier + item
    streamline = accepted[number]
    place = 3 * run.halves.seed[streamline]
    seed = vec3(run.seeds.points[place], run.seeds.points[place + 1], run.seeds.points[place + 2])
    c0 = u32(run.halves.seed[streamline]) + run.rules.first_seed
    listed = begin(on_grid(transformed(seed, affine), grid), grid, slot[number], visited, item, passage)
    for side in range(2):
        half = 2 * streamline + side
        c2 = u32(run.halves.branch[streamline] * 2 + side)
        state = State()
        trail = Trail()
        begin_again(trail, state, half, c0, c2, run)
        here = on_grid(transformed(trail.p, affine), grid)
        steps = run.halves.state[2 * half]
        for k in range(steps):
            take_again(trail, state, half, k, steps, c0, c2, run)
            there = on_grid(transformed(trail.p, affine), grid)
            listed = pass_through(here, there, grid, listed, slot[number], visited, k, item, passage)
            here = there
    count(listed, slot[number], visited, counts, by, item, passage)
