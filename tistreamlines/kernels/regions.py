"""Regions of interest: which regions hold a point, and what the points of a streamline so far mean for it.

Each region, or union of regions, has one bit.  A streamline is rejected as soon as one of its points certainly lies in an exclude
region; whether it has visited all include regions is known when it has ended.  The rules are those of MRtrix3's ``ROI``.
"""

from __future__ import annotations

from ..linker.lang import *

EXCLUDE, LIMIT, FIRST_END, SECOND_END = 1, 2, 4, 8  # bits of unions of regions; those of include regions follow
INCLUDES = 4  # number of the first include region's bit
MOST_INCLUDES = 26
ROWS, SIDES = "xx xy xz x0 yx yy yz y0 zx zy zz z0".split(), "across deep high".split()  # fields of the first grid


class Demands(Record):
    """What is demanded of streamlines, as bits.

    ``counted`` are those that add up in any order (EXCLUDE and the include regions), ``ordered`` the regions that must be entered
    in the order of their bits, of which ``first`` is the first.  ``limited``: LIMIT if streamlines end outside it, else 0.
    ``stops``: 1 if they end once all of ``wanted`` are visited.  ``ends``: number of regions in which they must end.
    """

    counted: i32
    ordered: i32
    first: i32
    wanted: i32
    limited: i32
    stops: i32
    ends: i32


class Regions(Demands):
    """Grids of voxels and spheres.

    Of the first grid: ``xx`` to ``z0``, three rows of four numbers from voxel coordinates of the tracked image to those of the
    grid, and its numbers of voxels. Of each further one the same in ``matrix`` and ``sides``, and its first element in
    ``voxels``, where each voxel has the bits of its regions; most runs have one grid, and numbers are faster than arrays.
    For each sphere: centre (voxel coordinates of the tracked image) and square of the radius (mm) in ``balls``, bits in
    ``ball_bits``.  ``side_x``, ``side_y`` and ``side_z`` are those of a voxel of the tracked image in mm.
    """

    xx: real
    xy: real
    xz: real
    x0: real
    yx: real
    yy: real
    yz: real
    y0: real
    zx: real
    zy: real
    zz: real
    z0: real
    across: i32
    deep: i32
    high: i32
    further: i32
    matrix: Reals
    sides: Ints
    voxels: Ints
    spheres: i32
    balls: Reals
    ball_bits: Ints
    side_x: real
    side_y: real
    side_z: real


@twin
def nearest(a: real, b: real, c: real, d: real, p: vec3) -> i32:
    """Nearest voxel of a grid along one axis."""
    return i32(floor(a * p[0] + b * p[1] + c * p[2] + d + 0.5))


@twin
def bits_of(voxels: Ints, first: i32, across: i32, deep: i32, high: i32, x: i32, y: i32, z: i32) -> i32:
    """Bits of a grid's voxel; none outside the grid."""
    found = 0
    if (x >= 0) & (x < across) & (y >= 0) & (y < deep) & (z >= 0) & (z < high):
        found = voxels[first + (x * deep + y) * high + z]
    return found


@twin
def marks_at(filter: Regions, p: vec3) -> i32:
    """Bits of the regions that hold a point: of its nearest voxel in each grid, and of the spheres around it."""
    x = nearest(filter.xx, filter.xy, filter.xz, filter.x0, p)
    y = nearest(filter.yx, filter.yy, filter.yz, filter.y0, p)
    z = nearest(filter.zx, filter.zy, filter.zz, filter.z0, p)
    found = bits_of(filter.voxels, 0, filter.across, filter.deep, filter.high, x, y, z)
    for g in range(filter.further):
        m = 12 * g
        x = nearest(filter.matrix[m], filter.matrix[m + 1], filter.matrix[m + 2], filter.matrix[m + 3], p)
        y = nearest(filter.matrix[m + 4], filter.matrix[m + 5], filter.matrix[m + 6], filter.matrix[m + 7], p)
        z = nearest(filter.matrix[m + 8], filter.matrix[m + 9], filter.matrix[m + 10], filter.matrix[m + 11], p)
        first = filter.sides[4 * g + 3]
        found = found | bits_of(
            filter.voxels, first, filter.sides[4 * g], filter.sides[4 * g + 1], filter.sides[4 * g + 2], x, y, z
        )  # fmt: skip
    for s in range(filter.spheres):
        dx = filter.side_x * (p[0] - filter.balls[4 * s])
        dy = filter.side_y * (p[1] - filter.balls[4 * s + 1])
        dz = filter.side_z * (p[2] - filter.balls[4 * s + 2])
        if dx * dx + dy * dy + dz * dz <= filter.balls[4 * s + 3]:
            found = found | filter.ball_bits[s]
    return found


@twin
def gathered(filter: Demands, met: i32, here: i32) -> i32:
    """Add the bits of a point that the streamline keeps to those that it has met; adding a point twice changes nothing.

    EXCLUDE is also set by an ordered region that is entered before its turn, or again after the next one.
    """
    both = met | (here & filter.counted)
    inside = here & filter.ordered
    lowest = inside & (0 - inside)  # of overlapping regions, MRtrix3 counts the first
    turn = (met & filter.ordered) + filter.first  # bits of regions entered in order are consecutive
    if inside != 0:
        if lowest == turn:
            both = both | lowest
        elif lowest + lowest != turn:
            both = both | EXCLUDE
    return both


@twin
def fulfilled(filter: Demands, met: i32, one: i32, other: i32) -> i32:
    """1 if a streamline that has met ``met`` and ends in points with the bits ``one`` and ``other`` is accepted, else 0."""
    found = 0
    if (met & filter.wanted) == filter.wanted:
        crossed = (one & FIRST_END) * (other & SECOND_END) + (one & SECOND_END) * (other & FIRST_END)
        either = (one | other) & FIRST_END
        if (filter.ends == 0) | ((filter.ends == 1) & (either != 0)) | ((filter.ends == 2) & (crossed != 0)):
            found = 1
    return found
