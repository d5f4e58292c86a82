"""Visits: the fixels that a streamline passes through, and the length of its path in each of them.

A streamline is a curve through its points, Hermite's as in MRtrix3's ``tckmap -precise`` and ``tcksift2``, which is followed
in steps of at most a tenth of a voxel.  The chord from where it enters a voxel to where it leaves it tells which of the voxel's
fixels it visits: that of the direction of a half sphere nearest to it (Smith et al. 2013).

Each lane follows a streamline of its own.  Visits of 32 streamlines lie side by side: one word for each lane, then the next.
"""

from ...linker.lang import *
from ...linker.maths import floored, reciprocal_root
from ..lanes import Cells, either, length_of, nearest_vertex, normalised
from ..products.points import Affine, transform_point

FIXEL_BITS = 24  # of a word; the others are the length
FIXEL_MASK = (1 << FIXEL_BITS) - 1
MOST_UNITS = 255  # of length in a word: the diagonal of a voxel
RECENT = 4  # visits among which an earlier one of the same fixel is looked for, to which a length is added
NO_LOBE = 127  # of a direction in a voxel without fixels
WORDS = Constant("words that have the lobes of all directions in a voxel, four to a word")


class Paths(Record):
    """Streamlines of many teams: the first point of each lane's in ``points`` (RASmm), and how many points it has, 0 for none.

    ``ratio`` steps lead from a point to the next one; ``blend`` has the weights of four points at the end of each of them.
    """

    points: Reals
    first: Ints
    counts: Ints
    ratio: i32
    blend: Reals


class FixelGrid(Record):
    """The voxels of an image and their fixels.

    ``to_voxel`` leads from RASmm to voxel coordinates, ``to_mm`` along a way back to RASmm; ``row``, of each voxel, its number
    among those with fixels, or -1; ``first``, of each of these, its first fixel; ``lobes``, of each of these, the fixel within
    the voxel of each direction; ``vertices`` and ``cells``, the directions, see :func:`..lanes.nearest_vertex`.
    ``units`` of length in a millimetre.
    """

    to_voxel: Affine
    to_mm: Affine
    across: i32
    deep: i32
    high: i32
    row: Ints
    first: Ints
    lobes: Ints
    vertices: Reals
    cells: Cells
    units: real


class VisitSlots(Record):
    """Visits: ``begin``, of each team, its first word, and ``depth``, the visits for which each of its lanes has room.

    ``words``, visits, and behind those of a team 32 words that count for nothing; ``visited``, visits of each lane, which may
    be more than there is room for.
    """

    begin: Ints
    depth: Ints
    words: Ints
    visited: Ints


class Course(Record):
    """Local variables of a lane: its place (voxel coordinates), its voxel, where it entered that, and its length since (mm)."""

    p: vec3
    x: i32
    y: i32
    z: i32
    entry: vec3
    length: real
    visits: i32


@func
def visit_of(fixel: i32, units: i32) -> i32:
    """The word of a visit."""
    return fixel | (units << FIXEL_BITS)


@func
def fixel_of(visit: i32) -> i32:
    """The fixel that is visited."""
    return visit & FIXEL_MASK


@func
def units_of(visit: i32) -> i32:
    """The length of a visit."""
    return (visit >> FIXEL_BITS) & MOST_UNITS


@func
def point_of(paths: Paths, grid: FixelGrid, number: i32) -> vec3:
    """Voxel coordinates of each lane's point."""
    place = 3 * number
    p = vec3(take(paths.points, place), take(paths.points, place + 1), take(paths.points, place + 2))
    return transform_point(p, grid.to_voxel)


@func
def onward(a: vec3, b: vec3) -> vec3:
    """The point as far beyond ``b`` as that is from ``a``."""
    return vec3(2.0 * b[0] - a[0], 2.0 * b[1] - a[1], 2.0 * b[2] - a[2])


@func
def between(blend: Reals, k: i32, a: vec3, b: vec3, c: vec3, d: vec3) -> vec3:
    """Where Hermite's curve from ``b`` to ``c`` is after step ``k``."""
    return vec3(
        ((blend[4 * k] * a[0] + blend[4 * k + 1] * b[0]) + blend[4 * k + 2] * c[0]) + blend[4 * k + 3] * d[0],
        ((blend[4 * k] * a[1] + blend[4 * k + 1] * b[1]) + blend[4 * k + 2] * c[1]) + blend[4 * k + 3] * d[1],
        ((blend[4 * k] * a[2] + blend[4 * k + 1] * b[2]) + blend[4 * k + 2] * c[2]) + blend[4 * k + 3] * d[2],
    )


@func
def border_met(p: real, q: real, voxel: i32) -> real:
    """The part of the way from p to q up to where it leaves the voxel along an axis; 2 where it does not."""
    centre = real(voxel)
    up = q >= centre + 0.5
    ahead = where(up, (centre + 0.5) - p, p - (centre - 0.5))
    way = q - p
    part = minimum(maximum(ahead * reciprocal_root(way * way), 0.0), 1.0)
    return where(up | (q < centre - 0.5), part, 2.0)


@func
def fixel_at(grid: FixelGrid, x: i32, y: i32, z: i32, chord: vec3) -> i32:
    """The fixel of each lane's voxel to which the direction of a chord (mm) belongs; -1 without one."""
    within = (x >= 0) & (x < grid.across) & (y >= 0) & (y < grid.deep) & (z >= 0) & (z < grid.high)
    row = take(grid.row, where(within, (x * grid.deep + y) * grid.high + z, 0))
    there = within & (row >= 0)
    row = maximum(row, 0)
    vertex = nearest_vertex(grid.vertices, grid.cells, normalised(chord))
    lobe = (take(grid.lobes, row * WORDS + (vertex >> 2)) >> ((vertex & 3) * 8)) & 255
    return where(there & (lobe != NO_LOBE), take(grid.first, row) + lobe, -1)


@stage
def end_visits(course: Course, ends: i32, item: i32, grid: FixelGrid, slots: VisitSlots):
    """Note the visits of the lanes that leave their voxels (``ends`` is 1) where they are."""
    way = vec3(course.p[0] - course.entry[0], course.p[1] - course.entry[1], course.p[2] - course.entry[2])
    fixel = fixel_at(grid, course.x, course.y, course.z, transform_point(way, grid.to_mm))
    units = minimum(i32(course.length * grid.units + 0.5), MOST_UNITS)
    counts = (ends == 1) & (fixel >= 0) & (units > 0)
    depth = slots.depth[item]
    base = slots.begin[item] + lane()
    slot = where(counts & (course.visits < depth), course.visits, depth)
    word = visit_of(fixel, units)
    more = where(counts, 1, 0)
    for back in range(RECENT):
        earlier = course.visits - (back + 1)
        known = counts & (earlier >= 0) & (earlier < depth)
        other = take(slots.words, base + 32 * where(known, earlier, depth))
        both = units + units_of(other)
        same = known & (fixel_of(other) == fixel) & (both <= MOST_UNITS) & (more == 1)
        slot = where(same, earlier, slot)
        word = where(same, visit_of(fixel, both), word)
        more = where(same, 0, more)
    slots.words[base + 32 * slot] = word
    course.visits = course.visits + more
    course.entry = either(ends, course.p, course.entry)
    course.length = where(ends == 1, 0.0, course.length)


@stage
def go_to(course: Course, q: vec3, item: i32, grid: FixelGrid, slots: VisitSlots):
    """Follow a straight way to q through all voxels on it."""
    going = 1
    while going == 1:
        tx = border_met(course.p[0], q[0], course.x)
        ty = border_met(course.p[1], q[1], course.y)
        tz = border_met(course.p[2], q[2], course.z)
        t = minimum(tx, minimum(ty, tz))
        leaves = where(t <= 1.0, 1, 0)
        way = vec3(q[0] - course.p[0], q[1] - course.p[1], q[2] - course.p[2])
        border = vec3(course.p[0] + t * way[0], course.p[1] + t * way[1], course.p[2] + t * way[2])
        ahead = either(leaves, border, q)
        way = vec3(ahead[0] - course.p[0], ahead[1] - course.p[1], ahead[2] - course.p[2])
        course.length = course.length + length_of(transform_point(way, grid.to_mm))
        course.p = ahead
        going = team_any(leaves == 1)
        if going == 1:
            end_visits(course, leaves, item, grid, slots)
            along_x = (leaves == 1) & (tx == t)
            along_y = (leaves == 1) & (tx != t) & (ty == t)
            along_z = (leaves == 1) & (tx != t) & (ty != t)
            course.x = course.x + where(along_x, where(q[0] > real(course.x), 1, -1), 0)
            course.y = course.y + where(along_y, where(q[1] > real(course.y), 1, -1), 0)
            course.z = course.z + where(along_z, where(q[2] > real(course.z), 1, -1), 0)


@func
def visit_fixels(item: i32, paths: Paths, grid: FixelGrid, slots: VisitSlots):
    """Find the visits of 32 streamlines."""
    first = at(paths.first, 32 * item)
    count = at(paths.counts, 32 * item)
    last = first + maximum(count - 1, 0)
    b = point_of(paths, grid, first)
    c = point_of(paths, grid, minimum(first + 1, last))
    a = onward(c, b)
    course = Course()
    course.p = b
    course.x = i32(floored(b[0] + 0.5))
    course.y = i32(floored(b[1] + 0.5))
    course.z = i32(floored(b[2] + 0.5))
    course.entry = b
    course.length = lanes(0.0)
    course.visits = lanes(0)
    for segment in range(i32(team_max(real(count))) - 1):
        here = where(segment < count - 1, 1, 0)
        d = either(last - first - (segment + 1), point_of(paths, grid, minimum(first + (segment + 2), last)), onward(b, c))
        for k in range(paths.ratio):
            go_to(course, either(here, between(paths.blend, k, a, b, c, d), course.p), item, grid, slots)
        a = either(here, b, a)
        b = either(here, c, b)
        c = either(here, d, c)
    end_visits(course, where(count > 1, 1, 0), item, grid, slots)
    put(slots.visited, 32 * item, course.visits)
