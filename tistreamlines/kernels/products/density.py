"""How many streamlines pass through each voxel of a grid, or end there.

A streamline counts once in each voxel that holds one of its points or a point of the segments between them.  A point on
the border of two voxels belongs to the one with the higher index.  Coordinates on the grid are rounded down to 2^-20 of
a voxel; after that everything is done in whole numbers, so the map depends neither on the order of the streamlines nor
on the number of threads.  The voxels of a streamline are listed, and the lanes of its team look a voxel up together.
Each lane writes the whole list and reads only its copy, because a barrier does not order the memory of a GPU outside
the block.

The kernels can hand these lists to the host instead of counts (LISTS). They can share amounts of each segment, such as
its length, among the voxels that it passes (SHARES), in proportion to the part of the segment that lies in each of
them.

Where ends are counted, both ends count, also in the same voxel; a single point counts once.
"""

from __future__ import annotations

from ...linker.lang import *
from ...linker.maths import divide
from ..halves import *
from ..trail import *
from .points import Affine, transform_point

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
    """Amounts of a streamline in the voxels that it passes, as whole numbers; each amount has SHARES entries.

    For each streamline: ``listed``, how many voxels are listed; ``here``, which of them its last point lies in, -1 outside the
    grid; ``shared``, the amounts of the current segment up to there.  For each segment, in the order of the points that it
    begins with: ``spans``, its amounts, from 0 on.  For each listed voxel: ``amounts``.
    """

    listed: Ints
    here: Ints
    shared: Ints
    spans: Ints
    amounts: Ints


class Counting(Context):
    """Tables for counting streamlines.

    ``grid``; ``visited``, the voxels that are listed, of each streamline from its ``slot`` on; ``counts`` of each voxel of the
    grid; ``passage``.
    """

    grid: Grid
    slot: Ints
    visited: Ints
    counts: Ints
    passage: Passage


class Axis(Record):
    """Local variables: how far a segment has come along an axis of the grid.

    ``voxel``, the one that it is in; ``left``, the borders that are still to be crossed; ``distance`` from its beginning to the
    next one, and its ``length``, both in 2^-20 voxels; ``down``, 1 if it leads to lower voxels.
    """

    voxel: i32
    left: i32
    distance: i32
    length: i32
    down: i32


@func
def on_grid(p: vec3, grid: Grid) -> vec3:
    """Coordinates of a point in RASmm; a voxel begins at a whole number."""
    c = transform_point(p, grid)
    return vec3(
        minimum(maximum(c[0], LOW), HIGH), minimum(maximum(c[1], LOW), HIGH), minimum(maximum(c[2], LOW), HIGH)
    )


@func
def beyond_border(c: real) -> i32:
    """Distance from the lower border of the voxel, in 2^-20 voxels."""
    return minimum(i32((c - floor(c)) * SCALE), WHOLE - 1)


@func
def enter(x: i32, y: i32, z: i32, listed: i32, first: i32, item: i32, counting: Counting) -> i32:
    """List a voxel, unless that is outside or already among the ``listed`` voxels from ``first`` on.

    Returns how many voxels are listed then.
    """
    new = listed
    if LISTS:
        counting.passage.here[item] = -1
    if (x >= 0) & (x < counting.grid.across) & (y >= 0) & (y < counting.grid.deep) & (z >= 0) & (z < counting.grid.high):
        place = (x * counting.grid.deep + y) * counting.grid.high + z
        known = lanes(0)
        for turn in range((listed + 31) >> 5):
            same = (at(counting.visited, first + 32 * turn) == place) & (32 * turn + lane() < listed)
            if LISTS:
                known = where(same, 32 * turn + lane() + 1, known)
            else:
                known = where(same, 1, known)
        if LISTS:
            number = i32(team_max(real(known)))
            counting.passage.here[item] = where(number == 0, listed, number - 1)
        else:
            number = team_any(known == 1)
        if number == 0:  # the voxel is not listed yet
            # every lane writes it, and so each lane reads what it wrote itself
            counting.visited[first + listed] = place
            if LISTS:
                for share in range(SHARES):
                    counting.passage.amounts[SHARES * (first + listed) + share] = 0
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


@stage
def begin_axis(axis: Axis, a: real, b: real):
    """Stand at the beginning of a segment from coordinate a to b."""
    axis.voxel = i32(floor(a))
    over = i32(floor(b)) - axis.voxel
    begin = beyond_border(a)
    axis.length = over * WHOLE + beyond_border(b) - begin
    axis.down = where(axis.length < 0, 1, 0)
    axis.length = maximum(axis.length, -axis.length)
    axis.distance = where(axis.down == 1, begin, WHOLE - begin)
    axis.left = maximum(over, -over)


@stage
def cross(axis: Axis, crossed: i32):
    """Enter the next voxel if ``crossed`` is 1; stay if it is 0."""
    axis.voxel = axis.voxel + crossed * (1 - 2 * axis.down)
    axis.left = axis.left - crossed
    axis.distance = axis.distance + crossed * WHOLE


@func
def is_before(axis: Axis, other: Axis) -> i32:
    """Whether a border is met before that of another axis; one that is left downwards belongs to the voxel that is left.

    Nothing is divided: products of 64 bits are compared, so borders that are met together are found.
    """
    high = umulhi(u32(axis.distance), u32(other.length))
    low = u32(axis.distance) * u32(other.length)
    other_high = umulhi(u32(other.distance), u32(axis.length))
    other_low = u32(other.distance) * u32(axis.length)
    before = where(high < other_high, 1, 0)
    if high == other_high:
        before = where(low < other_low, 1, 0)
        if low == other_low:
            before = where(axis.down < other.down, 1, 0)
    return before


@func
def is_next(axis: Axis, second: Axis, third: Axis) -> i32:
    """Whether the border of an axis is met before those of two others, or together with them."""
    first = where(axis.left > 0, 1, 0)
    if (axis.left > 0) & (second.left > 0):
        first = 1 - is_before(second, axis)
    if (first == 1) & (third.left > 0):
        first = 1 - is_before(third, axis)
    return first


@func
def pass_through(a: vec3, b: vec3, segment: i32, listed: i32, first: i32, item: i32, counting: Counting) -> i32:
    """List each voxel that holds a point of the segment from a to b, except that of a itself."""
    x = Axis()
    y = Axis()
    z = Axis()
    begin_axis(x, a[0], b[0])
    begin_axis(y, a[1], b[1])
    begin_axis(z, a[2], b[2])
    new = listed
    while x.left + y.left + z.left > 0:
        at_x = is_next(x, y, z)
        at_y = is_next(y, x, z)
        at_z = is_next(z, x, y)
        if LISTS:
            if at_x == 1:
                leave(x.distance, x.length, segment, first, item, counting.passage)
            else:
                if at_y == 1:
                    leave(y.distance, y.length, segment, first, item, counting.passage)
                else:
                    leave(z.distance, z.length, segment, first, item, counting.passage)
        cross(x, at_x)
        cross(y, at_y)
        cross(z, at_z)
        new = enter(x.voxel, y.voxel, z.voxel, new, first, item, counting)
    if LISTS:
        leave(1, 1, segment, first, item, counting.passage)
    return new


@func
def begin(c: vec3, first: i32, item: i32, counting: Counting) -> i32:
    """List the voxel of the first point; return how many voxels are listed then."""
    return enter(i32(floor(c[0])), i32(floor(c[1])), i32(floor(c[2])), 0, first, item, counting)


@func
def count(listed: i32, by: i32, first: i32, item: i32, counting: Counting):
    """Add ``by`` to the counts of the listed voxels, or tell the host how many there are."""
    if LISTS:
        counting.passage.listed[item] = listed
    else:
        for k in each(listed):
            add(counting.counts, counting.visited[first + k], by)


@func
def count_points(item: i32, points: Reals, offsets: Ints, counting: Counting):
    """Count a streamline whose points are in RASmm; its voxels are listed from ``slot[item]`` on."""
    place = 3 * offsets[item]
    first = counting.slot[item]
    listed = 0
    if offsets[item + 1] > offsets[item]:
        here = on_grid(vec3(points[place], points[place + 1], points[place + 2]), counting.grid)
        listed = begin(here, first, item, counting)
        for segment in range(offsets[item + 1] - offsets[item] - 1):
            place = place + 3
            there = on_grid(vec3(points[place], points[place + 1], points[place + 2]), counting.grid)
            listed = pass_through(here, there, offsets[item] + segment, listed, first, item, counting)
            here = there
    count(listed, 1, first, item, counting)


@func
def count_steps(item: i32, earlier: i32, accepted: Ints, run: Run, affine: Affine, by: i32, counting: Counting):
    """Count a streamline that has grown, by repeating its steps from the seed, half by half.

    It is number ``accepted[earlier + item]``, so that launches of a chunk share this array; ``by`` is -1 to take it back.
    """
    streamline = accepted[earlier + item]
    first = counting.slot[earlier + item]
    place = 3 * run.halves.seed[streamline]
    seed = vec3(run.seeds.points[place], run.seeds.points[place + 1], run.seeds.points[place + 2])
    c0 = u32(run.halves.seed[streamline]) + run.rules.first_seed
    listed = begin(on_grid(transform_point(seed, affine), counting.grid), first, item, counting)
    for side in range(2):
        half = 2 * streamline + side
        c2 = u32(run.halves.branch[streamline] * 2 + side)
        state = State()
        trail = Trail()
        begin_again(trail, state, half, c0, c2, run)
        here = on_grid(transform_point(trail.p, affine), counting.grid)
        steps = run.halves.state[2 * half]
        for k in range(steps):
            take_again(trail, state, half, k, steps, c0, c2, run)
            there = on_grid(transform_point(trail.p, affine), counting.grid)
            listed = pass_through(here, there, k, listed, first, item, counting)
            here = there
    count(listed, by, first, item, counting)


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
            mark(on_grid(transform_point(trail.p, affine), grid), grid, counts, by)
