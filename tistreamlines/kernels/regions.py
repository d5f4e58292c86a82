"""Regions of interest: which regions hold a point, and what the points of a streamline so far mean for it.

Each region, or union of regions, has one bit.  A streamline is rejected as soon as one of its points certainly lies in an exclude
region; whether it has visited all include regions is known when it has ended.  The rules are those of MRtrix3's ``ROI``.
"""

from __future__ import annotations

from ..linker.lang import *

EXCLUDE, LIMIT, FIRST_END, SECOND_END = 1, 2, 4, 8  # bits of unions of regions; those of include regions follow
INCLUDES = 4  # number of the first include region's bit
MOST_INCLUDES = 26


class Demands(Record):
    """What is demanded of streamlines, as bits.

    ``counted`` are those that add up in any order (EXCLUDE and the include regions), ``ordered`` the regions that must be entered
    in the order of their bits, of which ``first`` is the first.  ``limited``: LIMIT if streamlines end outside it, else 0.
    ``stops``: 1 if they end once all of ``wanted`` are visited.
    """

    counted: i32
    ordered: i32
    first: i32
    wanted: i32
    limited: i32
    stops: i32


class Regions(Demands):
    """Grids of voxels and spheres.

    For each grid: ``matrix``, three rows of four numbers from voxel coordinates of the tracked image to those of the grid;
    ``sides``, the numbers of voxels and the grid's first element in ``voxels``, where each voxel has the bits of its regions.
    For each sphere: centre (voxel coordinates of the tracked image) and square of the radius (mm) in ``balls``, bits in
    ``ball_bits``.  ``side_x``, ``side_y`` and ``side_z`` are those of a voxel of the tracked image in mm.
    """

    grids: i32
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
def nearest(regions: Regions, row: i32, p: vec3) -> i32:
    """Nearest voxel of a grid along one axis."""
    q = regions.matrix[row] * p[0] + regions.matrix[row + 1] * p[1] + regions.matrix[row + 2] * p[2]
    return i32(floor(q + regions.matrix[row + 3] + 0.5))


@twin
def marks_at(filter: Regions, p: vec3) -> i32:
    """Bits of the regions that hold a point: of its nearest voxel in each grid, and of the spheres around it."""
    found = 0
    for g in range(filter.grids):
        x = nearest(filter, 12 * g, p)
        y = nearest(filter, 12 * g + 4, p)
        z = nearest(filter, 12 * g + 8, p)
        if (x >= 0) & (y >= 0) & (z >= 0):
            if (x < filter.sides[4 * g]) & (y < filter.sides[4 * g + 1]) & (z < filter.sides[4 * g + 2]):
                place = (x * filter.sides[4 * g + 1] + y) * filter.sides[4 * g + 2] + z
                found = found | filter.voxels[filter.sides[4 * g + 3] + place]
    for s in range(filter.spheres):
        x = filter.side_x * (p[0] - filter.balls[4 * s])
        y = filter.side_y * (p[1] - filter.balls[4 * s + 1])
        z = filter.side_z * (p[2] - filter.balls[4 * s + 2])
        if x * x + y * y + z * z <= filter.balls[4 * s + 3]:
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
